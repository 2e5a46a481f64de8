/** The released package, as somebody has it who installs it: built, packed, and installed into an empty folder. */

import { type ExecFileException, execFile } from 'node:child_process'
import { cpSync, existsSync, readdirSync, readFileSync, renameSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type ModelServer, startModelServer, tempWorkspace } from '@cambium/testkit'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { startWatching } from '../packages/loader/tests/watching.ts'

const root = fileURLToPath(new URL('..', import.meta.url))
const plugins = fileURLToPath(new URL('fixtures/release', import.meta.url))

const build = tempWorkspace()
/** The user's folder, and an empty home. */
const user = tempWorkspace({ 'package.json': '{ "type": "module" }' })
const home = tempWorkspace()
const installed = join(user.path, 'node_modules')
const released = join(installed, 'cambium')

let server: ModelServer | undefined
let start: string[]

interface Ended {
  readonly code: number
  readonly stdout: string
  readonly stderr: string
}

function run(program: string, args: readonly string[], options: { cwd?: string; env?: object } = {}): Promise<Ended> {
  const { PATH } = process.env
  const env = { PATH, HOME: home.path, npm_config_update_notifier: 'false', ...options.env } as NodeJS.ProcessEnv
  return new Promise(resolve => {
    const ended = (error: ExecFileException | null, stdout: string, stderr: string) => {
      resolve({ code: error ? Number(error.code ?? 1) : 0, stdout, stderr })
    }
    execFile(program, args, { cwd: options.cwd ?? user.path, env, timeout: 180_000 }, ended).stdin?.end()
  })
}

const bin = (name: string) => join(installed, '.bin', name)

/** `cambium run` on a folder, by a model that gives these answers. */
async function cambium(task: string, cwd: string, env: object = {}) {
  const own = { OPENAI_BASE_URL: server?.url, OPENAI_API_KEY: 'x', ...env }
  return run(bin('cambium'), ['run', '--model', 'openai/test-model', task], { cwd, env: own })
}

beforeAll(async () => {
  const sources = join(build.path, 'sources.json')
  const script = ['scripts/build.mjs', '--pack', '--out', join(build.path, 'dist'), '--sources', sources]
  const built = await run(process.execPath, script, { cwd: root })
  expect(built.code, built.stderr).toBe(0)
  start = JSON.parse(readFileSync(sources, 'utf8')).start
  // How this machine reaches its registry; everything else of npm's begins empty, like the home.
  const network = Object.entries(process.env).filter(([name]) => /registry$|_proxy$|cert|ssl_/i.test(name))
  const install = ['install', '--no-audit', '--no-fund', built.stdout.trim()]
  const done = await run('npm', install, { env: Object.fromEntries(network) })
  expect(done.code, done.stderr).toBe(0)
}, 240_000)

afterAll(() => {
  for (const folder of [build, user, home]) folder.dispose()
})

afterEach(async () => {
  await server?.close()
})

test('the manifest names exact versions, and no package by another name', () => {
  const text = readFileSync(join(released, 'package.json'), 'utf8')
  const { dependencies, bin } = JSON.parse(text)
  expect(text).not.toContain('npm:')
  expect(text).not.toContain('workspace:')
  for (const version of Object.values(dependencies)) expect(version).toMatch(/^\d+\.\d+\.\d+$/)
  expect(Object.keys(bin)).toEqual(['cambium', 'cordis'])
  for (const name of ['cordis', '@cordisjs', '@deepseek-ai', '@cambium']) {
    expect(existsSync(join(installed, name)), name).toBe(false)
  }
})

test('what is installed takes at most 60 MB', () => {
  const files = readdirSync(installed, { recursive: true, encoding: 'utf8' })
  const bytes = files.reduce((sum, file) => sum + statSync(join(installed, file)).size, 0)
  expect(bytes).toBeLessThan(60e6)
  expect(bytes).toBeGreaterThan(1e6)
})

