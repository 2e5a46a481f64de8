import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { bootTree, tempWorkspace } from '@cambium/testkit'
import { afterEach, expect, test, vi } from 'vitest'

const file = fileURLToPath(new URL('./cordis.yml', import.meta.url))

afterEach(() => {
  vi.restoreAllMocks()
  vi.unstubAllEnvs()
})

async function run(patch: unknown[] = []) {
  using folder = tempWorkspace()
  for (const name of Object.keys(process.env)) if (/_(API_KEY|BASE_URL)$/.test(name)) vi.stubEnv(name, undefined)
  let stdout = ''
  let stderr = ''
  vi.spyOn(console, 'log').mockImplementation((text: string) => {
    stdout += `${text}\n`
  })
  vi.spyOn(console, 'error').mockImplementation(() => {})
  vi.spyOn(process.stderr, 'write').mockImplementation(text => {
    stderr += text
    return true
  })
  const place = `${folder.path}/demo`
  const patches = [{ id: 'repair', config: { folder: place } }, { id: 'openai', disabled: true }, ...patch]
  const tree = await bootTree({ file }, { patches: [{ text: JSON.stringify(patches) }] })
  const code = await tree.ended
  return { code, stdout, stderr, left: existsSync(place) }
}

test('without a key the scenario repairs the sample, with real calls, and its tests really pass', async () => {
  const { code, stdout, stderr, left } = await run()
  expect(stdout).toContain('no key is set, so the scripted demo model answers')
  expect(stdout).toContain('every tool call is real')
  expect(stderr).toMatch(/✓ glob .*\n(.*\n)*.*✗ bash node --test/)
  expect(stderr).toMatch(/✓ edit src\/parse\.js .*\n(.*\n)*.*✓ bash node --test/)
  expect(stdout).toContain("-      if (char === '\"') quoted = false\n")
  expect(stdout).toContain('+++ b/src/parse.js\n')
  expect(stdout).toMatch(/The tests pass now\.\n$/)
  expect(code).toBe(0)
  expect(left).toBe(false)
})

test('an agent that only says that it is done makes the demo fail', async () => {
  const { code, stdout } = await run([{ id: 'scripted', config: { turns: [{ text: 'All tests pass now.' }] } }])
  expect(stdout).toContain('Nothing was changed.')
  expect(stdout).toContain('The tests still fail')
  expect(code).toBe(1)
})
