import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { tempWorkspace } from '@cambium/testkit'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { ask, fold, hello } from './http-client.ts'

const cli = fileURLToPath(new URL('../src/model-server-cli.ts', import.meta.url))
let folder: ReturnType<typeof tempWorkspace>
beforeEach(() => {
  folder = tempWorkspace()
})
afterEach(() => folder.dispose())

function run(...args: string[]) {
  const child = spawn(process.execPath, ['--import', 'tsx', cli, ...args], { stdio: ['ignore', 'pipe', 'pipe'] })
  let errors = ''
  child.stderr.on('data', text => {
    errors += text
  })
  const ended = once(child, 'close').then(([code]) => ({ code: code as number, errors }))
  const url = once(child.stdout, 'data').then(([line]) => JSON.parse(String(line)).url as string)
  return { child, ended, url }
}

it('answers a script file as a process, and says on leaving what was not asked for', async () => {
  const script = folder.write(
    'script.yml',
    `replies:
  - fault: 429
    retryAfter: 2
  - text: done
    toolCalls: [{ name: read, arguments: { file_path: a } }]
  - never asked for
models: [small]
`,
  )
  const { child, ended, url } = run('--script', script, '--expect-done', '--verbose')
  expect((await ask(await url, hello({ model: 'small' }))).headers['retry-after']).toBe('2')
  expect(fold((await ask(await url, hello({ model: 'small' }))).body)).toMatchObject({
    text: 'done',
    finish: 'tool_calls',
  })
  expect((await ask(await url, hello({ model: 'large' }))).status).toBe(404)
  child.kill('SIGTERM')
  const { code, errors } = await ended
  expect(code).toBe(1)
  expect(errors).toContain('0: small, 1 messages')
  expect(errors).toContain('reply 2 is left 1 times')
})

it('has a help', async () => {
  const child = spawn(process.execPath, ['--import', 'tsx', cli, '--help'], { stdio: ['ignore', 'pipe', 'inherit'] })
  const [text] = await once(child.stdout, 'data')
  expect(await once(child, 'close')).toEqual([0, null])
  for (const said of ['usage: ', '--script <file>', 'OPENAI_BASE_URL', 'otherwise'])
    expect(String(text)).toContain(said)
})

it.each([
  [['--halp'], /Unknown option '--halp'/],
  [[], /--script <file.yml> is missing; --help has the others/],
])('refuses the flags %j with a sentence', async (flags, problem) => {
  const { ended } = run(...flags)
  const { code, errors } = await ended
  expect({ code, errors }).toEqual({ code: 2, errors: expect.stringMatching(problem) })
  expect(errors).not.toMatch(/^\s+at /m)
})

it.each([
  ['replys: []', 'unknown key "replys"'],
  ['- { fault: restart }', '"fault" of a reply cannot be "restart"'],
])('refuses the script %s with a sentence', async (text, problem) => {
  const { ended } = run('--script', folder.write('script.yml', text))
  const { code, errors } = await ended
  expect(code).toBe(2)
  expect(errors).toContain(problem)
  expect(errors).not.toMatch(/^\s+at /m)
})
