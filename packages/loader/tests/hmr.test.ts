import { readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startWatching, type Watching } from './watching.ts'

/** Where Node itself reads TypeScript, it says some mistakes in other words than tsx. */
const readsTypeScript = Boolean((process.features as { typescript?: unknown }).typescript)

/** A plugin that says so when it starts and when it goes. */
const plugin = (value: string, head = '') =>
  `${head}
export function apply(ctx, config) {
  const row = ctx.loader.locate()
  console.error(row, ${value})
  ctx.effect(() => () => console.error(row, 'gone'))
}
`
const FILES = {
  'package.json': '{ "type": "module" }',
  'cordis.yml': `
- { id: greet, name: ./greet.ts }
- { id: shout, name: ./shout.ts }
- { id: plain, name: ./plain.js }
- { id: first, name: ./twice.ts, config: { word: a } }
- { id: second, name: ./twice.ts, config: { word: b } }
- { id: linked, name: linked/plugin }
- { id: vendored, name: vendored }
- { id: more, name: include, config: { path: ./more.yml } }
- { id: loose, name: ./loose/common.ts }
- { id: old, name: ./old.cjs }
- { id: lazy, name: ./lazy.ts }
- { id: round, name: ./round.ts }
- { id: counter, name: ./counter.ts }
- { id: reader, name: ./reader.ts }
- { id: fragile, name: ./fragile.ts, required: false }
- { id: one, name: ./one.js }
- { id: other, name: ./other.js }
`,
  'more.yml': '- { id: inner, name: ./inner.ts, config: { word: old } }\n',
  'greet.ts': plugin('mid()', "import { mid } from './mid.ts'"),
  'mid.ts':
    "import { deep } from './lib/deep.ts'\nimport { shared } from './shared.ts'\nexport const mid = () => [deep, shared].join(' ')\n",
  'lib/deep.ts': "export const deep: string = 'one'\n",
  'shared.ts': "export const shared: string = 'shared'\n",
  'shout.ts': plugin('shared.toUpperCase()', "import { shared } from './shared.ts'"),
  'plain.js': plugin(
    'words.hello + part',
    "import { part } from './part.js'\nimport words from './words.json' with { type: 'json' }",
  ),
  'part.js': "export const part = '!'\n",
  'words.json': '{ "hello": "hi" }',
  'twice.ts': plugin('config.word'),
  'libs/linked/package.json': '{ "name": "linked", "type": "module", "exports": { "./plugin": "./plugin.ts" } }',
  'libs/linked/plugin.ts': plugin("'linked'"),
  'node_modules/vendored/package.json': '{ "name": "vendored", "type": "module", "exports": "./index.js" }',
  'node_modules/vendored/index.js': plugin("'vendored'"),
  'inner.ts': plugin('config.word'),
  'loose/package.json': '{}',
  'loose/common.ts': plugin('helper', "import { helper } from './helper.ts'"),
  'loose/helper.ts': "export const helper: string = 'loose'\n",
  'old.cjs': `const { part } = require('./old-part.cjs')\n${plugin('part()').replace('export function apply', 'exports.apply = function')}`,
  'old-part.cjs': "exports.part = () => 'old'\n",
  'lazy.ts': `export async function apply(ctx) {
  const { later } = await import('./later.ts')
  console.error('lazy', later)
  ctx.effect(() => () => console.error('lazy gone'))
}
`,
  'later.ts': "export const later: string = 'later'\n",
  'round.ts': plugin('there()', "import { there } from './round-there.ts'\nexport const back = () => 'round'"),
  'round-there.ts': "import { back } from './round.ts'\nexport const there = () => back()\n",
  'counter.ts': `export const provide = ['counter']
export function apply(ctx) {
  const state = ctx.loader.keep('state', () => ({ starts: 0 }))
  state.starts++
  ctx.provide('counter', { say: () => 'counted ' + state.starts })
  ctx.effect(() => () => console.error('counter gone'))
}
`,
  'reader.ts': `export const inject = ['counter']\n${plugin('ctx.counter.say()')}`,
  'fragile.ts': 'export const apply = (\n',
  'one.js': plugin('common', "import common from './common.cjs'"),
  'other.js': plugin('common', "import common from './common.cjs'"),
  'common.cjs': "module.exports = 'common'\n",
}

let run: Watching
const edit = (file: keyof typeof FILES, from: string, to: string) => {
  const text = readFileSync(join(run.folder, file), 'utf8')
  expect(text).toContain(from)
  run.write(file, text.replace(from, to))
}
/** Every line that the edit brings, the last one is that of the reload. */
const reloaded = (file: keyof typeof FILES, from: string, to: string) => run.reloaded(() => edit(file, from, to))

