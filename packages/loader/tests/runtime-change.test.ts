import { join } from 'node:path'
import { type Context, createRoot } from '@cambium/core'
import { createTree, loadTree } from '@cambium/loader'
import { describe, expect, test } from 'vitest'
import { living } from './living.ts'

const nothing = { added: [], removed: [], remounted: [], moved: [] }
const A = '- { id: a, name: note }\n'
const B = '- { id: b, name: note, config: { tag: file, more: 1 } }\n'
const GROUP = '- id: g\n  name: group\n  config:\n    - { id: x, name: note }\n'

describe('a row that is created', () => {
  test('stands at the end, in a group, or beside another', async () => {
    const tree = await living(`${A}${B}${GROUP}`)
    expect(await tree.loader.create({ id: 'end', name: 'note' })).toEqual({ ...nothing, added: ['end'] })
    await tree.loader.create({ id: 'in', name: 'note', config: { tag: 1 } }, { into: 'g' })
    await tree.loader.create({ id: 'first', name: 'note' }, { before: 'a' })
    await tree.loader.create({ id: 'second', name: 'note' }, { after: 'first' })
    await tree.loader.create({ id: 'y', name: 'note' }, { before: 'g:x' })
    expect(tree.order()).toEqual(['first', 'second', 'a', 'b', 'g:y', 'g:x', 'g:in', 'end'])
    expect(tree.states().map(line => line.split(' ')[0])).toEqual('first second a b g g:y g:x g:in end'.split(' '))
    expect(tree.heard[0]).toBe('added end')
  })

  test('gets an id after its name when it has none', async () => {
    const tree = await living(A, { '@my/plugins/bash': { apply() {} } })
    await tree.loader.create({ name: '@my/plugins/bash' })
    await tree.loader.create({ name: '@my/plugins/bash' })
    expect(tree.states()).toEqual(['a active', 'bash active', 'bash-2 active'])
  })

  test('may be a group with rows, and its names are relative to the file that it lies in', async () => {
    const tree = await living({
      'cordis.yml': `- { id: in, name: include, config: { path: ./sub/rows.yml } }\n`,
      'sub/rows.yml': A,
      'sub/own.mjs': `export const apply = ctx => void ctx.effect(() => () => {})`,
    })
    await tree.loader.create({ id: 'g', name: 'group', config: [{ id: 'x', name: './own.mjs' }] }, { into: 'in' })
    expect(tree.states()).toEqual(['in active', 'in:a active', 'in:g active', 'in:g:x active'])
  })

  test.each([
    [
      'an id that is taken',
      { id: 'A', name: 'note' },
      {},
      /^TREE_ID_DUPLICATE: the id "a" is taken\n {2}where: cordis.yml:1:3/,
    ],
    [
      'no such neighbour',
      { id: 'x', name: 'note' },
      { after: 'aa' },
      /^TREE_TARGET_UNKNOWN: no row has the id "aa"\n {2}where: ctx.loader.create\(\)\n {2}fix: {3}did you mean "a"/,
    ],
    ['a neighbour and a group', { id: 'x', name: 'note' }, { after: 'a', into: 'g' }, /^LOADER_CHANGE/],
    ['a plugin as its group', { id: 'x', name: 'note' }, { into: 'a' }, /^LOADER_CHANGE: a is no group/],
    [
      'an unknown key',
      { id: 'x', name: 'note', conf: {} },
      {},
      /^TREE_KEY_UNKNOWN.*\n {2}where: ctx.loader.create\(\) \(row x\)/,
    ],
    [
      'a module that is not there',
      { id: 'x', name: './no.mjs' },
      {},
      /^TREE_MODULE_NOT_FOUND.*\n {2}where: ctx.loader.create\(\) \(row x\)/,
    ],
    [
      'a plugin that fails',
      { id: 'x', name: 'broken' },
      {},
      /^TREE_APPLY_FAILED.*boom\n {2}where: ctx.loader.create\(\) \(row x\)/,
    ],
  ])('with %s is refused', async (_what, row, options, message) => {
    const tree = await living(`${A}${GROUP}`)
    tree.log.length = 0
    expect(await tree.refusal(tree.loader.create(row as never, options))).toMatch(message)
    expect(tree.log.filter(line => line !== '-half')).toEqual([])
    expect(tree.heard[0]).toMatch(/^create refused: /)
    expect(await tree.reload()).toEqual(nothing)
    expect(tree.read()).toBe(`${A}${GROUP}`)
  })
})

