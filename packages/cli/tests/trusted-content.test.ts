/** What a trusted project leads to: every file that could change what happens has to stay as it was. */

import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { main } from '@cambium/cli'
import { type TempWorkspace, tempWorkspace } from '@cambium/testkit'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { testHost } from './streams.ts'

let home: TempWorkspace
let folder: TempWorkspace
beforeEach(() => {
  home = tempWorkspace()
  folder = tempWorkspace()
  vi.stubEnv('CAMBIUM_HOME', home.path)
})
afterEach(() => {
  vi.unstubAllEnvs()
  home.dispose()
  folder.dispose()
})

async function cambium(...argv: string[]) {
  const host = testHost({ cwd: folder.path })
  return { code: await main(argv, host), stdout: host.stdout.text, stderr: host.stderr.text }
}

const state = async () =>
  JSON.parse((await cambium('config', 'path', '--json')).stdout).files.find(
    ({ what }: { what: string }) => what === 'project',
  ).state

/** The files that `trust` takes no notice of. */
async function overlooked(files: Record<string, string>, names: readonly string[]): Promise<string[]> {
  for (const [name, text] of Object.entries(files)) folder.write(name, text)
  expect(await cambium('trust', '--yes')).toMatchObject({ code: 0, stderr: '' })
  expect(await state()).toBe('applied')
  const missed: string[] = []
  for (const name of names) {
    const path = join(folder.path, name)
    const before = readFileSync(path)
    writeFileSync(path, `${before}\n`)
    if ((await state()) === 'applied') missed.push(name)
    writeFileSync(path, before)
  }
  expect(await state()).toBe('applied')
  return missed
}

const manifest = (data: object) => JSON.stringify({ name: 'x', ...data })

test('counts wherever import or require would find it, by any condition, ending, main or # name', async () => {
  const modules = {
    'node_modules/dual/esm.mjs': '',
    'node_modules/dual/common.cjs': "require('./more')",
    'node_modules/dual/more/deep.js': '',
    'node_modules/dual/plain.js': '',
    'node_modules/dual/features/one.ts': '',
    'node_modules/old/lib.js': '',
    'node_modules/old/thing.js': '',
    'node_modules/old/folder/index.js': '',
    'parts/real.js': '',
    'parts/bare': "require('./late')",
    'parts/late.js': '',
    'lib/one.mjs': '',
    'node_modules/behind/main.js': '',
    'node_modules/commented/index.js': '',
    'node_modules/ticked/index.js': '',
    'node_modules/made/index.js': '',
  }
  const missed = await overlooked(
    {
      '.cambium/cordis.patch.yml': '- insert: [{ id: a, name: ../a.cjs }, { id: b, name: ../b.mjs }]\n',
      'a.cjs': `require('dual'); require('dual/features/one'); require('old'); require('old/thing'); require('old/folder')
require('./parts'); require('./parts/bare'); require(/* what? */ 'commented')\n`,
      'b.mjs': `import '#lib/one'\nimport '#behind'\nimport(\`ticked\`)\ncreateRequire(import.meta.url)('made')\n`,
      'package.json': manifest({ imports: { '#lib/*': './lib/*.mjs', '#behind': { default: ['behind'] } } }),
      'node_modules/dual/package.json': manifest({
        exports: {
          '.': { import: './esm.mjs', require: { node: './common.cjs' }, default: './plain.js' },
          './features/*': './features/*.ts',
        },
      }),
      'node_modules/dual/more/package.json': manifest({ main: './deep' }),
      'node_modules/old/package.json': manifest({ main: 'lib' }),
      'parts/package.json': manifest({ main: 'real.js' }),
      'node_modules/behind/package.json': manifest({ main: 'main.js' }),
      ...modules,
    },
    Object.keys(modules),
  )
  expect(missed).toEqual([])
})

test('counts when a value names it: in a line for a shell, an option, a default or an expression', async () => {
  const programs = [
    'line.sh',
    'hooks/run.sh',
    'opt.yml',
    'default.sh',
    'here.sh',
    'there.cmd',
    'step.sh',
    'srv/main.py',
  ]
  const missed = await overlooked(
    {
      '.cambium/cordis.patch.yml': `- insert:
    - id: a
      name: ./a.mjs
      config:
        line: bash ./line.sh --strict
        args: [hooks/run.sh, --config=./opt.yml]
        bin: !env [GUARD_BIN_THAT_NOBODY_HAS, ./default.sh]
        chosen: !js "process.platform === 'win32' ? './there.cmd' : './here.sh'"
        script: |
          set -e
          ./step.sh
        server: python srv/main.py
        text: |
          Of notes.md and src/prose.ts
          the second is the program.
`,
      '.cambium/a.mjs': 'export const apply = () => {}\n',
      'src/prose.ts': '',
      ...Object.fromEntries(programs.map(name => [name, ''])),
    },
    [...programs, 'src/prose.ts'],
  )
  expect(missed).toEqual(['src/prose.ts'])
})

test('values that aliases repeat without end are looked at once', async () => {
  const lists = [...Array(9).keys()].map(n => `        a${n}: &a${n} [${n ? `*a${n - 1}, `.repeat(9) : './x.sh'}]`)
  folder.write(
    '.cambium/cordis.patch.yml',
    `- insert:\n    - id: a\n      name: ./a.mjs\n      disabled: true\n      config:\n${lists.join('\n')}\n`,
  )
  expect(await cambium('trust', '--yes')).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('more than 100000 values'),
  })
})
