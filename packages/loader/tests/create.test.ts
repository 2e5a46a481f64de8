import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { main } from '@cambium/loader/command'
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest'
import { command, runNode } from './command-line.ts'

let away = ''
beforeAll(() => {
  away = mkdtempSync(join(tmpdir(), 'create-'))
})
afterAll(() => rmSync(away, { recursive: true }))
afterEach(() => void vi.restoreAllMocks())

/** Makes it in this process. */
async function create(...args: string[]) {
  const printed = { stdout: '', stderr: '' }
  for (const name of ['stdout', 'stderr'] as const) {
    vi.spyOn(process[name], 'write').mockImplementation(text => {
      printed[name] += text
      return true
    })
  }
  const code = await main(['create', ...args])
  vi.restoreAllMocks()
  return { code, ...printed }
}

/** Without keys, and with a home of its own. */
const env = () => ({
  ...Object.fromEntries(
    Object.keys(process.env).flatMap(name => (/_(API_KEY|BASE_URL)$/.test(name) ? [[name, '']] : [])),
  ),
  CAMBIUM_HOME: join(away, 'home'),
})

describe('cordis create plugin', () => {
  test('makes a folder whose test passes, whose tree is sound and starts, and which a run takes', async () => {
    const folder = join(away, 'tea-time')
    const made = await create('plugin', 'tea-time', folder)
    expect(made).toMatchObject({ code: 0, stderr: '' })
    expect(made.stdout).toContain(`${folder}: a plugin with a tool, a setting and a test\n`)
    expect(made.stdout).toContain(`\n  cd ${folder}\n  node --test `)
    const files = made.stdout.split('\n')[1]!.trim().split(', ')
    expect(readdirSync(folder).sort()).toEqual([...files, 'node_modules'].sort())
    for (const file of files) expect(readFileSync(join(folder, file), 'utf8'), file).not.toMatch(/sample[-_]plugin/)

    const cambium = new URL('../../cli/bin/cambium.js', import.meta.url).pathname
    const options = { cwd: folder, env: env() }
    const start = command(['start'], options)
    const [tested, patched, checked] = await Promise.all([
      runNode(['--test', '--test-reporter=tap'], options).end,
      runNode([cambium, 'run', '--patch', 'patch.yml', 'greet Ada'], options).end,
      command(['check'], options).end,
      start.says('cordis.yml is up (3 active)'),
    ])
    start.child.kill('SIGTERM')
    expect(tested.stdout).toMatch(/^# pass 3$/m)
    expect(tested.stdout).toMatch(/^# fail 0$/m)
    expect([patched.code, patched.stdout]).toEqual([0, expect.stringContaining('No model is connected')])
    expect(checked.stdout).toBe('cordis.yml: 3 rows, no mistakes\n')
    expect((await start.end).code).toBe(143)
  })

  test('goes into a folder that is empty, and leaves one alone that has something in it', async () => {
    const [empty, taken] = [join(away, 'empty'), join(away, 'taken')]
    for (const folder of [empty, taken]) mkdirSync(folder)
    writeFileSync(join(taken, 'notes.txt'), 'mine')
    mkdirSync(join(empty, '.git'))
    expect((await create('plugin', 'tea', empty)).code).toBe(0)
    expect(readdirSync(empty)).toContain('.git')
    expect(readdirSync(empty).filter(file => file.endsWith('.new'))).toEqual([])
    expect(JSON.parse(readFileSync(join(empty, 'package.json'), 'utf8')).name).toBe('tea')
    const { code, stdout, stderr } = await create('plugin', 'tea', taken)
    expect([code, stdout]).toEqual([1, ''])
    expect(stderr).toContain('cordis: SCAFFOLD_FOLDER: the folder is not empty\n  where: ')
    expect(readdirSync(taken)).toEqual(['notes.txt'])
  })

  test.each([
    ['My Plugin', 'my-plugin'],
    ['teaTime', 'tea-time'],
    ['../up', 'up'],
    ['café_1', 'cafe-1'],
    ['cordis', 'my-cordis'],
    ['…', 'my-plugin'],
  ])('refuses the name %s, and says %s', async (name, meant) => {
    const { code, stdout, stderr } = await create('plugin', name, join(away, 'refused'))
    expect([code, stdout]).toEqual([2, ''])
    expect(stderr).toContain(`fix:   use lower-case words with dashes: cordis create plugin ${meant}\n`)
    expect(readdirSync(away)).not.toContain('refused')
  })
})

describe('cordis create app', () => {
  test('makes an agent that runs without a key', async () => {
    const folder = join(away, 'helper')
    expect(await create('app', 'helper', folder)).toMatchObject({ code: 0, stderr: '' })
    const options = { cwd: folder, env: env() }
    const [{ code, stdout, stderr }, checked] = await Promise.all([
      command(['start', '--', 'what', 'is', 'there?'], options).end,
      command(['check'], options).end,
    ])
    expect(stdout).toMatch(/^> what is there\?\n {2}calls glob\nYour app is in this folder: app.ts drives the agent/)
    expect(stderr).not.toMatch(/error/i)
    expect(code).toBe(0)
    expect(checked.stdout).toMatch(/^cordis.yml: \d+ rows, no mistakes\n$/)
  })
})

test('what cannot be created is a usage error that says what can', async () => {
  const { code, stderr } = await create('pluging', 'x')
  expect(code).toBe(2)
  expect(stderr).toContain('did you mean cordis create plugin?')
  const nothing = await create()
  expect([nothing.code, nothing.stderr]).toEqual([
    2,
    "cordis: missing required argument 'kind'\n\nusage: cordis create [options] <kind> <name> [folder]\n\n" +
      '  cordis create --help  lists the options\n',
  ])
})
