/** The `cordis` command. */

import { errorMessage, HarnessError, type LogLevel, nearest } from '@cambium/core'
import type { Command } from 'commander'
import { expandPattern, loadEnvFile } from './files.ts'
import { startTrees } from './start.ts'

const LEVELS: readonly LogLevel[] = ['silent', 'error', 'warn', 'info', 'debug']

const USAGE = `usage: cordis start [file…] [options] [-- args…]

  cordis start                        mounts ./cordis.yml
  cordis start a.yml b.yml            mounts two trees in one process
  cordis start --set llm.model=x      changes one setting
  cordis start --help                 lists the options
`

interface StartFlags {
  set: string[]
  patch: string[]
  envFile: string[]
  logLevel: LogLevel
}

/** Runs the command with the arguments behind its name; resolves with the exit code: 0, 1 failed, 2 usage, 130 and 143 on signals. */
export async function main(argv: readonly string[]): Promise<number> {
  const { Command, Option } = await import('commander')
  const dashes = argv.indexOf('--')
  const own = dashes < 0 ? argv : argv.slice(0, dashes)
  const args = dashes < 0 ? [] : argv.slice(dashes + 1)
  const collect = (value: string, before: string[]) => [...before, value]
  let code = 2

  const program = new Command('cordis').description('Mounts trees of plugins from cordis.yml files.')
  program.allowExcessArguments().action((_options, { args: [name] }: Command) => {
    process.stderr.write(name === undefined ? USAGE : `cordis: ${unknown(name)}\n\n${USAGE}`)
  })
  program
    .command('start')
    .description('mount one tree per file, and stay up until they end or a signal comes')
    .argument('[file...]', 'tree files; `*` and `?` are expanded', ['cordis.yml'])
    .option(
      '--set <id.path=value>',
      "change a value of a row's config; the value is read as a YAML scalar",
      collect,
      [],
    )
    .option('--patch <file>', 'lay a list of changes over the tree', collect, [])
    .option('--env-file <file>', 'add variables to the environment; existing ones win', collect, [])
    .addOption(
      new Option('--log-level <level>', 'how much is logged to standard error').choices(LEVELS).default('info'),
    )
    .addHelpText('after', '\nWhat stands behind `--` is handed to the plugins.')
    .action(async (files: string[], flags: StartFlags) => {
      code = await start(files, flags, args)
    })
  configure(program)

  try {
    await program.parseAsync(own, { from: 'user' })
    return code
  } catch (error) {
    const exit = (error as { exitCode?: number; code?: string }).code?.startsWith('commander.')
    if (exit) return (error as { exitCode: number }).exitCode === 0 ? 0 : 2
    process.stderr.write(`cordis: ${error instanceof HarnessError ? error.message : errorMessage(error)}\n`)
    return 1
  }
}

function unknown(name: string): string {
  const meant = nearest(name, ['start']) ?? (/\.(ya?ml|json)$/.test(name) ? `start ${name}` : undefined)
  return `unknown command ${name}${meant ? `\n  did you mean cordis ${meant}?` : ''}`
}

function configure(program: Command) {
  const output = {
    writeErr: (text: string) => process.stderr.write(text.startsWith('error:') ? `cordis: ${text.slice(7)}` : text),
  }
  for (const command of [program, ...program.commands]) {
    command.exitOverride().configureOutput(output).showHelpAfterError(`\n${USAGE}`)
  }
}

async function start(patterns: readonly string[], flags: StartFlags, args: readonly string[]): Promise<number> {
  for (const file of flags.envFile) loadEnvFile(file)
  const files = [...new Set(patterns.flatMap(pattern => expandPattern(pattern)))]
  return startTrees(
    files.map(file => ({ file })),
    {
      set: flags.set,
      patches: flags.patch.map(file => ({ file })),
      level: flags.logLevel,
      args,
    },
  )
}
