/** A folder of its own for a test, with the files that the test starts from. */

import { mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'

export interface TempWorkspace {
  /** Absolute, without symbolic links in it. */
  readonly path: string
  /** Writes a file, making its folders; returns its absolute path. */
  write(file: string, content: string | Uint8Array): string
  read(file: string): string
  bytes(file: string): Buffer
  /** Removes the folder and all that is in it. */
  dispose(): void
  [Symbol.dispose](): void
}

export function tempWorkspace(files: Readonly<Record<string, string | Uint8Array>> = {}): TempWorkspace {
  const path = realpathSync(mkdtempSync(join(tmpdir(), 'cambium-')))
  const write = (file: string, content: string | Uint8Array) => {
    const target = resolve(path, file)
    mkdirSync(dirname(target), { recursive: true })
    writeFileSync(target, content)
    return target
  }
  const bytes = (file: string) => readFileSync(resolve(path, file))
  const dispose = () => rmSync(path, { recursive: true, force: true, maxRetries: 3 })
  for (const [file, content] of Object.entries(files)) write(file, content)
  return { path, write, bytes, read: file => bytes(file).toString('utf8'), dispose, [Symbol.dispose]: dispose }
}
