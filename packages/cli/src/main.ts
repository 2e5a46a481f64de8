/** The `cambium` command: finds the subcommand, and says what is wrong with a command line. */

import { readFile } from 'node:fs/promises'
import { isHarnessError, nearest } from '@cambium/core'
import { COMMANDS, type Command, type CommandModule } from './commands.ts'
import { EXIT } from './exit-code.ts'
import { describeFailure, exitCodeOf, toFailure } from './failure.ts'
import { usageError } from './flags.ts'
import { type Host, processHost } from './host.ts'
import { installed } from './installation.ts'
import { oneLine } from './printable.ts'

/** Runs one command line; `argv` is without the program. Resolves with the exit code and never rejects. */
export async function main(argv: readonly string[], host: Host = processHost): Promise<number> {
  // A reader that has gone is no reason to crash, also after the work; who writes the answer hears of it too.
  for (const stream of [host.stdout, host.stderr]) stream.on('error', () => {})
  const unguard = host.guardExit()
  const [name = '', ...rest] = argv
  const command = Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined
  let module: CommandModule | undefined
  try {
    if (command) {
      module = await command.load()
      if (asksForHelp(rest)) return print(host, module.help(rest))
      return await module.run(rest, host)
    }
    if (name === '--help' || name === '-h' || name === 'help') return print(host, await help(rest))
    if (name === '--version' || name === '-V') return print(host, await version())
    throw unknown(name, argv)
  } catch (error) {
    const failure = toFailure(error)
    host.stderr.write(`${describeFailure(failure)}\n`)
    if (isHarnessError(error) && error.code === 'CLI_USAGE')
      host.stderr.write(`\n${brief(command, module?.usage?.(rest))}`)
    return exitCodeOf(failure)
  } finally {
    unguard()
  }
}

function asksForHelp(argv: readonly string[]): boolean {
  const end = argv.indexOf('--')
  return (end < 0 ? argv : argv.slice(0, end)).some(word => word === '--help' || word === '-h')
}

function print({ stdout }: Host, text: string): number {
  stdout.write(text)
  return EXIT.done
}

async function help([name = '', ...rest]: readonly string[]): Promise<string> {
  const command = Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined
  if (command) return (await command.load()).help(rest)
  return `cambium gives a language model tools, and does work with it in a folder.\n\n${brief(undefined)}`
}

/** The few lines one needs. */
function brief(command: Command | undefined, usage = command?.usage): string {
  if (usage) return `usage: ${usage}\n       ${/^[\w -]+(?= |$)/.exec(usage)![0]} --help lists what there is\n`
  const width = Math.max(...[...Object.keys(COMMANDS), '--version'].map(name => name.length))
  const list = Object.entries(COMMANDS).map(([name, { summary }]) => `  cambium ${name.padEnd(width)}  ${summary}`)
  return [
    'usage:',
    ...list,
    `  cambium ${'--help'.padEnd(width)}  these lines; cambium run --help has the flags and exit codes`,
    '  cambium --version',
    '',
  ].join('\n')
}

function unknown(name: string, argv: readonly string[]) {
  if (!name) return usageError('there is no command')
  const near = nearest(name, [...Object.keys(COMMANDS), '--help', '--version'])
  if (near) return usageError(`unknown command ${name}`, `did you mean cambium ${near}?`)
  if (name.startsWith('-')) return usageError(`unknown flag ${name}`)
  const task = oneLine(argv.join(' '), 60)
  return usageError(`unknown command ${oneLine(name, 60)}`, `a task goes behind run: cambium run "${task}"`)
}

async function version(): Promise<string> {
  const manifest = await readFile(installed('package.json'), 'utf8')
  return `${(JSON.parse(manifest) as { version: string }).version}\n`
}