describe('a row that is updated', () => {
  test('has its config merged, and every other key replaced', async () => {
    const seen: unknown[] = []
    const probe = { apply: (_ctx: Context, config: unknown) => void seen.push(config) }
    const env = { KEY: 'secret', PORT: '80' }
    const text = '- id: p\n  name: probe\n  config: { key: !env KEY, deep: { a: 1, b: [1, { port: !env PORT }] } }\n'
    const tree = await living(text, { probe }, { env })
    const update = async (config: unknown) => {
      await tree.loader.update('p', { config })
      return seen.at(-1)
    }
    expect(await update({ deep: { a: 2 } })).toEqual({ key: 'secret', deep: { a: 2, b: [1, { port: 80 }] } })
    expect(await update({ deep: { a: undefined, c: 3 } })).toEqual({
      key: 'secret',
      deep: { c: 3, b: [1, { port: 80 }] },
    })
    expect(await update({ deep: { b: [1, { port: 80 }, 2] } })).toEqual({
      key: 'secret',
      deep: { c: 3, b: [1, { port: 80 }, 2] },
    })
    env.PORT = '81'
    await tree.reload()
    expect(seen.at(-1), 'what was not changed is still an expression').toEqual({
      key: 'secret',
      deep: { c: 3, b: [1, { port: 81 }, 2] },
    })
    expect(await update({ deep: { $replace: { only: 1 } } })).toEqual({ key: 'secret', deep: { only: 1 } })
    expect(await update(undefined)).toEqual({})
    await tree.loader.update('p', { label: 'Probe', required: false })
    expect(tree.loader.rows()[0]!.row).toMatchObject({ label: 'Probe', required: false })
  })

  test('is left alone when it says that already', async () => {
    const tree = await living(`${A}${B}`)
    tree.log.length = 0
    expect(await tree.loader.update('b', { config: { tag: 'file' }, name: 'note' })).toEqual(nothing)
    expect(tree.log).toEqual([])
  })

  test('can be disabled, enabled, and given another plugin', async () => {
    const tree = await living('- { id: p, name: red }\n- { id: c, name: reader }\n')
    tree.log.length = 0
    expect(await tree.loader.update('p', { disabled: true })).toEqual({ ...nothing, removed: ['p'] })
    expect(tree.states()).toEqual(['p disabled', 'c waiting'])
    await tree.loader.update('p', { disabled: false, name: 'blue' })
    expect(tree.log).toEqual(['-p red', '-c', '+p blue', '+c reads blue'])
  })

  test('that fails so is as before', async () => {
    const tree = await living(`${A}${B}`)
    tree.log.length = 0
    expect(await tree.refusal(tree.loader.update('b', { name: 'broken' }))).toMatch(
      /^TREE_APPLY_FAILED: broken failed to start: boom\n {2}where: cordis.yml:2:3 \(row b\)/,
    )
    expect(tree.log).toEqual(['-b=file', '-half', '+b=file'])
    expect(await tree.refusal(tree.loader.update('bb', {}))).toMatch(/^TREE_TARGET_UNKNOWN.*\n.*\n.*did you mean "b"/)
    expect(await tree.refusal(tree.loader.update('b', { id: 'c' }))).toMatch(
      /^LOADER_CHANGE: the id of a row cannot be changed/,
    )
    expect(await tree.refusal(tree.loader.update('b', { conf: 1 } as never))).toMatch(/^TREE_KEY_UNKNOWN/)
    expect(await tree.reload()).toEqual(nothing)
  })

  test('cannot be a group whose rows are overwritten', async () => {
    const tree = await living(GROUP)
    expect(await tree.refusal(tree.loader.update('g', { config: [] }))).toMatch(
      /^LOADER_CHANGE: the config of the group g/,
    )
    expect(await tree.loader.update('g', { isolate: { ink: true } })).toEqual({ ...nothing, remounted: ['g', 'g:x'] })
  })
})