beforeAll(async () => {
  run = startWatching(FILES, { links: { 'node_modules/linked': '../libs/linked' } })
  await run.until(/cordis\.yml is up/)
}, 30_000)
afterAll(() => run.end())

describe('a changed file reloads the rows above it, and no others', () => {
  test('three files deep, in TypeScript', async () => {
    expect(await reloaded('lib/deep.ts', 'one', 'two')).toEqual([
      'greet gone',
      'greet two shared',
      'hmr: lib/deep.ts → greet reloaded in time',
    ])
  })

  test('two rows that share it, in one transaction', async () => {
    expect(await reloaded('shared.ts', "'shared'", "'common'")).toEqual([
      'shout gone',
      'greet gone',
      'greet two common',
      'shout COMMON',
      'hmr: shared.ts → greet, shout reloaded in time',
    ])
  })

  test('in JavaScript, and what it reads as JSON', async () => {
    expect(await reloaded('part.js', '!', '?')).toEqual([
      'plain gone',
      'plain hi?',
      'hmr: part.js → plain reloaded in time',
    ])
    expect(await reloaded('words.json', 'hi', 'hello')).toEqual([
      'plain gone',
      'plain hello?',
      'hmr: words.json → plain reloaded in time',
    ])
  })

  test('in a package that is linked, but not in one that is installed', async () => {
    edit('node_modules/vendored/index.js', "'vendored'", "'changed'")
    expect(await reloaded('libs/linked/plugin.ts', "'linked'", "'relinked'")).toEqual([
      'linked gone',
      'linked relinked',
      'hmr: libs/linked/plugin.ts → linked reloaded in time',
    ])
  })

  test('each row of a plugin that is mounted twice', async () => {
    expect(await reloaded('twice.ts', 'config.word', "config.word + 'z'")).toEqual([
      'second gone',
      'first gone',
      'first az',
      'second bz',
      'hmr: twice.ts → first, second reloaded in time',
    ])
  })

  test('in CommonJS, by its own extension and in a folder that names no module system', async () => {
    expect(await reloaded('old-part.cjs', 'old', 'older')).toEqual([
      'old gone',
      'old older',
      'hmr: old-part.cjs → old reloaded in time',
    ])
    expect(await reloaded('loose/helper.ts', "'loose'", "'looser'")).toEqual([
      'loose gone',
      'loose looser',
      'hmr: loose/helper.ts → loose reloaded in time',
    ])
    expect(await reloaded('loose/helper.ts', "'looser'", "'loosest'")).toContain('loose loosest')
  })

  test('imported while the plugin runs', async () => {
    expect(await reloaded('later.ts', "'later'", "'even later'")).toEqual([
      'lazy gone',
      'lazy even later',
      'hmr: later.ts → lazy reloaded in time',
    ])
  })

  test('in a cycle', async () => {
    expect(await reloaded('round-there.ts', 'back()', "back() + ' trip'")).toEqual([
      'round gone',
      'round round trip',
      'hmr: round-there.ts → round reloaded in time',
    ])
    expect(await reloaded('round.ts', "'round'", "'whole round'")).toContain('round whole round trip')
  })

  test('with the rows that use its service, and the state that it keeps', async () => {
    expect(await reloaded('counter.ts', "'counted '", "'counted to '")).toEqual([
      'counter gone',
      'reader gone',
      'reader counted to 2',
      'hmr: counter.ts → counter reloaded in time',
    ])
  })

  test('the file of an included tree', async () => {
    expect(await reloaded('more.yml', 'word: old', 'word: new')).toEqual([
      'more:inner gone',
      'more:inner new',
      'hmr: more.yml → more:inner reloaded in time',
    ])
  })
})

