/** The `cordis` command as a process. */

import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { build } from 'esbuild'

const source = new URL('../bin/cordis.js', import.meta.url).pathname

/**
 * The command as one file of JavaScript: it starts in a fraction of the time, has no TypeScript hook yet, and knows no
 * installation.
 */
export async function bundleCommand(folder: string): Promise<string> {
  const bin = join(folder, 'bin', 'cordis.mjs')
  await build({
    entryPoints: [source],
    outfile: bin,
    bundle: true,
    platform: 'node',
    format: 'esm',
    mainFields: ['module', 'main'],
    external: ['tsx/*'],
    banner: {
      js: "import { createRequire as requireFrom } from 'node:module'; const require = requireFrom(import.meta.url)",
    },
    // The bin registers tsx for the sources of the workspace, which a bundle does not need.
    define: { 'process.features.typescript': '"bundled"' },
    logLevel: 'error',
  })
  return bin
}

export interface Run {
  readonly child: ChildProcess
  /** Resolves when standard output or standard error holds the text. */
  says(text: string): Promise<void>
  /** Resolves with what was printed, and how the process ended. */
  readonly end: Promise<{ code: number | null; stdout: string; stderr: string }>
}

export interface RunOptions {
  readonly cwd: string
  readonly env?: Record<string, string>
  readonly script?: string
}

export const command = (args: readonly string[], { script = source, ...options }: RunOptions): Run =>
  runNode([script, ...args], options)

export function runNode(args: readonly string[], { cwd, env }: Omit<RunOptions, 'script'>): Run {
  const child = spawn(process.execPath, args, { cwd, env: { ...process.env, ...env } })
  const printed = { stdout: '', stderr: '' }
  for (const name of ['stdout', 'stderr'] as const) {
    child[name].setEncoding('utf8').on('data', text => {
      printed[name] += text
      child.emit('printed')
    })
  }
  const end = once(child, 'close').then(([code]) => ({ code: code as number | null, ...printed }))
  const says = async (text: string) => {
    while (!printed.stdout.includes(text) && !printed.stderr.includes(text)) {
      if (child.exitCode !== null) throw new Error(`ended without saying ${text}: ${printed.stderr}`)
      await Promise.race([once(child, 'printed'), end])
    }
  }
  return { child, says, end }
}
