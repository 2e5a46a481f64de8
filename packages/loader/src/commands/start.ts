/** `cordis start` */

import type { LogLevel } from '@cambium/core'
import type { Command } from 'commander'
import { startTrees } from '../start.ts'
import type { Invocation } from './subcommand.ts'
import { addTreeOptions, readTreeFlags, type TreeFlags } from './tree-options.ts'

const LEVELS: readonly LogLevel[] = ['silent', 'error', 'warn', 'info', 'debug']

interface StartFlags extends TreeFlags {
  readonly logLevel: LogLevel
  readonly watch?: true
}

export function define(command: Command, invocation: Invocation): void {
  const level = command.createOption('--log-level <level>', 'how much is logged to standard error')
  addTreeOptions(command)
    .option('--watch', 'reload plugins and rows when their files change')
    .addOption(level.choices(LEVELS).default('info'))
    .addHelpText('after', '\nWhat stands behind `--` is handed to the plugins.')
    .action(async (files: string[], flags: StartFlags) => {
      const { sources, options } = readTreeFlags(files, flags)
      const front = flags.watch && { front: { id: 'hmr', name: '@cambium/loader/hmr', option: '--watch' } }
      invocation.code = await startTrees(sources, {
        ...options,
        ...front,
        level: flags.logLevel,
        args: invocation.args,
      })
    })
}
