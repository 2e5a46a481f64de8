import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync } from 'node:fs'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { tempWorkspace } from '@cambium/testkit'
import { expect, test } from 'vitest'

const root = fileURLToPath(new URL('../..', import.meta.url))

test('the same session gets the answer of the code that was saved meanwhile', async () => {
  using temporary = tempWorkspace()
  const command = ['packages/loader/bin/cordis.js', 'start', 'examples/hmr/cordis.yml']
  const env = { PATH: process.env['PATH'], HOME: temporary.path, TMPDIR: temporary.path, NODE_NO_WARNINGS: '1' }
  const child = spawn(process.execPath, command, { cwd: root, env })
  const [stdout, stderr, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')])
  expect(stdout.split('\n').filter(line => /^\w/.test(line))).toEqual([
    'you    How warm is it in Rome?',
    'tool   21 degrees Celsius in Rome',
    'model  It is 21 degrees Celsius in Rome.',
    'you    And now?',
    'tool   70 degrees Fahrenheit in Rome',
    'model  It is 70 degrees Fahrenheit in Rome.',
  ])
  expect(stdout).toContain('2 turns of one session')
  expect(stderr).toMatch(/^hmr: .*wording\.ts → weather reloaded in \d+ ms$/m)
  expect(code).toBe(0)
  expect(readdirSync(temporary.path).filter(name => name.startsWith('cambium-hmr'))).toEqual([])
}, 30_000)
