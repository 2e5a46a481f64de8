/** The hidden question where a person would meet it: on a terminal of its own. */

import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { type Bench, openBench } from './run-command.ts'

const BIN = fileURLToPath(new URL('../bin/cambium.js', import.meta.url))
const SCRIPT = ['/usr/bin/script', '/bin/script'].find(existsSync)
const hasTerminal =
  SCRIPT && process.platform === 'linux' && spawnSync(SCRIPT, ['-qec', 'true', '/dev/null']).status === 0
const CANARY = 'sk-canary-4f9a81c2d7e05b36'

let bench: Bench
beforeEach(async () => {
  bench = await openBench()
})
afterEach(() => bench.close())

/** Types when the question is there; what the terminal showed, its modes afterwards included. */
async function onTerminal(keys: string) {
  const { OPENAI_API_KEY: _, ...env } = bench.env
  const command = `'${process.execPath}' '${BIN}' auth set openai; echo "code $?"; stty -a`
  const child = spawn(SCRIPT!, ['-qec', command, '/dev/null'], {
    cwd: bench.folder.path,
    env: { PATH: process.env['PATH'], HOME: bench.home.path, TERM: 'xterm', ...env },
    timeout: 60_000,
  })
  let shown = ''
  let asked = false
  child.stdout.on('data', chunk => {
    shown += chunk
    if (asked || !shown.includes('(it is not shown): ')) return
    asked = true
    child.stdin.write(keys)
  })
  await once(child, 'close')
  return shown
}

test.skipIf(!hasTerminal)(
  'a key that is typed is not shown, and the terminal shows again what is typed',
  { timeout: 70_000 },
  async () => {
    const shown = await onTerminal(`${CANARY}\r`)
    expect(shown).toMatch(/Key for OPENAI_API_KEY \(it is not shown\): \r?\n[\s\S]*stored OPENAI_API_KEY/)
    expect(shown).not.toContain(CANARY.slice(0, 6))
    expect(shown).toMatch(/code 0[\s\S]* icanon[\s\S]* echo /)
    const stored = readFileSync(`${bench.home.path}/credentials.json`, 'utf8')
    expect(JSON.parse(stored).keys).toEqual({ OPENAI_API_KEY: CANARY })
  },
)

test.skipIf(!hasTerminal)(
  'Ctrl-C gives the question up, and the terminal shows again what is typed',
  { timeout: 70_000 },
  async () => {
    const shown = await onTerminal(`${CANARY}\x03`)
    expect(shown).toMatch(/cambium: nothing was stored[\s\S]*code 130[\s\S]* icanon[\s\S]* echo /)
    expect(shown).not.toContain(CANARY.slice(0, 6))
    expect(existsSync(`${bench.home.path}/credentials.json`)).toBe(false)
  },
)
