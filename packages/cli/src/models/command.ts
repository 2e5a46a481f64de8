/** `cambium models`: what can be asked here, from the command line to the row that finds out. */

import { resolve } from 'node:path'
import { describeFlags, type FlagTable, readFlags } from '../flags.ts'
import type { Host } from '../host.ts'
import { LAYER_FLAGS, layerOptions } from '../layers/layer-options.ts'
import { runRow } from '../row-command.ts'

const FLAGS: FlagTable = {
  json: { help: 'one JSON object with all that is known' },
  offline: { help: 'ask nobody: only what is known without' },
  cwd: { value: '<folder>', short: 'C', help: 'as if started in that folder' },
  ...LAYER_FLAGS,
  help: { short: 'h', help: 'this text' },
}

export function help(): string {
  return `usage: cambium models [flags] [provider] [word …]

Lists the providers of the tree that \`cambium run\` mounts here: whether a key is there and where it comes
from, or what to set; and the models of those that are ready, with context window, longest answer, and the
price of a million tokens in and out, as far as they are known. They are asked for their lists. Words leave
what has them all in \`provider/model\`. What --model auto would take is marked *.

${describeFlags(FLAGS)}

exit codes: 0, 1 when a provider that is named does not answer, 2 for a mistake on the command line
`
}

/** Resolves with the exit code. @throws `CLI_USAGE` */
export async function run(argv: readonly string[], host: Host): Promise<number> {
  const line = readFlags(argv, FLAGS)
  const cwd = resolve(host.cwd, line.flags.get('cwd')?.[0] ?? '.')
  const config = { words: line.words, json: line.flags.has('json'), offline: line.flags.has('offline') }
  const row = { id: 'cambium-models', name: '@cambium/cli/models', config }
  return runRow(row, layerOptions(line, host.env, host.cwd, cwd), host)
}
