/** `cambium trust`: looking at what a project would do, and deciding. */

import { readFileSync, rmSync, symlinkSync } from 'node:fs'
import { main } from '@cambium/cli'
import { TrustStore } from '@cambium/store/trust'
import { type TempWorkspace, tempWorkspace } from '@cambium/testkit'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { type TestHostOptions, testHost } from './streams.ts'

let home: TempWorkspace
let folder: TempWorkspace
beforeEach(() => {
  home = tempWorkspace()
  folder = tempWorkspace({
    '.cambium/cordis.patch.yml': `- id: openai
  config: { providers: { x: { baseURL: "https://x.example", apiKey: s3cret } } }
- { id: bash, disabled: !js process.platform === 'win32' }
- insert:
    - { id: greet, name: ./greet.ts }
    - { id: pkg, name: left-pad }
`,
    '.cambium/greet.ts': "import { hello } from './lib/hello.js'\nexport const apply = () => void hello\n",
    '.cambium/lib/hello.ts': 'export const hello = 1\n',
    'sub/x.txt': '',
  })
  vi.stubEnv('CAMBIUM_HOME', home.path)
})
afterEach(() => {
  vi.unstubAllEnvs()
  home.dispose()
  folder.dispose()
})

async function cambium(argv: readonly string[], options: TestHostOptions = {}) {
  const host = testHost({ cwd: folder.path, ...options })
  return { code: await main(argv, host), stdout: host.stdout.text, stderr: host.stderr.text }
}

const trust = (...argv: string[]) => cambium(['trust', ...argv])
const state = async () => {
  const { stdout } = await cambium(['config', 'path', '--json'])
  return JSON.parse(stdout).files.find(({ what }: { what: string }) => what === 'project')?.state
}

test('shows the files that count, why, and what the layer does', async () => {
  const { stdout } = await trust()
  expect(stdout).toBe(`${folder.path}: not trusted

3 files:
  .cambium/cordis.patch.yml  the layer
  .cambium/greet.ts  the module of greet
  .cambium/lib/hello.ts  imported by .cambium/greet.ts

what the layer does:
  changes openai  (.cambium/cordis.patch.yml:2:40)
    config.providers.x.baseURL: https://x.example
    config.providers.x.apiKey: "***"
  changes bash  (.cambium/cordis.patch.yml:3:29)
    disabled: !js process.platform === 'win32'
  adds greet  (.cambium/cordis.patch.yml:5:7)
    name: ${folder.path}/.cambium/greet.ts
  adds pkg  (.cambium/cordis.patch.yml:6:7)
    name: left-pad

packages that rows name:
  left-pad  (row pkg) is not there yet

Code that a row names runs as you, with your files and keys, each time cambium works in this folder.
`)
})

describe('the decision', () => {
  test.each([
    ['y\n', 'applied', 0],
    ['Yes\n', 'applied', 0],
    ['\n', 'not trusted', 1],
    ['n\n', 'not trusted', 1],
    ['', 'not trusted', 1],
    ['yikes\n', 'not trusted', 1],
  ])('is asked for on a terminal: %j leaves the layer %s', async (keyboard, then, exit) => {
    const { code, stderr } = await cambium(['trust'], { keyboard })
    expect(stderr).toContain('Trust 3 files? [y/N] ')
    expect(code).toBe(exit)
    expect(await state()).toBe(then)
  })

  test('needs --yes without a terminal, where nobody can be asked', async () => {
    const { code, stdout, stderr } = await trust()
    expect(code).toBe(2)
    expect(stdout).toContain('the module of greet')
    expect(stderr).toContain('add --yes once you have read the files')
    expect(await state()).toBe('not trusted')
    expect(await trust('--yes')).toMatchObject({ code: 0, stderr: '' })
    expect(await state()).toBe('applied')
  })

  test('is about the nearest folder that has a layer, or the one that is named', async () => {
    expect((await cambium(['trust', '--yes', 'sub'])).code).toBe(0)
    expect(await state()).toBe('applied')
    expect((await cambium(['trust', '--revoke', folder.path], { cwd: home.path })).code).toBe(0)
    expect(await state()).toBe('not trusted')
    const { code, stderr } = await cambium(['trust'], { cwd: home.path })
    expect(code).toBe(2)
    expect(stderr).toContain('there is no .cambium/cordis.patch.yml at or above')
  })

  test('holds for the folder by whatever name, and not for a copy of it', async () => {
    const link = `${home.path}/link`
    symlinkSync(folder.path, link)
    await cambium(['trust', '--yes'], { cwd: link })
    expect(await state()).toBe('applied')
    const copy = tempWorkspace({ '.cambium/cordis.patch.yml': folder.read('.cambium/cordis.patch.yml') })
    const { stdout } = await cambium(['config', 'path'], { cwd: copy.path })
    expect(stdout).toContain('not trusted')
    copy.dispose()
  })

  test('shows what is new once a file has changed, and is then asked for again', async () => {
    await trust('--yes')
    expect(await trust()).toMatchObject({
      code: 0,
      stdout: expect.stringContaining('It is trusted: nothing has changed.'),
    })
    folder.write('.cambium/greet.ts', "import './more.ts'\nimport './lib/hello.js'\nexport const apply = () => {}\n")
    folder.write('.cambium/more.ts', '')
    const { code, stdout } = await trust()
    expect(code).toBe(2)
    expect(stdout).toContain('has changed since it was trusted')
    expect(stdout).toContain('greet.ts  the module of greet  (changed)\n')
    expect(stdout).toContain('more.ts  imported by .cambium/greet.ts  (new)\n')
    expect(stdout).toContain('hello.ts  imported by .cambium/greet.ts\n')
    await trust('--yes')
    expect(await state()).toBe('applied')
  })

  test('is not recorded when a file changes while somebody looks at it', async () => {
    const host = testHost({ cwd: folder.path, keyboard: 'y\n' })
    const stderr = { write: host.stderr.write.bind(host.stderr), on: host.stderr.on.bind(host.stderr) }
    Object.assign(host.stderr, {
      write: (text: string) => {
        if (text.includes('[y/N]')) folder.write('.cambium/lib/hello.ts', 'export const hello = "bad"\n')
        return stderr.write(text)
      },
    })
    expect(await main(['trust'], host)).toBe(1)
    expect(host.stderr.text).toContain('a file changed while it was shown: nothing was trusted')
    expect(await state()).toBe('not trusted')
  })

  test('cannot be made about a layer with mistakes, or one that hides what it reads', async () => {
    folder.write('.cambium/cordis.patch.yml', '- { id: lop, disabled: true }\n')
    expect(await trust('--yes')).toMatchObject({ code: 2, stderr: expect.stringContaining('did you mean "loop"?') })
    folder.write('.cambium/cordis.patch.yml', '- insert: [{ id: i, name: include, config: { path: !env X } }]\n')
    const { code, stderr } = await trust('--yes')
    expect(code).toBe(1)
    expect(stderr).toContain('the row i includes a file whose path is an expression')
    expect(await state()).toBe('not trusted')
  })
})

