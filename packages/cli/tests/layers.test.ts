/** The layers that people own, as a run sees them. */

import { readFileSync } from 'node:fs'
import { main } from '@cambium/cli'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { type Bench, openBench } from './run-command.ts'
import { testHost } from './streams.ts'

let bench: Bench
beforeEach(async () => {
  bench = await openBench({ replies: Array(9).fill('fine') })
  bench.home.write('probe.mjs', PROBE)
})
afterEach(() => bench.close())

/** Writes its config beside itself when it is mounted. */
const PROBE = `import { writeFileSync } from 'node:fs'
export const apply = (ctx, config) => writeFileSync(new URL('probe.json', import.meta.url), JSON.stringify(config ?? null))
`
const PROBE_ROW = '- insert: [{ id: probe, name: ./probe.mjs, config: { a: user, b: user, c: user, d: user } }]\n'

const user = (text: string) => bench.home.write('cordis.patch.yml', text)
const project = (text: string) => bench.folder.write('.cambium/cordis.patch.yml', text)
const probed = () => JSON.parse(readFileSync(`${bench.home.path}/probe.json`, 'utf8'))

async function trust(...flags: string[]) {
  const host = testHost({ cwd: bench.folder.path })
  return { code: await main(['trust', ...flags], host), stdout: host.stdout.text, stderr: host.stderr.text }
}

describe('the layers', () => {
  test("lie over each other: the installation's, the user's, the project's, --patch, --set", async () => {
    user(PROBE_ROW)
    project('- { id: probe, config: { b: project, c: project, d: project } }\n')
    const patch = bench.folder.write('patch.yml', '- { id: probe, config: { c: patch, d: patch } }\n')
    expect((await trust('--yes')).code).toBe(0)
    const { code, stderr } = await bench.run(['--patch', patch, '--set', 'probe.d=set', 'go'])
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    expect(probed()).toEqual({ a: 'user', b: 'project', c: 'patch', d: 'set' })
  })

  test('change a shipped row field by field, and disable one', async () => {
    user('- id: budget\n  config: { turn: { maxSteps: 1 } }\n- { id: bash, disabled: true }\n')
    const report = (await bench.run(['-o', 'json', 'go'])).report
    expect(report).toMatchObject({ exitCode: 0 })
    const tools = bench.server.requests[0]!.body.tools!.map(tool => tool.function.name)
    expect(tools).toContain('read')
    expect(tools).not.toContain('bash')
  })

  test.each([
    ['', 'empty'],
    ['# nothing yet\n\n# - { id: x }\n', 'comments'],
  ])('a file of %j is an empty layer', async text => {
    user(text)
    expect(await bench.run(['go'])).toMatchObject({ code: 0, stderr: '' })
  })

  test.each([
    [
      'an id that no row has',
      '- id: openia\n  disabled: true\n',
      1,
      /no row has the id "openia"[\s\S]*did you mean "openai"\?/,
    ],
    ['a wrong key', '\n- id: openai\n  disable: true\n', 3, /a row has no key `disable`/],
    ['what is no YAML', '- id: [\n', 2, /not YAML/],
    ['a plugin that fails', '- insert:\n    - { id: it, name: ./throws.mjs }\n', 2, /no luck/],
    ['a module that is not there', '- insert: [{ id: it, name: ./gone.mjs }]\n', 1, /there is no file .*gone\.mjs/],
    [
      'an included file with a mistake',
      '- insert: [{ id: i, name: include, config: { path: ./inc.yml } }]\n',
      1,
      /name/,
    ],
  ])("%s in the user's layer is told with its line, and how to start without it", async (_, text, line, said) => {
    bench.home.write('throws.mjs', "export const apply = () => { throw new Error('no luck') }")
    bench.home.write('inc.yml', '- { id: x }\n')
    const file = user(text)
    const { code, stdout, stderr } = await bench.run(['go'])
    expect(code).not.toBe(0)
    expect(stdout).toBe('')
    expect(stderr).toMatch(said)
    expect(stderr).toContain(`${_.includes('included') ? file.replace('cordis.patch', 'inc') : file}:${line}:`)
    expect(stderr).toContain('to start without your layer: cambium run --no-layers, or CAMBIUM_NO_LAYERS=1')
    expect(stderr).not.toMatch(/\n\s+at /)
    expect(await bench.run(['--no-layers', 'go'])).toMatchObject({ code: 0, stderr: '' })
    expect(await bench.run(['go'], { env: { CAMBIUM_NO_LAYERS: '1' } })).toMatchObject({ code: 0, stderr: '' })
  })

  test("keep what a plugin changes for good in the user's", async () => {
    bench.home.write(
      'keeper.mjs',
      `export const apply = ctx => ctx.on('agent/session-start', async () => {
  await ctx.loader.update('probe', { config: { b: 'kept' } }, { persist: true })
})`,
    )
    const before = `# mine\n${PROBE_ROW}- insert: [{ id: keeper, name: ./keeper.mjs }] # for a while\n`
    user(before)
    expect(await bench.run(['go'])).toMatchObject({ code: 0, stderr: '' })
    const after = bench.home.read('cordis.patch.yml')
    expect(after).toBe(before.replace('b: user', 'b: kept'))
    expect(probed()).toEqual({ a: 'user', b: 'kept', c: 'user', d: 'user' })
    user(before)
    expect((await bench.run(['--no-layers', 'go'])).code).toBe(0)
    expect(bench.home.read('cordis.patch.yml')).toBe(before)
  })

  test('a limit on the command line is refused when a layer has disabled what keeps it', async () => {
    const file = user('- { id: budget, disabled: true }\n')
    const { code, stderr } = await bench.run(['--max-steps', '3', 'go'])
    expect(code).toBe(2)
    expect(stderr).toContain(`--max-steps would limit nothing: the row budget is disabled (${file}:1:`)
    expect((await bench.run(['go'])).code).toBe(0)
  })
})

