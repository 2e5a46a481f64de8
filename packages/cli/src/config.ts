/** `cambium config`: what the tree is made of, without mounting it. */

import { resolve } from 'node:path'
import { nearest } from '@cambium/core'
import type { ConfigRequest } from './config-show.ts'
import { describeFlags, type FlagTable, readFlags, usageError } from './flags.ts'
import type { Host } from './host.ts'
import { LAYER_FLAGS, layerOptions } from './layers/layer-options.ts'

const FLAGS: FlagTable = {
  json: { help: 'one JSON object' },
  cwd: { value: '<folder>', short: 'C', help: 'as if started in that folder' },
  ...LAYER_FLAGS,
  help: { short: 'h', help: 'this text' },
}

export function help(): string {
  return `usage: cambium config show [flags] [row-id …]
       cambium config path [flags]

show prints the tree that \`cambium run\` would mount here with the same flags, as YAML or JSON: each value
with the layer and the place that it comes from. Nothing is run or evaluated: expressions stay as they are
written, and secrets are masked.
path prints the files that are looked at, and what became of each.

The layers, each over the one before:
  shipped  the tree of the installation
  user     cordis.patch.yml in CAMBIUM_HOME (~/.cambium)
  project  .cambium/cordis.patch.yml of the nearest folder that has one, if it is trusted: \`cambium trust\`
  patch    files of --patch
  --set    single values

${describeFlags(FLAGS)}
`
}

/** Resolves with the exit code. @throws `CLI_USAGE` */
export async function run(argv: readonly string[], host: Host): Promise<number> {
  const line = readFlags(argv, FLAGS)
  const [verb = '', ...ids] = line.words
  const cwd = resolve(host.cwd, line.flags.get('cwd')?.[0] ?? '.')
  const request: ConfigRequest = {
    layers: layerOptions(line, host.env, host.cwd, cwd),
    json: line.flags.has('json'),
    ids,
  }
  if (verb === 'show') return (await import('./config-show.ts')).show(request, host)
  if (verb === 'path') {
    if (ids.length) throw usageError('config path takes no rows', 'rows go behind show: cambium config show loop')
    return (await import('./config-path.ts')).path(request, host)
  }
  if (!verb) throw usageError('config needs a word: show or path')
  const near = nearest(verb, ['show', 'path'])
  throw usageError(`config has no ${verb}`, near ? `did you mean cambium config ${near}?` : 'it has show and path')
}
