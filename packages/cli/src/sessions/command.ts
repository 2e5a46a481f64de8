/** `cambium sessions`: what is to be done with which session, from the command line to the row that does it. */

import { resolve } from 'node:path'
import { nearest } from '@cambium/core'
import { describeFlags, type FlagTable, readFlags, usageError } from '../flags.ts'
import type { Host } from '../host.ts'
import { LAYER_FLAGS, layerOptions } from '../layers/layer-options.ts'
import { runRow } from '../row-command.ts'
import { LINES } from './lines.ts'
import { VERBS, type Verb } from './verbs.ts'

const isVerb = (word: string | undefined): word is Verb => (VERBS as readonly string[]).includes(word ?? '')

const COMMON: FlagTable = { ...LAYER_FLAGS, help: { short: 'h', help: 'this text' } }

/** Of one subcommand where it is named. */
export function help(argv: readonly string[] = []): string {
  const verb = argv.find(isVerb)
  if (verb) {
    const { usage, text, flags } = LINES[verb]
    const lines = usage.map((line, index) => `${index ? '       ' : 'usage: '}cambium sessions ${line}`)
    return `${lines.join('\n')}\n\n${text}\n\n${describeFlags({ ...flags, ...COMMON })}\n`
  }
  const width = Math.max(...VERBS.map(name => LINES[name].usage[0]!.length))
  const list = VERBS.map(name => `  ${LINES[name].usage[0]!.padEnd(width)}  ${LINES[name].summary}`)
  return `usage: cambium sessions <what> [flags]

${list.join('\n')}

cambium sessions <what> --help has the flags of each. An id may be its beginning or its end, as long as no
other one has it; list shows a short one. Sessions are kept in CAMBIUM_HOME (~/.cambium), and taken up again
by cambium run --continue and cambium run --resume <id>.

exit codes: 0, 1 when it failed or was not confirmed, 2 for a mistake on the command line
`
}

/** Of the subcommand that is meant. */
export function usage(argv: readonly string[]): string | undefined {
  const verb = argv.find(word => !word.startsWith('-'))
  return isVerb(verb) ? `cambium sessions ${LINES[verb].usage[0]}` : undefined
}

/** Resolves with the exit code. @throws `CLI_USAGE` */
export async function run(argv: readonly string[], host: Host): Promise<number> {
  const { verb, rest } = verbOf(argv)
  const { flags, read, words: wanted } = LINES[verb]
  const line = readFlags(rest, { ...flags, ...COMMON })
  const { words } = line
  if (words.length < wanted.least) {
    throw usageError(`sessions ${verb} needs ${wanted.what}`)
  }
  if (words.length > wanted.most) throw usageError(`sessions ${verb} takes one ${wanted.what.replace(/^an? /, '')}`)
  const one = (name: string) => line.flags.get(name)?.[0]
  const has = (name: string) => line.flags.has(name)
  const folder = one('cwd')
  const cwd = resolve(host.cwd, folder ?? '.')
  const config = { verb, words, cwd, ...read({ words, one, has, path: file => resolve(host.cwd, file) }) }
  const row = { id: 'cambium-sessions', name: '@cambium/cli/sessions', config }
  return runRow(row, layerOptions(line, host.env, host.cwd, cwd), host)
}

/** It may stand behind flags that take no value. */
function verbOf(argv: readonly string[]): { verb: Verb; rest: readonly string[] } {
  const at = argv.findIndex(word => !word.startsWith('-'))
  const said = at < 0 ? undefined : argv[at]
  const list = `it has ${VERBS.join(', ')}`
  if (said === undefined) throw usageError('sessions needs a word', list)
  if (isVerb(said)) return { verb: said, rest: argv.filter((_, index) => index !== at) }
  const near = nearest(said, VERBS) ?? ALIASES[said]
  throw usageError(`sessions has no ${said}`, near ? `did you mean cambium sessions ${near}?` : list)
}

/** What the same is called elsewhere. */
const ALIASES: Readonly<Record<string, Verb>> = {
  ls: 'list',
  rm: 'delete',
  remove: 'delete',
  cat: 'show',
  find: 'search',
  grep: 'search',
  copy: 'fork',
  undo: 'rewind',
}