test('a start reads no library that the default tree does not need', () => {
  const libraries = new Set(start.flatMap(file => /.*node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(file)?.[1] ?? []))
  expect([...libraries].sort()).toEqual([
    '@deepseek-ai/cordis',
    '@deepseek-ai/cosmokit',
    'cosmokit',
    'eventsource-parser',
    'proxy-from-env',
    'schemastery',
    'yaml',
  ])
})

test('cambium run does a task in a folder', async () => {
  const folder = tempWorkspace({ 'sum.js': 'export const sum = (a, b) => a - b\n' })
  const edit = { file_path: 'sum.js', old_string: 'a - b', new_string: 'a + b' }
  const check = `node --input-type=module -e "import { sum } from './sum.js'; console.log('sum', sum(1, 2))"`
  server = await startModelServer({
    replies: [
      { toolCalls: [{ name: 'grep', arguments: { pattern: 'a - b' } }] },
      { toolCalls: [{ name: 'read', arguments: { file_path: 'sum.js' } }] },
      { toolCalls: [{ name: 'edit', arguments: edit }] },
      { toolCalls: [{ name: 'bash', arguments: { command: check } }] },
      'The sum is right now.',
    ],
  })
  expect(await cambium('repair the sum', folder.path)).toEqual({
    code: 0,
    stdout: 'The sum is right now.\n',
    stderr: '',
  })
  expect(folder.read('sum.js')).toBe('export const sum = (a, b) => a + b\n')
  expect(server.requests[1]?.text).toContain('1: export const sum')
  expect(server.requests[4]?.text).toContain('sum 3')
  server.expectDone()
  folder.dispose()
})

