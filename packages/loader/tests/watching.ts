/** One long-lived `cordis start --watch`, whose files a test edits while it reads what is said. */

import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { createInterface } from 'node:readline'

const bin = new URL('../bin/cordis.js', import.meta.url).href

export interface Watching {
  readonly folder: string
  readonly child: ChildProcess
  write(file: string, text: string): void
  /** All that is said on standard error up to a line that `last` matches, from where the former call ended. */
  until(last: RegExp): Promise<string[]>
  /** What is said until the reload that `edit` brings is told in one line. */
  reloaded(edit: () => void): Promise<string[]>
  /** The same for a reload that is refused, and the account of the mistake, which is written in one piece. */
  refused(edit: () => void): Promise<{ said: string[]; account: string }>
  end(): Promise<void>
}

export interface WatchingOptions {
  /** Symbolic links to make, by what they lead to. */
  readonly links?: Readonly<Record<string, string>>
  /** Arguments of the command. */
  readonly args?: readonly string[]
  /** The module that is the command. */
  readonly program?: string
  readonly env?: Readonly<Record<string, string>>
}

/** What plugins print on standard error comes in order with what the command says. */
export function startWatching(
  files: Readonly<Record<string, string>>,
  { links = {}, args = ['cordis.yml'], program = bin, env = {} }: WatchingOptions = {},
): Watching {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), 'cordis-')))
  const write = (file: string, text: string) => {
    const path = join(folder, file)
    mkdirSync(dirname(path), { recursive: true })
    writeFileSync(path, text)
  }
  for (const [file, text] of Object.entries(files)) write(file, text)
  for (const [link, target] of Object.entries(links)) {
    mkdirSync(dirname(join(folder, link)), { recursive: true })
    symlinkSync(target, join(folder, link))
  }
  // A program of its own, so that a test can change it.
  write('start.mjs', `await import(${JSON.stringify(program)})\n`)
  const child = spawn(process.execPath, ['start.mjs', 'start', ...args, '--watch'], {
    cwd: folder,
    env: { ...process.env, NODE_NO_WARNINGS: '1', ...env },
    stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
  })
  const lines: string[] = []
  createInterface({ input: child.stderr! }).on('line', line => {
    // Sources of the framework that somebody edits while the test runs.
    if (line.startsWith('warn: hmr: /')) return
    lines.push(line.replace(/in \d+ ms$/, 'in time'))
    wake()
  })
  child.on('close', () => wake())
  let wake = () => {}
  let read = 0
  async function until(last: RegExp): Promise<string[]> {
    for (let at = read; ; at++) {
      while (at >= lines.length) {
        if (child.exitCode !== null) throw new Error(`it ended:\n${lines.slice(read).join('\n')}`)
        await new Promise<void>(resolve => {
          wake = resolve
        })
      }
      if (!last.test(lines[at]!)) continue
      const said = lines.slice(read, at + 1)
      read = at + 1
      return said
    }
  }
  return {
    folder,
    child,
    write,
    until,
    reloaded(edit) {
      edit()
      return until(/^(\w+: )?hmr: /)
    },
    async refused(edit) {
      edit()
      const said = await until(/^error: hmr: /)
      const account = lines.slice(read).join('\n')
      read = lines.length
      return { said, account }
    },
    async end() {
      const closed = once(child, 'close')
      child.kill('SIGTERM')
      await closed
      rmSync(folder, { recursive: true })
    },
  }
}
