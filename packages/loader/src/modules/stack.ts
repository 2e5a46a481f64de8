/** What errors say about the place in somebody's own code. */

import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { errorMessage } from '@cambium/core'
import { labelOf } from '../file/source.ts'
import { plainText } from './url.ts'

/** What imports modules stands in the stack of what it did not find. */
const OURS = new URL('./', import.meta.url).href

/** The innermost frame outside of packages: `plugins/gate.ts:12:9`. */
export function ownFrame(error: unknown): string | undefined {
  for (const line of (error instanceof Error && error.stack?.split('\n')) || []) {
    const at = /^ +at .*?((?:file:\/\/|\/)[^\s()]+?)(?:\?[^:()]*)?:(\d+):(\d+)\)?$/.exec(line)
    if (!at || /node_modules|node:internal/.test(line) || line.includes(OURS)) continue
    return `${fileLabel(at[1]!)}:${at[2]}:${at[3]}`
  }
  return undefined
}

export interface ImportProblem {
  readonly problem: string
  /** Where in the module's own code, when that can be told. */
  readonly place: string | undefined
  readonly syntax: boolean
}

/** One line about a module that cannot be loaded. Its syntax, and that of `suspects`, is checked when nothing else tells. */
export async function importProblem(
  error: unknown,
  url: string,
  suspects: readonly string[] = [],
): Promise<ImportProblem> {
  const lines = plainText(errorMessage(error)).split('\n')
  // A compiler counts its errors first and tells them after: `Transform failed with 1 error:`.
  const compiled = lines[0]!.endsWith(':') ? /^(\/.+):(\d+):(\d+): (?:ERROR: )?(.+)$/.exec(lines[1] ?? '') : null
  if (compiled) {
    // Its columns begin with 0.
    const place = `${fileLabel(compiled[1]!)}:${compiled[2]}:${Number(compiled[3]) + 1}`
    return { problem: compiled[4]!, place, syntax: true }
  }
  const problem = lines[0]!.replace(/(module '| imported from )(\/[^']+)/g, (_, before, path) => before + labelOf(path))
  if (!(error instanceof SyntaxError))
    return { problem, place: importPlace(error, lines) ?? ownFrame(error), syntax: false }
  let place = headPlace(error.stack ?? '')
  for (const file of new Set([url, ...suspects])) place ??= headPlace(await checkSyntax(file))
  return { problem, place, syntax: true }
}

/** Where the import or `require` stands that leads to nothing: Node names the file alone. */
function importPlace(error: unknown, [first = '']: readonly string[]): string | undefined {
  const [, missing, importer] = /^Cannot find (?:module|package) '([^']+)'(?: imported from (.+))?$/.exec(first) ?? []
  const file = importer ?? (error as { requireStack?: string[] }).requireStack?.[0]
  if (missing === undefined || file === undefined) return undefined
  let text: string
  try {
    text = readFileSync(file, 'utf8')
  } catch {
    // It is no file, or is gone meanwhile.
    return undefined
  }
  const leadsThere = (name: string) =>
    name === missing ||
    name.startsWith(`${missing}/`) ||
    (name.startsWith('.') && resolve(dirname(file), name) === missing)
  for (const { 2: name, index } of text.matchAll(/(['"])([^'"\n]+)\1/g)) {
    if (!leadsThere(name!)) continue
    const before = text.slice(0, index).split('\n')
    return `${fileLabel(file)}:${before.length}:${before.at(-1)!.length + 1}`
  }
  return undefined
}

/** Node begins its account of a syntax error with the file and the line, and marks the column below. */
function headPlace(account: string): string | undefined {
  const [, file, line] = /^((?:file:\/\/|\/)\S+?)(?:\?\S*)?:(\d+)\n/.exec(account) ?? []
  if (!file) return undefined
  const caret = account.split('\n').find(text => /^\s*\^+\s*$/.test(text))
  return `${fileLabel(file)}:${line}${caret ? `:${caret.indexOf('^') + 1}` : ''}`
}

/** Node's own account: it prints where the syntax of a module breaks, but keeps that from who catches the error. */
function checkSyntax(url: string): Promise<string> {
  if (!/^file:.*\.[cm]?js$/.test(url)) return Promise.resolve('')
  return new Promise(resolve => {
    const options = { timeout: 5_000, env: { ...process.env, NODE_OPTIONS: '' } }
    execFile(process.execPath, ['--check', fileURLToPath(url)], options, (_error, _stdout, stderr) => resolve(stderr))
  })
}

function fileLabel(file: string): string {
  return labelOf(file.startsWith('file:') ? fileURLToPath(file) : file)
}