describe('a mistake', () => {
  const mended = (file: keyof typeof FILES, from: string, to: string) => reloaded(file, from, to)
  const refused = (file: keyof typeof FILES, from: string, to: string) => run.refused(() => edit(file, from, to))

  test('of syntax is shown with its lines, what ran goes on, and mending it is enough', async () => {
    const wrong = "const a = 1\nexport const deep: string = = 'three'\n"
    const { said, account } = await run.refused(() => run.write('lib/deep.ts', wrong))
    expect(said).toEqual(['error: hmr: lib/deep.ts → not reloaded, the rows stay as they were'])
    expect(account).toMatch(/^TREE_MODULE_FAILED: .*\n {2}where: cordis.yml:2:22 \(row greet\), lib\/deep.ts:2:29\n/)
    expect(account.split('\n').slice(-5)).toEqual([
      '',
      '  1 | const a = 1',
      "> 2 | export const deep: string = = 'three'",
      '    |                             ^',
      '  3 |',
    ])
    // Others are reloaded meanwhile.
    expect(await reloaded('part.js', '?', '.')).toEqual([
      'plain gone',
      'plain hello.',
      'hmr: part.js → plain reloaded in time',
    ])
    expect(await run.reloaded(() => run.write('lib/deep.ts', "export const deep: string = 'three'\n"))).toEqual([
      'greet gone',
      'greet three common',
      'hmr: lib/deep.ts → greet reloaded in time',
    ])
  })

  test('of a plugin does not keep its row from another config', async () => {
    await refused('twice.ts', 'const row', 'const = row')
    expect(await reloaded('cordis.yml', 'word: b', 'word: c')).toEqual([
      'second gone',
      'second cz',
      'hmr: cordis.yml → second reloaded in time',
    ])
    expect(await mended('twice.ts', 'const = row', 'const row')).toEqual([
      'second gone',
      'first gone',
      'first az',
      'second cz',
      'hmr: twice.ts → first, second reloaded in time',
    ])
  })

  test('in JavaScript that is imported is found too', async () => {
    const { account } = await refused('part.js', 'export const', 'export const =')
    expect(account).toContain('(row plain), part.js:1:14\n')
    expect(await mended('part.js', 'const =', 'const')).toContain('plain hello.')
  })

  test('in an import is shown where it stands', async () => {
    const { account } = await refused('mid.ts', './lib/deep.ts', './lib/deap.ts')
    expect(account).toContain('(row greet), mid.ts:1:22\n')
    const { account: other } = await refused('mid.ts', './lib/deap.ts', 'deep')
    expect(other).toContain('(row greet), mid.ts:1:22\n')
    expect(await mended('mid.ts', "'deep'", "'./lib/deep.ts'")).toContain('greet three common')
  })

  test('that `apply` throws brings the former module back', async () => {
    const { said, account } = await refused(
      'plain.js',
      'console.error(row,',
      "throw new Error('no') ; console.error(row,",
    )
    expect(said).toEqual([
      'plain gone',
      'plain hello.',
      'error: hmr: plain.js → not reloaded, the rows stay as they were',
    ])
    expect(account).toMatch(/failed to start: no\n {2}where: .*, plain.js:5:\d+\n/)
    expect(await mended('plain.js', "throw new Error('no') ; ", '')).toContain('plain hello.')
  })

  test('in CommonJS that several import ends nothing', async () => {
    const { account } = await refused('common.cjs', "'common'", 'missing')
    expect(account).toMatch(/^TREE_MODULE_FAILED: .* cannot be imported: missing is not defined\n/)
    expect(await mended('common.cjs', 'missing', "'shared'")).toEqual([
      'other gone',
      'one gone',
      'one shared',
      'other shared',
      'hmr: common.cjs → one, other reloaded in time',
    ])
  })

  test('keeps back what was saved with it, and no longer', async () => {
    await run.refused(() => {
      edit('part.js', 'export const', 'export const =')
      edit('common.cjs', "'shared'", "'kept back'")
    })
    const said = await mended('part.js', 'const =', 'const')
    expect(said).toEqual(expect.arrayContaining(['plain hello.', 'one kept back', 'other kept back']))
  })

  test('of a row that could not start is mended like any other', async () => {
    expect(await run.reloaded(() => run.write('fragile.ts', plugin("'mended'")))).toEqual([
      'fragile mended',
      'hmr: fragile.ts → fragile reloaded in time',
    ])
  })

  test('in the tree keeps the last good one, and is shown with its lines', async () => {
    const { account } = await refused('more.yml', 'config:', 'konfig:')
    expect(account.split('\n').slice(-3)).toEqual([
      '> 1 | - { id: inner, name: ./inner.ts, konfig: { word: new } }',
      `    | ${' '.repeat(33)}^`,
      '  2 |',
    ])
    expect(await mended('more.yml', 'konfig: { word: new }', 'config: { word: newer }')).toContain('more:inner newer')
  })

  test('in the tree that is undone is told so', async () => {
    const before = readFileSync(join(run.folder, 'cordis.yml'), 'utf8')
    await refused('cordis.yml', 'word: a', 'words: [')
    expect(await run.reloaded(() => run.write('cordis.yml', before))).toEqual([
      'hmr: cordis.yml → mended, nothing to reload',
    ])
  })

  test('in the tree keeps modules back until it is mended, and no longer', async () => {
    await refused('more.yml', 'config:', 'konfig:')
    await refused('inner.ts', 'config.word', "config.word + '!'")
    expect(await mended('more.yml', 'konfig:', 'config:')).toEqual([
      'more:inner gone',
      'more:inner newer!',
      'hmr: more.yml → more:inner reloaded in time',
    ])
  })

  test('that the module and the tree make together is over when either is mended', async () => {
    const needy = plugin('config.text').replace('const row', "if (!config.text) throw new Error('no text'); const row")
    const { account } = await run.refused(() => run.write('inner.ts', needy))
    expect(account).toContain('no text\n')
    expect(await mended('more.yml', 'word:', 'text:')).toEqual([
      'more:inner gone',
      'more:inner newer',
      'hmr: more.yml → more:inner reloaded in time',
    ])
  })

  test('of a row that is new is over when its file is mended, or is there', async () => {
    const row = '- { id: fresh, name: ./fresh.ts }\n'
    const add = () => run.write('more.yml', readFileSync(join(run.folder, 'more.yml'), 'utf8') + row)
    await run.refused(add)
    const { account } = await run.refused(() => run.write('fresh.ts', 'export const apply = (\n'))
    expect(account).toContain(`(row more:fresh), fresh.ts:${readsTypeScript ? '1' : '2:1'}\n`)
    await run.refused(() => run.write('fresh.ts', plugin('said', "import { said } from './fresh-part.ts'")))
    await run.refused(() => run.write('fresh-part.ts', "throw new Error('part')\n"))
    expect(await run.reloaded(() => run.write('fresh-part.ts', "export const said = 'fresh'\n"))).toEqual([
      'more:fresh fresh',
      'hmr: fresh-part.ts → more:fresh added in time',
    ])
  })

  test('names the file as it is, in stacks too', async () => {
    const file = 'plain.js'
    const said = await reloaded(
      file,
      'console.error(row, ',
      "console.error(row, new Error('where').stack.split('\\n')[1], ",
    )
    expect(said[1]).toMatch(/^plain {5}at Module\.apply \(file:\/\/.*\/plain\.js:5:\d+\) hello\.$/)
  })
})