test('a start loads two files of the package, and compiled code that an earlier one left', async () => {
  const coverage = tempWorkspace()
  server = await startModelServer({ otherwise: 'fine' })
  await cambium('warm up', user.path)
  const [cache, ...others] = readdirSync(home.path, { recursive: true, encoding: 'utf8' }).filter(file =>
    /cambium-[0-9a-f]{12}-v/.test(file),
  )
  expect(others).toEqual([])
  expect(await cambium('go', user.path, { NODE_V8_COVERAGE: coverage.path })).toMatchObject({
    code: 0,
    stdout: 'fine\n',
  })
  const scripts = readdirSync(coverage.path).flatMap(file => JSON.parse(coverage.read(file)).result)
  const loaded = scripts.map(({ url }) => url as string).filter(url => url.includes('/cambium/lib/'))
  expect(loaded.map(url => url.replace(/.*\/cambium\//, '')).sort()).toEqual(['lib/code/start.cjs', 'lib/runtime.cjs'])

  for (const damage of [Buffer.alloc(0), Buffer.alloc(1e6, 7), home.bytes(cache!).subarray(0, -9)]) {
    home.write(cache!, damage)
    expect(await cambium('go', user.path)).toEqual({ code: 0, stdout: 'fine\n', stderr: '' })
  }
  coverage.dispose()
}, 30_000)

test('a home that cannot be written to costs no more than the time to compile', async () => {
  const file = home.write('a-file', '')
  const { code, stdout, stderr } = await run(bin('cambium'), ['--version'], {
    env: { CAMBIUM_HOME: join(file, 'home') },
  })
  const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
  expect({ code, stdout, stderr }).toEqual({ code: 0, stdout: `${version}\n`, stderr: '' })
})

test('plugins from outside run on the one cordis of the process, whatever they are written in', async () => {
  cpSync(plugins, join(user.path, 'plugins'), { recursive: true })
  // A package of its own that names no module system.
  user.write('loose/package.json', '{}')
  cpSync(join(plugins, 'typed.ts'), join(user.path, 'loose/typed.ts'))
  // What an author's editor reads, and tsx as well.
  user.write('tsconfig.json', '{ "extends": "cambium/tsconfig.json" }')
  const names = ['plugins/module.js', 'plugins/typed.ts', 'loose/typed.ts', 'plugins/common.cjs']
  const rows = ["{ name: '@cambium/llm' }", ...names.map(name => `{ name: ./${name} }`)]
  user.write('cordis.yml', rows.map(row => `- ${row}\n`).join(''))
  // Of a folder that names no module system Node says that it had to look.
  const env = { NODE_NO_WARNINGS: '1' }
  const { stdout, ...rest } = await run(bin('cordis'), ['start', '--log-level', 'silent'], { env })
  expect(rest).toEqual({ code: 0, stderr: '' })
  const reports = stdout.trim().split('\n').sort()
  expect(reports).toEqual(names.map(name => `${name}: one Context, one LlmRuntime`).sort())
}, 30_000)

test('JavaScript may import the TypeScript of the plugin beside it', async () => {
  const plugin = "import { word } from './word.ts'\nexport const apply = ctx => void console.log(word)\n"
  user.write('mixed/package.json', '{ "type": "module" }')
  user.write('mixed/word.ts', "export const word: string = 'shared'\n")
  user.write('mixed/plain.js', plugin)
  user.write('mixed/typed.ts', plugin)
  user.write('mixed/cordis.yml', '- name: ./plain.js\n- name: ./typed.ts\n- name: ./end.js\n')
  user.write('mixed/end.js', 'export const apply = ctx => void ctx.app.main(() => 0)\n')
  const started = await run(bin('cordis'), ['start', 'mixed/cordis.yml', '--log-level', 'silent'])
  expect(started).toEqual({ code: 0, stdout: 'shared\nshared\n', stderr: '' })
}, 30_000)

test('a changed file of a plugin from outside is live without a restart, with what imports it', async () => {
  const plugin = (name: string) => `
    import { Context } from '@cambium/core'
    import { word } from './${name}'
    export function apply(ctx) {
      console.error('${name}', word, ctx instanceof Context)
    }
  `
  const files = {
    'package.json': '{ "type": "module" }',
    'cordis.yml': '- { id: typed, name: ./typed.ts }\n- { id: plain, name: ./plain.js }\n',
    'typed.ts': plugin('word.ts'),
    'word.ts': "export const word: string = 'one'\n",
    'plain.js': plugin('word.js'),
    'word.js': "export const word = 'eins'\n",
  }
  const program = join(released, 'bin/cordis.cjs')
  const run = startWatching(files, { program, env: { HOME: home.path, CAMBIUM_HOME: home.path } })
  await run.until(/cordis\.yml is up/)
  expect(await run.reloaded(() => run.write('word.ts', files['word.ts'].replace('one', 'two')))).toEqual([
    'word.ts two true',
    'hmr: word.ts → typed reloaded in time',
  ])
  const { said, account } = await run.refused(() => run.write('word.js', 'export const = 1\n'))
  expect(said).toEqual(['error: hmr: word.js → not reloaded, the rows stay as they were'])
  expect(account).toContain('(row plain), word.js:1:14\n')
  expect(await run.reloaded(() => run.write('word.js', files['word.js'].replace('eins', 'zwei')))).toEqual([
    'word.js zwei true',
    'hmr: word.js → plain reloaded in time',
  ])
  await run.end()
}, 30_000)

test('what cordis create makes works at once, away from the installation', async () => {
  const away = tempWorkspace()
  const options = { cwd: away.path }
  for (const kind of ['plugin', 'app']) {
    expect(await run(bin('cordis'), ['create', kind, `my-${kind}s`], options)).toMatchObject({ code: 0, stderr: '' })
  }
  const inPlugin = { cwd: join(away.path, 'my-plugins') }
  const inApp = { cwd: join(away.path, 'my-apps') }
  const results = await Promise.all([
    run(process.execPath, ['--test', '--test-reporter=tap'], inPlugin),
    run(bin('cordis'), ['check'], inPlugin),
    run(bin('cambium'), ['run', '--quiet', '--patch', 'patch.yml', 'greet Ada'], inPlugin),
    run(bin('cordis'), ['check'], inApp),
    run(bin('cordis'), ['start'], inApp),
  ])
  const [tested, ...others] = results
  expect(tested?.stdout).toMatch(/^# pass 3\n# fail 0$/m)
  expect(others.map(({ code, stdout }) => [code, stdout.split('\n', 1)[0]])).toEqual([
    [0, 'cordis.yml: 3 rows, no mistakes'],
    [0, expect.stringContaining('No model is connected')],
    [0, expect.stringMatching(/^cordis.yml: \d+ rows, no mistakes$/)],
    [0, '> What is in this folder?'],
  ])
  away.dispose()
}, 60_000)

test('a mistake is answered with the plugins that the package has, from a table that needs no sources', async () => {
  user.write('wrong.yml', "- name: '@cambium/toolbox/bsh'\n- { id: sh, name: '@cambium/toolbox/bash' }\n")
  const { code, stdout } = await run(bin('cordis'), ['check', 'wrong.yml'])
  expect(code).toBe(1)
  expect(stdout).toContain('did you mean "@cambium/toolbox/bash"?')
  user.write('wrong.yml', "- { id: sh, name: '@cambium/toolbox/bash' }\n")
  const started = await run(bin('cordis'), ['start', 'wrong.yml'])
  expect(started.stderr).toContain(
    'add a row with name: "@cambium/tools"; add a row with name: "@cambium/machine/local"',
  )
})

const stripsTypes = Boolean((process.features as { typescript?: unknown }).typescript)

test.skipIf(stripsTypes)('TypeScript without tsx is refused in one clear error', async () => {
  renameSync(join(installed, 'tsx'), join(installed, 'tsx.away'))
  writeFileSync(join(user.path, 'typed.yml'), '- name: ./plugins/typed.ts\n')
  try {
    const { code, stderr } = await run(bin('cordis'), ['start', 'typed.yml'])
    expect(code).toBe(1)
    expect(stderr).toContain('this Node cannot run TypeScript, and tsx is not installed')
    expect(stderr).toContain('install tsx beside the tree, or use a Node with type stripping')
    expect(stderr).not.toMatch(/^ {4}at /m)
  } finally {
    renameSync(join(installed, 'tsx.away'), join(installed, 'tsx'))
  }
})

test('an app mounts a tree by importing the package', async () => {
  user.write('tree.yml', "- name: '@cambium/llm'\n")
  user.write(
    'app.js',
    `import { bootTree } from 'cambium/loader'
     import { Context } from 'cambium/core'
     const tree = await bootTree({ file: 'tree.yml' })
     console.log(tree.ctx instanceof Context, typeof tree.ctx.llm.registerAdapter)
     await tree.dispose()`,
  )
  expect(await run(process.execPath, ['app.js'])).toEqual({ code: 0, stdout: 'true function\n', stderr: '' })
})

test('a plugin author has the types', async () => {
  const include = ['plugins/typed.ts', 'loose/typed.ts', 'app.ts']
  const types = { typeRoots: [join(root, 'node_modules/@types')], types: ['node'], skipLibCheck: false }
  user.write('tsconfig.json', JSON.stringify({ extends: 'cambium/tsconfig.json', include, compilerOptions: types }))
  user.write(
    'app.ts',
    `import { bootTree } from 'cambium/loader'
     const { ctx } = await bootTree({ file: 'tree.yml' })
     // @ts-expect-error there is no such service
     ctx.nothing
     // @ts-expect-error the name is missing
     ctx.llm.registerAdapter()`,
  )
  const tsc = join(root, 'node_modules/typescript/bin/tsc')
  expect(await run(process.execPath, [tsc, '-p', user.path])).toEqual({ code: 0, stdout: '', stderr: '' })
})
