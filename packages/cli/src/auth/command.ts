/** `cambium auth`: what is to be done with which key or login, from the command line to the row that does it. */

import { nearest } from '@cambium/core'
import { describeFlags, type FlagTable, readFlags, usageError } from '../flags.ts'
import type { Host } from '../host.ts'
import { LAYER_FLAGS, layerOptions } from '../layers/layer-options.ts'
import { runRow } from '../row-command.ts'
import { VERBS, type Verb } from './verbs.ts'

const FLAGS: FlagTable = {
  json: { help: 'one JSON object, with list' },
  ...LAYER_FLAGS,
  help: { short: 'h', help: 'this text' },
}

export function help(): string {
  return `usage: cambium auth set <provider|NAME>
       cambium auth list
       cambium auth remove <provider|NAME>
       cambium auth login <provider>
       cambium auth logout <provider>

set stores a key, under its provider's name (openai) or that of its variable (OPENAI_API_KEY). It is asked
for unseen, or read from standard input: cambium auth set openai < key.txt. It is never taken from the
command line, which other users can read and the shell remembers.
list shows each provider with where its key comes from, and what else is stored; never a key.
remove takes a stored key away. What is set in the environment stays, and counts before what is stored.
login and logout are for providers whose plugin offers an account's login.

Keys are kept in credentials.json in CAMBIUM_HOME (~/.cambium), which only you can read, and seen by what
runs already with its next request.

${describeFlags(FLAGS)}

exit codes: 0, 1 when it failed or there was nothing to do it with, 2 for a mistake on the command line
`
}

/** Resolves with the exit code. @throws `CLI_USAGE` */
export async function run(argv: readonly string[], host: Host): Promise<number> {
  const line = readFlags(argv, FLAGS)
  const [said = '', ...words] = line.words
  const verb = readVerb(said)
  const what = verb === 'list' ? '' : readWhat(verb, words)
  if (verb === 'list' && words.length) throw usageError('auth list takes no names', 'it lists all of them')
  const json = line.flags.has('json')
  if (json && verb !== 'list') throw usageError('--json goes with auth list')
  const config = { verb, what, json }
  const options = layerOptions(line, host.env, host.cwd, host.cwd)
  return runRow({ id: 'cambium-auth', name: '@cambium/cli/auth', config }, options, host)
}

function readVerb(said: string): Verb {
  if ((VERBS as readonly string[]).includes(said)) return said as Verb
  const list = `it has ${VERBS.join(', ')}`
  if (!said) throw usageError('auth needs a word', list)
  const near = nearest(said, VERBS)
  if (near) throw usageError(`auth has no ${said}`, `did you mean cambium auth ${near}?`)
  // Whatever it is, it may be a key.
  throw usageError('auth has no such word', list)
}

function readWhat(verb: Verb, words: readonly string[]): string {
  const [what, ...rest] = words
  if (what === undefined) throw usageError(`auth ${verb} needs a name`, `write cambium auth ${verb} <provider>`)
  if (verb === 'set' && (rest.length || what.includes('='))) {
    throw usageError(
      'a key is not taken from the command line: other users can read it there, and the shell remembers it',
      'leave it out and type it when you are asked, or pipe it in; if that was a real one, replace it at its provider',
    )
  }
  if (rest.length) throw usageError(`auth ${verb} takes one name`)
  return what
}