test("the project's settings are among what is trusted, also where there is no layer", async () => {
  const settings = folder.write('.cambium/settings.yml', 'a: 1\n')
  await trust('--yes')
  const store = new TrustStore(home.path)
  expect(store.check(folder.path, [settings])).toBe('trusted')
  folder.write('.cambium/settings.yml', 'a: 2\n')
  expect(store.check(folder.path, [settings])).toBe('changed')
  // They are another matter than the layer.
  expect(await state()).toBe('applied')
  expect((await trust()).stdout).toContain("settings.yml  the project's settings  (changed)\n")
  rmSync(`${folder.path}/.cambium/cordis.patch.yml`)
  expect((await trust('--yes')).code).toBe(0)
  expect(store.check(folder.path, [settings])).toBe('trusted')
})

test('--list tells of each trusted folder, also of one that has changed or is gone', async () => {
  expect(await trust('--list')).toMatchObject({ code: 0, stdout: '', stderr: 'cambium: no folder is trusted\n' })
  await trust('--yes')
  const { stdout } = await trust('--list')
  expect(stdout).toMatch(/^\d{4}-\d\d-\d\d {2}\S+ {2}\(3 files\)\n$/)
  folder.write('.cambium/lib/hello.ts', '')
  expect((await trust('--list')).stdout).toMatch(/\) {2}changed\n$/)
  rmSync(folder.path, { recursive: true })
  const gone = JSON.parse((await cambium(['trust', '--list', '--json'], { cwd: home.path })).stdout)
  expect(gone.folders).toMatchObject([{ folder: folder.path, state: 'gone', files: expect.any(Array) }])
  await cambium(['trust', '--revoke', folder.path], { cwd: home.path })
  expect(JSON.parse((await cambium(['trust', '--list', '--json'], { cwd: home.path })).stdout)).toEqual({ folders: [] })
})

test('--revoke ends the trust, and says so when there was none', async () => {
  await trust('--yes')
  expect((await trust('--revoke')).stdout).toBe(`${folder.path} is trusted no longer\n`)
  expect((await trust('--revoke')).stdout).toBe(`${folder.path} was not trusted\n`)
  expect(await state()).toBe('not trusted')
})

test('--json tells the same to a program', async () => {
  const { stdout } = await trust('--json', '--yes')
  expect(JSON.parse(stdout)).toMatchObject({
    folder: folder.path,
    state: 'unknown',
    trusted: true,
    files: [
      { why: 'the layer', state: 'new' },
      { why: 'the module of greet' },
      { by: `${folder.path}/.cambium/greet.ts` },
    ],
    rows: [{ id: 'openai', action: 'changes' }, { id: 'bash' }, { id: 'greet', action: 'adds' }, { id: 'pkg' }],
    packages: [{ row: 'pkg', name: 'left-pad', found: 'nowhere' }],
  })
  expect(stdout).not.toContain('s3cret')
})

test('a broken list of trusted folders trusts none, and is told', async () => {
  await trust('--yes')
  home.write('trust.json', '{')
  expect(await state()).toMatch(/^unusable: the list of trusted projects cannot be read/)
  expect((await trust('--list')).stderr).toContain('trust.json')
  expect(readFileSync(`${home.path}/trust.json`, 'utf8')).toBe('{')
})
