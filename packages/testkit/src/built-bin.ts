/** The released form of the sources as they are now, for a test that starts many processes: a start takes a fifth of the time. */

import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync, utimesSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

const root = fileURLToPath(new URL('../../../', import.meta.url))
const builds = join(root, 'node_modules/.cache/cambium-builds')
const STALE_MS = 60 * 60 * 1000

let building: Promise<string> | undefined

/**
 * The file to run a command from, with Node: `execFile(process.execPath, [await builtBin('cambium'), 'run', …])`. What
 * has been built from the same sources before is used again, by other test files too.
 */
export async function builtBin(command: 'cambium' | 'cordis'): Promise<string> {
  building ??= build()
  return join(await building, 'bin', `${command}.cjs`)
}

async function build(): Promise<string> {
  const folder = join(builds, digestOfSources())
  if (!existsSync(folder)) {
    mkdirSync(builds, { recursive: true })
    prune()
    const fresh = `${folder}.${process.pid}`
    await promisify(execFile)(process.execPath, [join(root, 'scripts/build.mjs'), '--out', fresh, '--no-types'])
    try {
      renameSync(fresh, folder)
    } catch (error) {
      rmSync(fresh, { recursive: true, force: true })
      // Another test file was faster.
      if (!existsSync(folder)) throw error
    }
  }
  const now = new Date()
  utimesSync(folder, now, now)
  return folder
}

function digestOfSources(): string {
  const hash = createHash('sha256')
  const add = (file: string) =>
    hash
      .update(`${file}\0`)
      .update(readFileSync(join(root, file)))
      .update('\0')
  const walk = (folder: string) => {
    const entries = readdirSync(join(root, folder), { withFileTypes: true })
    for (const entry of entries.sort((a, b) => (a.name < b.name ? -1 : 1))) {
      const path = join(folder, entry.name)
      if (entry.isDirectory()) walk(path)
      else add(path)
    }
  }
  for (const file of ['package.json', 'pnpm-lock.yaml', 'cordis.yml']) add(file)
  walk('scripts')
  for (const name of readdirSync(join(root, 'packages')).sort()) {
    add(join('packages', name, 'package.json'))
    if (name !== 'testkit') walk(join('packages', name, 'src'))
  }
  return hash.digest('hex').slice(0, 16)
}

/** Builds of former states, unless a test that began before may still run from one. */
function prune(): void {
  for (const name of readdirSync(builds)) {
    const folder = join(builds, name)
    if (Date.now() - statSync(folder).mtimeMs > STALE_MS) rmSync(folder, { recursive: true, force: true })
  }
}
