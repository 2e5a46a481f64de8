/** What every command that reads trees takes: the files, and what is laid over them. */

import type { Command } from 'commander'
import type { BootOptions } from '../boot.ts'
import type { TreeSource } from '../file/load.ts'
import { expandPattern, loadEnvFile } from './files.ts'
import { collect } from './subcommand.ts'

export interface TreeFlags {
  readonly set: readonly string[]
  readonly patch: readonly string[]
  readonly envFile: readonly string[]
}

export function addTreeOptions(command: Command): Command {
  return command
    .argument('[file...]', 'tree files; `*` and `?` are expanded', ['cordis.yml'])
    .option(
      '--set <id.path=value>',
      "change a value of a row's config; the value is read as a YAML scalar",
      collect,
      [],
    )
    .option('--patch <file>', 'lay a list of changes over the tree', collect, [])
    .option('--env-file <file>', 'add variables to the environment; existing ones win', collect, [])
}

/** The trees that the command line names. Variables of its files are in the environment then. */
export function readTreeFlags(
  patterns: readonly string[],
  flags: TreeFlags,
): { sources: TreeSource[]; options: BootOptions } {
  for (const file of flags.envFile) loadEnvFile(file)
  const files = [...new Set(patterns.flatMap(pattern => expandPattern(pattern)))]
  return {
    sources: files.map(file => ({ file })),
    options: { set: flags.set, patches: flags.patch.map(file => ({ file })) },
  }
}
