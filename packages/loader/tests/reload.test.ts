import { rmSync } from 'node:fs'
import { join } from 'node:path'
import type { Context } from '@cambium/core'
import Schema from 'schemastery'
import { describe, expect, test, vi } from 'vitest'
import { living } from './living.ts'

const A = '- { id: a, name: note }\n'
const B = '- { id: b, name: note }\n'
const C = '- { id: c, name: note }\n'
const nothing = { added: [], removed: [], remounted: [], moved: [] }

describe('reading the files again', () => {
  test('mounts anew the rows that changed, and no others', async () => {
    const tree = await living(`${A}${B}${C}`)
    tree.log.length = 0
    tree.write(`# said anew\n${A}- id: b\n  name: note\n  config: { tag: new }\n${C}`)
    expect(await tree.reload()).toEqual({ ...nothing, remounted: ['b'] })
    expect(tree.log).toEqual(['-b', '+b=new'])
    expect(tree.order()).toEqual(['a', 'b', 'c'])
    expect(tree.heard).toEqual(['remounted b'])
    expect(tree.loader.rows().map(({ row }) => row.at.replace(`${tree.folder}/`, ''))).toEqual([
      'cordis.yml:2:3',
      'cordis.yml:3:3',
      'cordis.yml:6:3',
    ])
  })

  test('touches nothing when they say the same', async () => {
    const tree = await living(`${A}${B}`)
    tree.log.length = 0
    tree.write(`# only a comment\n- name: "note"\n  id: a\n\n${B}`)
    expect(await tree.reload()).toEqual(nothing)
    expect(tree.log).toEqual([])
    expect(tree.heard).toEqual(['nothing'])
  })

  test('adds, takes away, disables and enables rows', async () => {
    const tree = await living(`${A}${B}- { id: c, name: note, disabled: true }\n`)
    tree.log.length = 0
    tree.write(`- { id: b, name: note, disabled: true }\n${C}- { id: d, name: note }\n`)
    expect(await tree.reload()).toEqual({ ...nothing, added: ['c', 'd'], removed: ['a', 'b'] })
    expect(tree.states()).toEqual(['b disabled', 'c active', 'd active'])
    tree.write(`${A}${B}`)
    expect(await tree.reload()).toEqual({ ...nothing, added: ['a', 'b'], removed: ['c', 'd'] })
    expect(tree.log).toEqual(['-b', '-a', '+c', '+d', '-d', '-c', '+a', '+b'])
  })

  test('gives rows that change places the order of the file', async () => {
    const tree = await living(`${A}${B}${C}`)
    tree.write(`${C}${A}${B}`)
    expect(await tree.reload()).toEqual({ ...nothing, moved: ['a', 'b'] })
    expect(tree.order()).toEqual(['c', 'a', 'b'])
    tree.write(`${C}- id: g\n  name: group\n  config:\n    ${A}${B}`)
    expect(await tree.reload()).toEqual({ ...nothing, added: ['g', 'g:a'], removed: ['a'] })
    expect(tree.order()).toEqual(['c', 'g:a', 'b'])
  })

  test('follows an included file, and the one that takes its place', async () => {
    const tree = await living({
      'cordis.yml': `${A}- { id: in, name: include, config: { path: ./in/rows.yml } }\n${C}`,
      'in/rows.yml': `${A}${B}`,
      'in/other.yml': B,
    })
    tree.log.length = 0
    tree.write(`${A}- { id: b, name: note, config: { tag: 2 } }\n`, 'in/rows.yml')
    expect(await tree.reload()).toEqual({ ...nothing, remounted: ['in:b'] })
    tree.write(`${A}- { id: in, name: include, config: { path: ./in/other.yml } }\n${C}`)
    expect(await tree.reload()).toEqual({ ...nothing, removed: ['in:a'], remounted: ['in:b'] })
    expect(tree.log).toEqual(['-in:b', '+in:b=2', '-in:b=2', '-in:a', '+in:b'])
    expect(tree.order()).toEqual(['a', 'in:b', 'c'])
    expect(tree.loader.files).toEqual(['cordis.yml', 'in/other.yml'].map(file => join(tree.folder, file)))
  })

  test('lets a group go on when rows in it change, and takes it anew with its rows when it changes', async () => {
    const group = (more: string, rows: string) =>
      `- { id: g, name: group${more}, config: [${rows}] }\n- { id: r, name: red }\n`
    const a = '{ id: a, name: reader }'
    const tree = await living(group('', a))
    tree.log.length = 0
    tree.write(group('', `${a}, { id: b, name: reader }`))
    expect(await tree.reload()).toEqual({ ...nothing, added: ['g:b'] })
    tree.write(group(', isolate: { ink: true }', `${a}, { id: p, name: blue }`))
    expect(await tree.reload()).toEqual({ ...nothing, added: ['g:p'], removed: ['g:b'], remounted: ['g', 'g:a'] })
    expect(tree.log).toEqual(['+g:b reads red', '-g:b', '-g:a', '+g:p blue', '+g:a reads blue'])
  })

  test('lays the patches over what it read: a value that a patch no longer sets is what the file says', async () => {
    const files = {
      'cordis.yml': '- { id: a, name: note, config: { tag: file } }\n',
      'my.patch.yml': `- { id: a, config: { tag: patch } }\n- insert: [{ id: x, name: note }]\n`,
    }
    const patches: { file: string }[] = []
    const tree = await living(files, {}, { patches, set: [] })
    patches.push({ file: join(tree.folder, 'my.patch.yml') })
    tree.log.length = 0
    expect(await tree.reload()).toEqual({ ...nothing, added: ['x'], remounted: ['a'] })
    tree.write('- insert: [{ id: x, name: note }]', 'my.patch.yml')
    expect(await tree.reload()).toEqual({ ...nothing, remounted: ['a'] })
    tree.write('', 'my.patch.yml')
    expect(await tree.reload()).toEqual({ ...nothing, removed: ['x'] })
    expect(tree.log).toEqual(['-a=file', '+a=patch', '+x', '-a=patch', '+a=file', '-x'])
  })

  test('lets an included tree be disabled though a patch speaks of its rows', async () => {
    const files = { 'cordis.yml': `${A}- { id: in, name: include, config: { path: ./in.yml } }\n`, 'in.yml': B }
    const tree = await living(files, {}, { patches: [{ data: [{ id: 'in:b', config: { tag: 1 } }] }] })
    tree.write(`${A}- { id: in, name: include, disabled: true, config: { path: ./in.yml } }\n`)
    expect(await tree.reload()).toEqual({ ...nothing, removed: ['in', 'in:b'] })
    tree.write(files['cordis.yml'])
    await tree.reload()
    expect(tree.log).toEqual(['+a', '+in:b=1', '-in:b=1', '+in:b=1'])
  })

  test('keeps the identity of rows without id by their place among those of their name', async () => {
    const row = (tag: string) => `- { name: note, config: { tag: ${tag} } }\n`
    const tree = await living(`${row('x')}- name: red\n${row('y')}`)
    tree.log.length = 0
    tree.write(`- name: red\n# moved up\n${row('x')}\n${row('z')}`)
    expect(await tree.reload()).toEqual({ ...nothing, moved: ['note#1'], remounted: ['note#2'] })
    tree.write(`- name: red\n- { id: new, name: blue, disabled: true }\n${row('x')}${row('z')}`)
    expect(await tree.reload()).toEqual(nothing)
    expect(tree.log).toEqual(['-note#2=y', '-note#1=x', '+note#1=x', '+note#2=z'])
  })

  test('takes a row that got another id for another row', async () => {
    const tree = await living('- { id: p, name: red }\n- { id: c, name: reader }\n')
    tree.log.length = 0
    tree.write('- { id: ink, name: red }\n- { id: c, name: reader }\n')
    expect(await tree.reload()).toEqual({ ...nothing, added: ['ink'], removed: ['p'] })
    expect(tree.log).toEqual(['-p red', '-c', '+ink red', '+c reads red'])
    expect(tree.states()).toEqual(['ink active', 'c active'])
  })

  test('evaluates expressions anew', async () => {
    const env: Record<string, string> = { TAG: 'one' }
    const text = '- { id: a, name: note, config: { tag: !env TAG } }\n- { id: b, name: note, disabled: !js env.OFF }\n'
    const tree = await living(text, {}, { env })
    tree.log.length = 0
    expect(await tree.reload()).toEqual(nothing)
    env.TAG = 'two'
    env.OFF = 'yes'
    expect(await tree.reload()).toEqual({ ...nothing, removed: ['b'], remounted: ['a'] })
    expect(tree.log).toEqual(['-b', '-a=one', '+a=two'])
  })

  test('leaves a row alone whose expression gives a function or an object of its own', async () => {
    const text = '- { id: a, name: note, config: { f: !js "() => 1", when: !js new Date(0), match: !js /x/ } }\n'
    const tree = await living(text)
    expect(await tree.reload()).toEqual(nothing)
    tree.write(text.replace('() => 1', '() => 2'))
    expect(await tree.reload()).toEqual({ ...nothing, remounted: ['a'] })
  })

  test('gives a row the config and the code of that moment, whichever of them changed', async () => {
    const seen: string[] = []
    const code = (version: string) => ({
      name: 'printer',
      apply: (_ctx: Context, { foo }: { foo: string }) => void seen.push(`${version} ${foo}`),
    })
    const modules: Record<string, unknown> = { printer: code('v1') }
    const row = (foo: string) => `- { id: p, name: printer, config: { foo: ${foo} } }\n${A}`
    const tree = await living(row('bar'), modules)
    tree.write(row('baz'))
    await tree.reload()
    modules.printer = code('v2')
    await tree.reload('p')
    modules.printer = code('v3')
    tree.write(row('qux'))
    await tree.reload('p')
    tree.write(row('bar'))
    await tree.reload()
    expect(seen).toEqual(['v1 bar', 'v1 baz', 'v2 baz', 'v3 qux', 'v3 bar'])
    expect(tree.log).toEqual(['+a'])
  })

  test('of many at once brings one instance, of the newest code, also while one is starting', async () => {
    let starts = 0
    let newest = 0
    const modules: Record<string, unknown> = {}
    const code = (version: number) => ({
      name: 'slow',
      provide: ['ink'],
      async apply(ctx: Context) {
        starts++
        for (let turn = 0; turn < 20; turn++) await new Promise(resolve => setImmediate(resolve))
        newest = version
        ctx.provide('ink', { colour: `v${version}` })
      },
    })
    modules.slow = code(0)
    const tree = await living('- { id: s, name: slow }\n- { id: c, name: reader }\n', modules)
    const reloads: Promise<unknown>[] = []
    for (let version = 1; version <= 20; version++) {
      modules.slow = code(version)
      reloads.push(tree.reload('s'))
      if (version % 5 === 0) await vi.waitUntil(() => starts > version / 5)
    }
    await Promise.all(reloads)
    expect(newest).toBe(20)
    expect(tree.booted.ctx.get('ink')).toEqual({ colour: 'v20' })
    expect(tree.log.at(-1)).toBe('+c reads v20')
    expect(tree.records).toEqual([])
    expect(starts, 'those that waited for the same turn were one').toBeLessThan(12)
    tree.write('- { id: s, name: slow, disabled: true }\n- { id: c, name: reader }\n')
    const off = tree.reload()
    await off
    expect(tree.states()).toEqual(['s disabled', 'c waiting'])
    tree.write('- { id: s, name: slow }\n- { id: c, name: reader }\n')
    await tree.reload()
    expect(tree.states()).toEqual(['s active', 'c active'])
  })

  test('asked for by a plugin that waits for it while it starts fails that plugin, and is made afterwards', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    try {
      const curious = { name: 'curious', apply: (ctx: Context) => ctx.loader.reload() }
      const tree = await living(A, { curious }, { noticeMs: 60_000 })
      tree.write(`${A}- { id: me, name: curious, required: false }\n`)
      const change = tree.reload()
      await vi.waitUntil(() => vi.getTimerCount() > 2)
      await vi.advanceTimersByTimeAsync(5_000)
      expect((await change).added).toEqual(['me'])
      expect(tree.states()).toEqual(['a active', 'me failed'])
      expect(tree.records).toHaveLength(1)
      expect(tree.records[0]).toMatch(
        /^warn TREE_BUSY: me waits in its start for a change of the tree, .*\n {2}where: cordis.yml:2:3 \(row me\)/,
      )
    } finally {
      vi.useRealTimers()
    }
  })
})

