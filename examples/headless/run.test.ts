import { readdirSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { bootTree, tempWorkspace } from '@cambium/testkit'
import { afterEach, expect, test, vi } from 'vitest'

const file = fileURLToPath(new URL('./cordis.yml', import.meta.url))

afterEach(() => {
  vi.restoreAllMocks()
  vi.unstubAllEnvs()
})

/** The tree as it is, with a scripted model in place of the environment's and a home of its own. */
async function run(turns: unknown[], task: string) {
  using home = tempWorkspace()
  vi.stubEnv('CAMBIUM_HOME', home.path)
  const lines: string[] = []
  vi.spyOn(console, 'log').mockImplementation((line: string) => void lines.push(line))
  vi.spyOn(console, 'error').mockImplementation((line: string) => void lines.push(line))
  const patch = [
    { id: 'scripted', config: { turns } },
    { id: 'loop', config: { model: 'scripted' } },
    { id: 'driver', config: { task } },
  ]
  const tree = await bootTree({ file }, { patches: [{ text: JSON.stringify(patch) }] })
  const code = await tree.ended
  const logs = readdirSync(home.path, { recursive: true }).filter(name => String(name).endsWith('.jsonl'))
  return { code, lines, logs }
}

test('one task in, one answer out, and the session is on disk', async () => {
  const turns = [
    { expect: { user: 'greet me' }, calls: [{ name: 'bash', arguments: { command: 'echo Hello' } }] },
    { expect: { result: 'Hello' }, text: 'It says Hello.' },
  ]
  const { code, lines, logs } = await run(turns, 'greet me')
  expect({ code, lines }).toEqual({ code: 0, lines: ['It says Hello.'] })
  expect(logs).toHaveLength(1)
})

test('a model that fails makes it fail', async () => {
  const { code, lines } = await run([{ fault: 'AUTH' }], 'greet me')
  expect(code).toBe(1)
  expect(lines.join('\n')).toContain('AUTH')
})

test('its tree lists the rows itself and does not import the command', async () => {
  const { readFileSync } = await import('node:fs')
  const text = readFileSync(file, 'utf8') + readFileSync(new URL('./headless.ts', import.meta.url), 'utf8')
  expect(text).not.toContain('@cambium/cli')
})
