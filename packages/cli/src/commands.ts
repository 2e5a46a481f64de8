/** The subcommands of `cambium`: one file each, loaded when it is asked for. */

import type { Host } from './host.ts'

export interface Command {
  /** One line for the list of commands. */
  readonly summary: string
  /** The line to write, as a hint. */
  readonly usage: string
  load(): Promise<CommandModule>
}

export interface CommandModule {
  /** What `--help` prints; `argv` is the rest of the command line. */
  help(argv: readonly string[]): string
  /** The line to write instead, where `argv` tells more than the command's name. */
  usage?(argv: readonly string[]): string | undefined
  /** Resolves with the exit code. @throws `CLI_USAGE` for a mistake on the command line */
  run(argv: readonly string[], host: Host): Promise<number>
}

export const COMMANDS: Readonly<Record<string, Command>> = {
  run: {
    summary: 'give an agent a task in this folder and print its answer',
    usage: 'cambium run [flags] "task"',
    load: () => import('./run.ts'),
  },
  models: {
    summary: 'list the models that it can use, and which keys are there',
    usage: 'cambium models [flags] [provider] [word …]',
    load: () => import('./models/command.ts'),
  },
  auth: {
    summary: 'store the keys of providers, list and remove them, log in and out',
    usage: 'cambium auth [flags] set|list|remove|login|logout [provider|NAME]',
    load: () => import('./auth/command.ts'),
  },
  sessions: {
    summary: 'list and show what was said before, go back to it, copy, delete, export',
    usage: 'cambium sessions list|show|search|fork|rewind|delete|prune|export|import [flags]',
    load: () => import('./sessions/command.ts'),
  },
  replay: {
    summary: 'take a session through the loop once more, and say where it goes another way',
    usage: 'cambium replay [flags] [session]',
    load: () => import('./replay/command.ts'),
  },
  config: {
    summary: 'show the tree that it mounts here, and where each value comes from',
    usage: 'cambium config [flags] show|path',
    load: () => import('./config.ts'),
  },
  trust: {
    summary: "apply the layer that a project's folder brings along",
    usage: 'cambium trust [flags] [folder]',
    load: () => import('./trust.ts'),
  },
}
