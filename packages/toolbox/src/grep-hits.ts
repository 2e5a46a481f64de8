/** Collects what a search finds until there is enough, and writes it down. */

import { type GrepRecord, parseGrepRecord, parseLongRecord } from './grep-record.ts'

export type GrepOutput = 'content' | 'files' | 'count'

export interface HitLimits {
  /** Of matching lines; of files where no lines are shown. */
  readonly grepMatches: number
  readonly grepChars: number
  readonly grepLineChars: number
}

export interface HitLine {
  readonly number: number
  readonly text: string
  readonly isMatch: boolean
}

export interface FileHits {
  readonly path: string
  readonly lines: HitLine[]
  matches: number
}

export class GrepHits {
  readonly files: FileHits[] = []
  matches = 0
  truncated = false
  private readonly output: GrepOutput
  private readonly limits: HitLimits
  private readonly accepts: (path: string) => boolean
  private current: FileHits | undefined
  private chars = 0

  constructor(output: GrepOutput, limits: HitLimits, accepts: (path: string) => boolean) {
    this.output = output
    this.limits = limits
    this.accepts = accepts
  }

  /** Takes one line of `rg --json`. False when there is enough. */
  take(json: string): boolean {
    return parseGrepRecord(json, this.limits.grepLineChars).every(record => this.add(record))
  }

  /** Takes a line of it that is too long to be kept. */
  takeLong(start: string, number: string | undefined): boolean {
    return parseLongRecord(start, number).every(record => this.add(record))
  }

  private add(record: GrepRecord): boolean {
    if (record.kind === 'file') {
      this.current = this.accepts(record.path) ? { path: record.path, lines: [], matches: 0 } : undefined
      return true
    }
    const file = this.current
    if (!file) return true
    if (record.isMatch && this.isFull(file)) {
      this.truncated = true
      return false
    }
    // Lines before a file's first match are its context, and a file is one that has a match.
    if (this.output === 'content') this.addLine(file, record)
    if (!record.isMatch) return true
    if (!file.matches) this.files.push(file)
    file.matches++
    this.matches++
    return true
  }

  private isFull(file: FileHits): boolean {
    const { grepMatches, grepChars } = this.limits
    if (this.output !== 'content') return file.matches === 0 && this.files.length >= grepMatches
    return this.matches >= grepMatches || this.chars >= grepChars
  }

  private addLine(file: FileHits, { number, text, isMatch }: HitLine) {
    file.lines.push({ number, text, isMatch })
    this.chars += text.length
  }
}

export function renderHits(files: readonly FileHits[], output: GrepOutput, spell: (path: string) => string): string {
  if (output === 'files') return files.map(file => spell(file.path)).join('\n')
  if (output === 'count') return files.map(file => `${spell(file.path)}: ${file.matches}`).join('\n')
  return files.map(file => [spell(file.path), ...renderLines(file.lines)].join('\n')).join('\n\n')
}

/** `12: a match`, `13- its context`, `--` where lines are left out between stretches of context. */
function renderLines(lines: readonly HitLine[]): string[] {
  const gaps = lines.some(line => !line.isMatch)
  return lines.flatMap(({ number, text, isMatch }, i) => {
    const before = lines[i - 1]?.number ?? number
    return [...(gaps && number > before + 1 ? ['--'] : []), `${number}${isMatch ? ':' : '-'} ${text}`]
  })
}
