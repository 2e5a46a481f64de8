import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { tempWorkspace } from '@cambium/testkit'
import { expect, test } from 'vitest'

const ROOT = fileURLToPath(new URL('..', import.meta.url))

test('all examples start in one process and end well', async () => {
  using home = tempWorkspace()
  // The pattern is handed over as it is: no shell expands it.
  const child = spawn(process.execPath, ['packages/loader/bin/cordis.js', 'start', 'examples/*/cordis.yml'], {
    cwd: ROOT,
    env: { PATH: process.env['PATH'], HOME: home.path, TMPDIR: home.path },
  })
  child.stdin.end('say hello')
  const [stdout, stderr, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')])
  expect(stderr).not.toMatch(/^error/m)
  expect(stdout).toContain('allowed  greet Ada: Hello, Ada!')
  expect(stdout).toContain('No model is connected')
  expect(stdout).toContain('The tests pass now.')
  expect(code).toBe(0)
}, 60_000)