describe("a project's layer", () => {
  const NOTICE =
    /^cambium: the layer of this project is not applied: .*cordis\.patch\.yml is not trusted; `cambium trust`[^\n]*\n$/

  test('is not applied until it is trusted, which one line says', async () => {
    user(PROBE_ROW)
    project('- { id: probe, config: { b: project } }\n')
    const before = await bench.run(['go'])
    expect(before.code).toBe(0)
    expect(before.stderr).toMatch(NOTICE)
    expect(probed()).toMatchObject({ b: 'user' })
    expect(await bench.run(['--quiet', 'go'])).toMatchObject({ code: 0, stderr: '' })
    await trust('--yes')
    expect(await bench.run(['go'])).toMatchObject({ code: 0, stderr: '' })
    expect(probed()).toMatchObject({ b: 'project' })
    await trust('--revoke')
    expect((await bench.run(['go'])).stderr).toMatch(NOTICE)
    expect(probed()).toMatchObject({ b: 'user' })
  })

  test('is that of the folder to work in, found from below', async () => {
    user(PROBE_ROW)
    project('- { id: probe, config: { b: project } }\n')
    await trust('--yes')
    bench.folder.write('packages/a/x.txt', '')
    expect((await bench.run(['--cwd', `${bench.folder.path}/packages/a`, 'go'], { cwd: bench.home.path })).stderr).toBe(
      '',
    )
    expect(probed()).toMatchObject({ b: 'project' })
    expect((await bench.run(['go'], { cwd: bench.home.path })).stderr).toBe('')
    expect(probed()).toMatchObject({ b: 'user' })
  })

  test('is left out by --no-project, and with all layers', async () => {
    user(PROBE_ROW)
    project('- { id: probe, config: { b: project } }\n')
    await trust('--yes')
    expect(await bench.run(['--no-project', 'go'])).toMatchObject({ code: 0, stderr: '' })
    expect(probed()).toMatchObject({ b: 'user' })
    project('- { id: other, disabled: true }\n')
    expect(await bench.run(['--no-layers', 'go'])).toMatchObject({ code: 0, stderr: '' })
  })

  describe('that has been trusted', () => {
    const FILES: Record<string, string> = {
      '.cambium/cordis.patch.yml': `- { id: probe, config: { b: project } }
- insert:
    - { id: mine, name: ./mine.mjs, config: { script: ./run.sh, data: tools/data.json, other: ./tools/list, notes: ./notes.md } }
    - { id: more, name: include, config: { path: ./more.yml } }
`,
      '.cambium/mine.mjs': "import { a } from './lib/a.mjs'\nimport 'dep'\nexport const apply = () => void a\n",
      '.cambium/lib/a.mjs': "export { b as a } from '../../shared/b.mjs'\n",
      'shared/b.mjs': 'export const b = () => import("./late.mjs")\n',
      'shared/late.mjs': 'export {}\n',
      '.cambium/run.sh': 'echo hi\n',
      'tools/list': '#!/bin/sh\n',
      'notes.md': 'mine\n',
      '.cambium/more.yml': '- { id: deep, name: ./deep.mjs }\n',
      '.cambium/deep.mjs': 'export const apply = () => {}\n',
      'node_modules/dep/package.json': '{ "name": "dep", "type": "module", "exports": "./main.js" }\n',
      'node_modules/dep/main.js': "import './inner.js'\n",
      'node_modules/dep/inner.js': 'export {}\n',
    }

    test('is still applied when a file of notes changes that it names', async () => {
      user(PROBE_ROW)
      for (const [name, text] of Object.entries(FILES)) bench.folder.write(name, text)
      await trust('--yes')
      bench.folder.write('notes.md', 'more\n')
      bench.folder.write('README.md', 'more\n')
      expect(await bench.run(['go'])).toMatchObject({ code: 0, stderr: '' })
      expect(probed()).toMatchObject({ b: 'project' })
    })

    test.each(Object.keys(FILES).filter(name => !/package\.json|notes/.test(name)))(
      'is not applied any more when %s changes',
      async changed => {
        user(PROBE_ROW)
        for (const [name, text] of Object.entries(FILES)) bench.folder.write(name, text)
        expect(await trust('--yes')).toMatchObject({ code: 0, stderr: '' })
        expect(await bench.run(['go'])).toMatchObject({ code: 0, stderr: '' })
        expect(probed()).toMatchObject({ b: 'project' })
        bench.folder.write(changed, `${FILES[changed]}\n`)
        const after = await bench.run(['go'])
        expect(after.code).toBe(0)
        expect(after.stderr).toMatch(
          /^cambium: the layer .* has changed since it was trusted; `cambium trust` [^\n]*\n$/,
        )
        expect(probed()).toMatchObject({ b: 'user' })
      },
    )

    test.each([
      ['a file that would be taken instead of one', 'shared/late.mjs.ts', ''],
      [
        'a package that a row names',
        'node_modules/later/index.js',
        '- insert: [{ id: l, name: later, required: false }]',
      ],
    ])('is not applied any more when %s appears', async (_, file, more) => {
      user(PROBE_ROW)
      for (const [name, text] of Object.entries(FILES)) bench.folder.write(name, text)
      project(`${FILES['.cambium/cordis.patch.yml']}${more}\n`)
      expect(await trust('--yes')).toMatchObject({ code: 0, stderr: '' })
      if (!more) expect(await bench.run(['go'])).toMatchObject({ code: 0, stderr: '' })
      bench.folder.write(file, 'export const apply = () => {}\n')
      if (more) bench.folder.write('node_modules/later/package.json', '{ "name": "later", "main": "index.js" }')
      expect((await bench.run(['go'])).stderr).toMatch(/has changed since it was trusted/)
      expect(probed()).toMatchObject({ b: 'user' })
    })

    test('and does not fit the tree any more fails the start, since it may have been a guard', async () => {
      user(PROBE_ROW)
      const file = project('- { id: probe, config: { b: project } }\n')
      await trust('--yes')
      user('')
      const { code, stderr } = await bench.run(['go'])
      expect(code).toBe(2)
      expect(stderr).toMatch(/^cambium: no row has the id "probe"/)
      expect(stderr).toContain(`${file}:1:`)
      expect(stderr).toContain("to start without the project's layer: cambium run --no-project")
      expect((await bench.run(['--no-project', 'go'])).code).toBe(0)
    })

    test('stays so when a patch of this run brings in no file of the project that nobody has seen', async () => {
      project('- insert: [{ id: off, name: include, disabled: true, config: { path: ./off.yml } }]\n')
      bench.folder.write('.cambium/off.yml', '- { id: x, name: ./x.mjs }\n')
      bench.folder.write('.cambium/x.mjs', 'globalThis.hostile = true\nexport const apply = () => {}\n')
      const patch = bench.home.write('on.yml', '- { id: off, disabled: false }\n')
      await trust('--yes')
      expect(await bench.run(['go'])).toMatchObject({ code: 0, stderr: '' })
      const { stderr } = await bench.run(['--patch', patch, 'go'])
      expect(stderr).toMatch(/has changed since it was trusted/)
      expect(globalThis).not.toHaveProperty('hostile')
    })
  })
})
