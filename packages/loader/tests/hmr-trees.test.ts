import { afterAll, beforeAll, expect, test } from 'vitest'
import { startWatching, type Watching } from './watching.ts'

const plugin = (value: string, head = '') =>
  `${head}\nexport const apply = ctx => void console.error(ctx.loader.locate(), ${value})\n`

const FILES = {
  'package.json': '{ "type": "module" }',
  'a.yml': '- { id: first, name: ./first.ts }\n- { id: hasty, name: ./hasty.js }\n',
  'b.yml': '- { id: second, name: ./second.ts }\n- { id: late, name: ./late.ts, required: false }\n',
  'shared.ts': "export const shared: string = 'one'\n",
  'first.ts': plugin('shared', "import { shared } from './shared.ts'"),
  'second.ts': plugin('shared', "import { shared } from './shared.ts'"),
  // Saved again between its import and the moment from which it is watched.
  'hasty.js': plugin(
    'part',
    "import { writeFileSync } from 'node:fs'\nimport { part } from './part.js'\nif (part === 'early') writeFileSync('part.js', \"export const part = 'late'\\n\")",
  ),
  'part.js': "export const part = 'early'\n",
}

let run: Watching
let started: string[]
beforeAll(async () => {
  run = startWatching(FILES, { args: ['a.yml', 'b.yml'] })
  started = await run.until(/^hmr: /)
  if (!started.some(line => line.includes('b.yml is up'))) await run.until(/b\.yml is up/)
}, 30_000)
afterAll(() => run.end())

const share = (text: string) => run.write('shared.ts', text)

test('what is saved while the tree starts is reloaded', () => {
  expect(started.filter(line => /^(hmr:|hasty) /.test(line))).toEqual([
    'hasty early',
    'hasty late',
    'hmr: part.js → hasty reloaded in time',
  ])
})

test('a file that rows of two trees import reloads both', async () => {
  share("export const shared: string = 'two'\n")
  const said = [...(await run.until(/^hmr: /)), ...(await run.until(/^hmr: /))]
  expect(said.sort()).toEqual([
    'first two',
    'hmr: shared.ts → first reloaded in time',
    'hmr: shared.ts → second reloaded in time',
    'second two',
  ])
})

test('a file of one tree leaves the other alone', async () => {
  expect(await run.reloaded(() => run.write('first.ts', FILES['first.ts'].replace('shared)', "shared, '!')")))).toEqual(
    ['first two !', 'hmr: first.ts → first reloaded in time'],
  )
})

test('what one tree refuses and the other takes is tried again with both', async () => {
  run.write('first.ts', `${FILES['first.ts']}if (shared === 'three') throw new Error('not three')\n`)
  await run.until(/^hmr: first.ts/)
  share("export const shared: string = 'three'\n")
  const mixed = await run.until(/^hmr: shared.ts → second reloaded/)
  expect(mixed.join('\n')).toMatch(/^second three\nerror: hmr: shared.ts → not reloaded.*\n.*: not three\n/)
  run.write('first.ts', FILES['first.ts'])
  const said = [...(await run.until(/^hmr: /)), ...(await run.until(/^hmr: /))]
  expect(said).toContain('first three')
})

test('a row whose file is missing starts when the file is there, and all that it imports', async () => {
  run.write('late.ts', plugin("'in time'", "import './later.ts'"))
  expect((await run.until(/ fix: /))[0]).toMatch(/^warn: loader: TREE_MODULE_FAILED: .*later\.ts/)
  expect(await run.reloaded(() => run.write('later.ts', 'export {}\n'))).toEqual([
    'late in time',
    'hmr: later.ts → late reloaded in time',
  ])
})
