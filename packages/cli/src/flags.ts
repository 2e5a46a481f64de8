/** Command lines: one table per command says what is accepted, what `--help` lists and what is suggested. */

import { parseArgs } from 'node:util'
import { HarnessError, nearest } from '@cambium/core'

export interface Flag {
  /** What the value is called in the help, as `<n>`; a flag without one is a switch. */
  readonly value?: string
  /** The value may be left out; given as the next word only when that word passes the test. `others` stand behind it. */
  readonly optional?: (word: string, others: readonly string[]) => boolean
  readonly short?: string
  /** May be given several times. */
  readonly many?: true
  readonly help: string
}

export type FlagTable = Readonly<Record<string, Flag>>

export interface CommandLine {
  /** Values in the order they were given; an empty string for a switch and for a value that was left out. */
  readonly flags: ReadonlyMap<string, readonly string[]>
  readonly words: readonly string[]
}

/** A mistake on the command line: printed with the few lines one needs, exit code 2. */
export const usageError = (problem: string, fix?: string): HarnessError =>
  new HarnessError('CLI_USAGE', problem, { fix })

/** Reads `argv` by the table. @throws `CLI_USAGE` naming the flag, with the nearest known one. */
export function readFlags(argv: readonly string[], table: FlagTable): CommandLine {
  const options: Record<string, { type: 'string' | 'boolean'; short?: string }> = {}
  for (const [name, flag] of Object.entries(table)) {
    options[name] = {
      type: flag.value && !flag.optional ? 'string' : 'boolean',
      ...(flag.short ? { short: flag.short } : {}),
    }
  }
  const { tokens } = parseArgs({ args: [...argv], options, strict: false, allowPositionals: true, tokens: true })
  const flags = new Map<string, string[]>()
  const words: string[] = []
  let open: { values: string[]; index: number; test: NonNullable<Flag['optional']> } | undefined
  const positionals = tokens.filter(token => token.kind === 'positional')
  for (const token of tokens) {
    if (token.kind === 'positional') {
      const others = positionals.filter(({ index }) => index > token.index).map(({ value }) => value)
      if (open && token.index === open.index + 1 && open.test(token.value, others)) open.values[0] = token.value
      else words.push(token.value)
    }
    open = undefined
    if (token.kind !== 'option') continue
    const flag = Object.hasOwn(table, token.name) ? table[token.name] : undefined
    if (!flag) throw unknownFlag(token.rawName, table)
    const spelt = `--${token.name}`
    if (!flag.value && token.value !== undefined) throw usageError(`${spelt} takes no value`)
    if (flag.value && !flag.optional) {
      const missing = token.value === undefined || (!token.inlineValue && token.value.startsWith('-'))
      if (missing) throw usageError(`${spelt} needs a value`, `write ${spelt} ${flag.value}`)
    }
    const values = flags.get(token.name) ?? []
    if (values.length && !flag.many) throw usageError(`${spelt} is given twice`)
    values.push(token.value ?? '')
    flags.set(token.name, values)
    if (flag.optional && token.value === undefined) open = { values, index: token.index, test: flag.optional }
  }
  return { flags, words }
}

function unknownFlag(name: string, table: FlagTable): HarnessError {
  const near = nearest(name.replace(/^-+/, ''), Object.keys(table))
  return usageError(`unknown flag ${name}`, near ? `did you mean --${near}?` : undefined)
}

/** The table as the lines of a help text. */
export function describeFlags(table: FlagTable): string {
  const rows = Object.entries(table).map(([name, flag]) => {
    const value = flag.value ? (flag.optional ? ` [${flag.value.slice(1, -1)}]` : ` ${flag.value}`) : ''
    return [`${flag.short ? `-${flag.short}, ` : '    '}--${name}${value}`, flag.help] as const
  })
  const width = Math.max(...rows.map(([left]) => left.length))
  return rows
    .map(([left, help]) => `  ${left.padEnd(width)}  ${help.replaceAll('\n', `\n${' '.repeat(width + 4)}`)}`)
    .join('\n')
}

/** `90`, `90s`, `5m`, `1h` in milliseconds. @throws `CLI_USAGE` */
export function readDuration(flag: string, text: string): number {
  const match = /^(\d+(?:\.\d+)?)(ms|s|m|h)?$/.exec(text)
  const unit = { ms: 1, s: 1000, m: 60_000, h: 3_600_000 }[match?.[2] ?? 's'] ?? 1000
  const ms = match ? Math.round(Number(match[1]) * unit) : 0
  if (ms <= 0) throw usageError(`--${flag} ${text} is not a duration`, 'write seconds, or 90s, 5m, 1h')
  return ms
}

/** @throws `CLI_USAGE` unless the text is a whole number from 1 up. */
export function readCount(flag: string, text: string): number {
  if (!/^[1-9]\d{0,8}$/.test(text)) throw usageError(`--${flag} ${text} is not a whole number from 1 up`)
  return Number(text)
}

/** @throws `CLI_USAGE` unless the text is one word. */
export function readWord(flag: string, text: string): string {
  if (!/^[\w-]{1,40}$/.test(text)) throw usageError(`--${flag} ${text} is not a word`)
  return text
}

/** @throws `CLI_USAGE` naming the choices. */
export function readChoice<T extends string>(flag: string, text: string, choices: readonly T[]): T {
  if ((choices as readonly string[]).includes(text)) return text as T
  throw usageError(`--${flag} ${text} is not known`, `one of: ${choices.join(', ')}`)
}
