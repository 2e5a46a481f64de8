/** The `cordis` command: the list of its commands, and what is said of a wrong command line. */

import { errorMessage, HarnessError, nearest } from '@cambium/core'
import type { Command } from 'commander'
import type { Invocation, Subcommand } from './commands/subcommand.ts'

/** Each is loaded when it is asked for: a start does not wait for what it does not use. */
const COMMANDS: Readonly<Record<string, { readonly summary: string; readonly load: () => Promise<Subcommand> }>> = {
  start: {
    summary: 'mount one tree per file, and stay up until they end or a signal comes',
    load: () => import('./commands/start.ts'),
  },
  check: {
    summary: 'say all that is wrong with trees, without running a plugin',
    load: () => import('./commands/check.ts'),
  },
  graph: {
    summary: 'boot trees, show what is mounted and why something is not, and dispose them',
    load: () => import('./commands/graph.ts'),
  },
  create: {
    summary: 'make a folder for a plugin or an app of your own',
    load: () => import('./commands/create.ts'),
  },
}

const USAGE = `usage: cordis start [file…] [options] [-- args…]

  cordis start                        mounts ./cordis.yml
  cordis start --set llm.model=x      changes one setting
  cordis check                        says all that is wrong with ./cordis.yml, and runs nothing
  cordis graph                        boots it, and shows each row: state, services, effects
  cordis create plugin my-tool        makes a plugin of your own
  cordis start --help                 lists the options
`

/** Runs the command with the arguments behind its name; resolves with the exit code: 0, 1 failed, 2 usage, 130 and 143 on signals. */
export async function main(argv: readonly string[]): Promise<number> {
  // A reader that has gone is no reason to end: what is said of the failed write would fail the same way, for ever.
  for (const stream of [process.stdout, process.stderr]) stream.on('error', () => {})
  const { Command } = await import('commander')
  const dashes = argv.indexOf('--')
  const own = dashes < 0 ? argv : argv.slice(0, dashes)
  const invocation: Invocation = { args: dashes < 0 ? [] : argv.slice(dashes + 1), code: 2 }

  const program = new Command('cordis').description('Mounts trees of plugins from cordis.yml files.')
  program.allowExcessArguments().action((_options, { args: [name] }: Command) => {
    process.stderr.write(name === undefined ? USAGE : `cordis: ${unknown(name)}\n\n${USAGE}`)
  })
  for (const [name, { summary, load }] of Object.entries(COMMANDS)) {
    const command = program.command(name).description(summary)
    if (own.includes(name)) (await load()).define(command, invocation)
  }
  configure(program)

  try {
    await program.parseAsync(own, { from: 'user' })
    return invocation.code
  } catch (error) {
    const exit = (error as { exitCode?: number; code?: string }).code?.startsWith('commander.')
    if (exit) return (error as { exitCode: number }).exitCode === 0 ? 0 : 2
    process.stderr.write(`cordis: ${error instanceof HarnessError ? error.message : errorMessage(error)}\n`)
    return 1
  }
}

function unknown(name: string): string {
  const meant = nearest(name, Object.keys(COMMANDS)) ?? (/\.(ya?ml|json)$/.test(name) ? `start ${name}` : undefined)
  return `unknown command ${name}${meant ? `\n  did you mean cordis ${meant}?` : ''}`
}

function configure(program: Command) {
  const output = {
    writeErr: (text: string) => process.stderr.write(text.startsWith('error:') ? `cordis: ${text.slice(7)}` : text),
  }
  for (const command of [program, ...program.commands]) {
    const name = command.name()
    const own = `usage: cordis ${name} ${command.usage()}\n\n  cordis ${name} --help  lists the options`
    const help = command === program ? USAGE : own
    command.exitOverride().configureOutput(output).showHelpAfterError(`\n${help}`)
  }
}