describe('files with a mistake leave the tree as it is', () => {
  const strict = { Config: Schema.object({ n: Schema.number() }), apply() {} }
  test.each<[string, string, RegExp]>([
    ['text that is no YAML', '- id: [', /^TREE_SYNTAX.*\n {2}where: cordis.yml:1:\d+/],
    ['an unknown key', `${A}- { id: b, name: note, conf: 1 }`, /^TREE_KEY_UNKNOWN.*\n {2}where: cordis.yml:2:24/],
    [
      'an id that is there twice',
      `${A}${A}${B}`,
      /^TREE_ID_DUPLICATE.*\n {2}where: cordis.yml:2:3 .*\n.*cordis.yml:1:3/,
    ],
    [
      'ids that differ by case',
      `${A}- { id: A, name: note }`,
      /^TREE_ID_DUPLICATE.*differs from "a" by case only\n {2}where: cordis.yml:2:3/,
    ],
    [
      'a config that its schema refuses',
      `${A}- { id: b, name: strict, config: { n: x } }`,
      /^TREE_CONFIG_INVALID.*\n {2}where: cordis.yml:2:36/,
    ],
    [
      'a setting that its schema does not know',
      `${A}- { id: b, name: strict, config: { m: 1 } }`,
      /^TREE_CONFIG_KEY_UNKNOWN.*\n {2}where: cordis.yml:2:36/,
    ],
    [
      'a module that is not there',
      `${A}- { id: b, name: ./gone.mjs, required: false }`,
      /^TREE_MODULE_NOT_FOUND.*\n {2}where: cordis.yml:2:18/,
    ],
    [
      'a module that cannot be read',
      `${A}- { id: b, name: ./syntax.mjs }`,
      /^TREE_MODULE_FAILED.*\n {2}where: cordis.yml:2:18 \(row b\)/,
    ],
    [
      'a module without apply',
      `${A}- { id: b, name: ./empty.mjs }`,
      /^TREE_PLUGIN_INVALID.*\n {2}where: cordis.yml:2:18/,
    ],
    [
      'an expression that fails',
      `${A}- { id: b, name: note, config: { tag: !js nope } }`,
      /^TREE_EXPRESSION.*\n {2}where: cordis.yml:2:43/,
    ],
    [
      'an include of no file',
      `${A}- { id: b, name: include, config: { path: ./no.yml } }`,
      /^TREE_FILE_UNREADABLE.*\n {2}where: cordis.yml:2:37/,
    ],
    [
      'a cycle of services',
      `${A}- { id: b, name: hen }\n- { id: c, name: egg }`,
      /^TREE_SERVICE_CYCLE.*\n {2}where: cordis.yml:2:3 \(row b\), cordis.yml:3:3/,
    ],
  ])('%s', async (_what, text, message) => {
    const hen = { provide: ['hen'], inject: ['egg'], apply() {} }
    const egg = { provide: ['egg'], inject: ['hen'], apply() {} }
    const files = { 'cordis.yml': `${A}${B}`, 'syntax.mjs': 'export function apply( {', 'empty.mjs': '' }
    const tree = await living(files, { strict, hen, egg })
    tree.log.length = 0
    tree.write(text)
    expect(await tree.refusal(tree.reload())).toMatch(message)
    expect(tree.log).toEqual([])
    expect(tree.states()).toEqual(['a active', 'b active'])
    expect(tree.records, 'what is thrown is not logged too').toEqual([])
    expect(tree.heard).toHaveLength(1)
    expect(tree.heard[0]).toMatch(/^reload refused: TREE_/)
    tree.write(`${A}${B}${C}`)
    expect((await tree.reload()).added).toEqual(['c'])
  })

  test('however many, all of them are told', async () => {
    const tree = await living(A, { strict })
    tree.write(`${A}- { id: b, name: ./gone.mjs }\n- { id: c, name: strict, config: { n: x } }\n`)
    const message = await tree.refusal(tree.reload())
    expect(message.match(/where: cordis.yml:\d+:\d+/g)).toEqual(['where: cordis.yml:2:18', 'where: cordis.yml:3:36'])
    expect(tree.heard).toEqual(['reload refused: TREE_MISTAKES'])
  })

  test('whose files are told all the same, so that who watches them sees them corrected', async () => {
    const tree = await living(A)
    tree.write(`${A}- { id: in, name: include, config: { path: ./in.yml } }\n`)
    await tree.refusal(tree.reload())
    const files = ['cordis.yml', 'in.yml'].map(file => join(tree.folder, file))
    expect(tree.loader.files).toEqual(files)
    tree.write(B, 'in.yml')
    expect((await tree.reload()).added).toEqual(['in', 'in:b'])
    tree.write(A)
    await tree.reload()
    expect(tree.loader.files).toEqual([files[0]])
  })

  test('also when the file itself is gone', async () => {
    const tree = await living(A)
    rmSync(join(tree.folder, 'cordis.yml'))
    expect(await tree.refusal(tree.reload())).toMatch(/^TREE_FILE_UNREADABLE: cordis.yml: there is no such file/)
    expect(tree.states()).toEqual(['a active'])
  })
})
