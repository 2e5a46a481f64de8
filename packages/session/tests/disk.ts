/** Stands between the product and the disk: sees each synchronous call that changes something, and may fail or copy. */

import { execFileSync } from 'node:child_process'
import fs, { cpSync, mkdtempSync, rmSync } from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'

const CALLS = [
  'openSync',
  'writeSync',
  'writeFileSync',
  'linkSync',
  'renameSync',
  'rmSync',
  'mkdirSync',
  'fsyncSync',
] as const

/** Calls `before` ahead of each such call below `folder` while `work` runs; what it throws, the call throws. */
export async function watchDisk(
  folder: string,
  before: (call: string, path: string) => void,
  work: () => Promise<unknown>,
): Promise<void> {
  const real = new Map(CALLS.map(name => [name, fs[name]]))
  const table = fs as unknown as Record<string, (...args: unknown[]) => unknown>
  for (const [name, call] of real) {
    table[name] = (...args: unknown[]) => {
      const paths = args.filter((arg): arg is string => typeof arg === 'string' && arg.startsWith(folder))
      if (paths.length || typeof args[0] === 'number') before(name, paths.join(' > '))
      return (call as (...args: unknown[]) => unknown)(...args)
    }
  }
  syncBuiltinESMExports()
  try {
    await work()
  } finally {
    for (const [name, call] of real) table[name] = call as never
    syncBuiltinESMExports()
  }
}

export const failure = (code: string) => Object.assign(new Error(code), { code })

/** A copy of the folder as it is now: what a machine that stops here would leave. Hard links stay links, or become copies. */
export function snapshot(folder: string, links = true): string {
  const copy = mkdtempSync(join(tmpdir(), 'cambium-crash-'))
  onTestFinished(() => rmSync(copy, { recursive: true, force: true }))
  if (links && process.platform !== 'win32') execFileSync('cp', ['-a', `${folder}/.`, copy])
  else cpSync(folder, copy, { recursive: true })
  return copy
}