describe('a row that is removed', () => {
  test('goes, a group with all that is in it', async () => {
    const tree = await living(`${A}${GROUP}${B}`)
    tree.log.length = 0
    expect(await tree.loader.remove('g')).toEqual({ ...nothing, removed: ['g', 'g:x'] })
    expect(tree.log).toEqual(['-g:x'])
    expect(tree.states()).toEqual(['a active', 'b active'])
    expect(await tree.refusal(tree.loader.remove('g'))).toMatch(/^TREE_TARGET_UNKNOWN/)
  })

  test('goes with what a patch lays over it, or over rows in it', async () => {
    const patches = [
      {
        data: [
          { id: 'g', label: 'G' },
          { id: 'g:x', config: { tag: 1 } },
          { insert: [{ id: 'y', name: 'note' }], into: 'g' },
        ],
      },
    ]
    const tree = await living(`${A}${GROUP}`, {}, { patches })
    expect(await tree.loader.remove('g')).toEqual({ ...nothing, removed: ['g', 'g:x', 'g:y'] })
    expect(await tree.reload()).toEqual(nothing)
  })

  test('leaves rows without id theirs', async () => {
    const tree = await living('- { name: note }\n- { name: note, config: { tag: 2 } }\n')
    tree.log.length = 0
    await tree.loader.remove('note#1')
    expect(tree.log).toEqual(['-note#1'])
    expect(tree.states()).toEqual(['note#2 active'])
  })
})

describe('what was changed while the tree runs', () => {
  test('lasts when the files are read again, and is laid over what they say then', async () => {
    const tree = await living(`${A}${B}${GROUP}`)
    await tree.loader.update('b', { config: { tag: 'mine' } })
    await tree.loader.create({ id: 'new', name: 'note' }, { after: 'a' })
    await tree.loader.remove('g:x')
    tree.log.length = 0
    expect(await tree.reload()).toEqual(nothing)
    tree.write(`${A}- { id: z, name: note }\n- { id: b, name: note, config: { tag: later, more: 2 } }\n${GROUP}`)
    expect(await tree.reload()).toEqual({ ...nothing, added: ['z'], remounted: ['b'] })
    expect(tree.log).toEqual(['-b=mine', '+z', '+b=mine'])
    expect(tree.loader.rows().find(({ row }) => row.id === 'b')!.row.config).toEqual({ tag: 'mine', more: 2 })
    expect(tree.order()).toEqual(['a', 'new', 'z', 'b'])
  })

  test('does not keep the files from being what they like', async () => {
    const tree = await living(`${A}${B}${GROUP}`)
    await tree.loader.update('b', { config: { tag: 'mine' } })
    await tree.loader.create({ id: 'beside', name: 'note' }, { before: 'a' })
    await tree.loader.create({ id: 'in', name: 'note' }, { into: 'g' })
    await tree.loader.create({ id: 'twice', name: 'note', config: { tag: 'memory' } })
    tree.write('- { id: c, name: note }\n- { id: twice, name: note, config: { tag: file } }\n')
    await tree.reload()
    expect(tree.order(), 'its neighbour is gone, so it stands at the end').toEqual(['c', 'twice', 'beside'])
    expect(tree.log.at(-1)).not.toBe('+twice=memory')
    tree.write(`${A}${B}`)
    await tree.reload()
    expect(tree.log).toContain('+b=file')
    expect(tree.order(), 'what found nothing any more is over').toEqual(['beside', 'a', 'b'])
  })

  test('is made on what the tree runs from, also while its files are broken', async () => {
    const tree = await living(`${A}${B}`)
    tree.write('- { id: a, name: [')
    await tree.refusal(tree.reload())
    expect(await tree.loader.update('b', { config: { tag: 'mine' } })).toEqual({ ...nothing, remounted: ['b'] })
    await tree.loader.remove('a')
    expect(tree.states()).toEqual(['b active'])
    tree.write(`${A}${B}`)
    expect(await tree.reload()).toEqual(nothing)
  })

  test('is gone when the row is taken out again', async () => {
    const tree = await living(A)
    await tree.loader.create({ id: 'new', name: 'note' })
    await tree.loader.update('new', { config: { tag: 1 } })
    await tree.loader.remove('new')
    expect(await tree.reload()).toEqual(nothing)
    await tree.loader.create({ id: 'new', name: 'note' })
    expect(tree.log).toEqual(['+a', '+new', '-new', '+new=1', '-new=1', '+new'])
  })

  test('evaluates no expression of other rows anew', async () => {
    const tree = await living(`${A}- { id: t, name: note, config: { tag: !js 'Math.random()' } }\n`)
    tree.log.length = 0
    await tree.loader.update('a', { config: { tag: 1 } })
    expect(tree.log).toEqual(['-a', '+a=1'])
  })

  test('waits for its turn, and each change is made', async () => {
    const tree = await living(`${A}${B}`)
    const changes = await Promise.all([
      tree.loader.update('a', { config: { tag: 1 } }),
      tree.loader.create({ id: 'n', name: 'note' }),
      tree.reload(),
      tree.loader.update('n', { config: { tag: 2 } }),
      tree.loader.remove('b'),
    ])
    expect(changes.map(change => Object.values(change).flat().join())).toEqual(['a', 'n', '', 'n', 'b'])
    expect(tree.states()).toEqual(['a active', 'n active'])
  })
})