describe('a save', () => {
  test('that is one of many is reloaded once', async () => {
    const said = await run.reloaded(() => {
      for (let count = 1; count <= 10; count++) run.write('later.ts', `export const later: string = '${count}'\n`)
    })
    expect(said).toEqual(['lazy gone', 'lazy 10', 'hmr: later.ts → lazy reloaded in time'])
    expect(await reloaded('later.ts', '10', 'last')).toHaveLength(3)
  })

  test('may delete the file first', async () => {
    const said = await run.reloaded(() => {
      rmSync(join(run.folder, 'later.ts'))
      run.write('later.ts', "export const later: string = 'again'\n")
    })
    expect(said).toEqual(['lazy gone', 'lazy again', 'hmr: later.ts → lazy reloaded in time'])
  })

  test('of a file that was gone for long is reloaded', async () => {
    const { said } = await run.refused(() => rmSync(join(run.folder, 'later.ts')))
    expect(said).toEqual(['lazy gone', 'lazy again', 'error: hmr: later.ts → not reloaded, the rows stay as they were'])
    expect(await run.reloaded(() => run.write('later.ts', "export const later: string = 'back'\n"))).toEqual([
      'lazy gone',
      'lazy back',
      'hmr: later.ts → lazy reloaded in time',
    ])
  })

  test('of a file that was gone for a moment, in which it was wanted, is reloaded though it is as before', async () => {
    const later = readFileSync(join(run.folder, 'later.ts'), 'utf8')
    const { account } = await run.refused(() => {
      rmSync(join(run.folder, 'later.ts'))
      edit('lazy.ts', "'lazy', later", "'lazily', later")
    })
    expect(account).toContain(readsTypeScript ? 'ENOENT: no such file' : 'Cannot find module')
    expect(await run.reloaded(() => run.write('later.ts', later))).toContain('lazily back')
  })

  test('of a tree that goes on while another of its files is settled is not taken for an empty tree', async () => {
    const tree = readFileSync(join(run.folder, 'cordis.yml'), 'utf8')
    const said = await run.reloaded(() => {
      run.write('cordis.yml', '')
      edit('more.yml', 'text: newer', 'text: newest')
      setTimeout(() => run.write('cordis.yml', tree), 600)
    })
    expect(said).toEqual(['more:inner gone', 'more:inner newest', 'hmr: more.yml → more:inner reloaded in time'])
  })

  test('of a file that is imported no longer concerns nobody above', async () => {
    await reloaded('mid.ts', "import { shared } from './shared.ts'", "const shared = 'its own'")
    expect(await reloaded('shared.ts', "'common'", "'shared'")).toEqual([
      'shout gone',
      'shout SHARED',
      'hmr: shared.ts → shout reloaded in time',
    ])
  })

  test('of what the process runs on says that a restart is needed', async () => {
    expect(await run.reloaded(() => run.write('start.mjs', 'changed'))).toEqual([
      'warn: hmr: start.mjs → restart to have this change: the process runs on it',
    ])
  })
})
