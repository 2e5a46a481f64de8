/** Runs a command of the workspace after installing what it needs: `node scripts/ready.mjs <command> [args…]`. */

import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { delimiter, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const { packageManager } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
const stamp = join(root, 'node_modules', '.cambium-lock')

/** What decides what has to be installed. The lock file has what the packages' own manifests ask for. */
function wanted() {
  const hash = createHash('sha256')
  for (const file of ['pnpm-lock.yaml', 'pnpm-workspace.yaml', 'package.json']) {
    if (existsSync(join(root, file))) hash.update(readFileSync(join(root, file)))
  }
  return hash.digest('hex')
}

/** Runs one command with the workspace's own programs first on the path, and ends with its exit code unless it is 0. */
function run(command, args) {
  const path = [join(root, 'node_modules', '.bin'), process.env.PATH].join(delimiter)
  const { status, signal, error } = spawnSync(command, args, {
    stdio: 'inherit',
    env: { ...process.env, PATH: path },
    shell: process.platform === 'win32',
  })
  if (error) throw error
  if (signal) process.kill(process.pid, signal)
  if (status) process.exit(status)
}

if (!existsSync(stamp) || readFileSync(stamp, 'utf8') !== wanted()) {
  process.chdir(root)
  process.stderr.write('installing what is missing, once …\n')
  run('npx', ['-y', packageManager, 'install', '--frozen-lockfile', '--reporter=append-only', '--loglevel=warn'])
  writeFileSync(stamp, wanted())
}

const [command, ...args] = process.argv.slice(2)
if (command) run(command, args)