test('a plugin changes rows through ctx.loader, and is named where its rows are wrong', async () => {
  let add = (_name: string): Promise<unknown> => Promise.resolve()
  const manager = {
    apply(ctx: Context) {
      add = name => ctx.loader.create({ id: 'made', name })
    },
  }
  const tree = await living('- { id: ui, name: manager }\n', { manager })
  expect(await tree.refusal(add('./no.mjs'))).toMatch(/where: ctx.loader.create\(\) of ui \(row made\)/)
  await add('note')
  expect(tree.states()).toEqual(['ui active', 'made active'])
  expect(tree.loader.files).toEqual([join(tree.folder, 'cordis.yml')])
})

test('a plugin may add rows while it starts, if it does not wait for them', async () => {
  const generator = {
    apply(ctx: Context) {
      for (const id of ['x', 'y']) void ctx.loader.create({ id, name: 'note' }, { after: 'gen' })
    },
  }
  const tree = await living('- { id: gen, name: generator }\n- { id: a, name: note }\n', { generator })
  await tree.reload()
  expect(tree.order()).toEqual(['y', 'x', 'a'])
})

test('a start that fails is not begun again by what its plugins asked for', async () => {
  const log: string[] = []
  const asked: Promise<unknown>[] = []
  const generator = {
    apply(ctx: Context) {
      log.push('start')
      asked.push(ctx.loader.create({ id: 'x', name: 'generator' }).catch((error: Error) => error.message))
    },
  }
  const fails = {
    apply() {
      throw new Error('boom')
    },
  }
  const source = {
    data: [
      { id: 'gen', name: 'generator' },
      { id: 'f', name: 'fails' },
    ],
  }
  const tree = loadTree(source, { modules: { generator, fails }, write: () => {} })
  await expect(tree.ctx.loader.reload()).rejects.toThrow(/^TREE_NOT_STARTED/)
  await expect(tree.mount()).rejects.toThrow('boom')
  expect(await Promise.all(asked)).toEqual([expect.stringMatching(/^TREE_NOT_STARTED/)])
  expect(log).toEqual(['start'])
})

test('rows that were not read from anywhere cannot be changed so', async () => {
  const ctx = createRoot({ write: () => {} })
  await createTree(ctx).apply([])
  await expect(ctx.loader.create({ name: 'x' })).rejects.toThrow(/^LOADER_CHANGE: the rows of this tree were not read/)
  await ctx.fiber.dispose()
})
