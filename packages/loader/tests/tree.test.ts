import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Context, createRoot, type Plugin, rowOf, Service } from '@cambium/core'
import { type BootedTree, bootTree, createTree, loadTree, readTree } from '@cambium/loader'
import Schema from 'schemastery'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'

declare module 'cordis' {
  interface Context {
    ink: { colour: string }
    paper: unknown
  }
  interface Events {
    'loader-test/ping'(heard: string[]): void
  }
}

let log: string[] = []
let records: string[] = []
let booted: BootedTree[] = []

beforeEach(() => {
  log = []
  records = []
  booted = []
})
afterEach(async () => {
  for (const tree of booted) await tree.dispose()
})

const note =
  (name: string): Plugin.Function =>
  (ctx: Context, config: { tag?: string }) => {
    const tag = config.tag ?? rowOf(ctx)?.id ?? name
    log.push(`+${tag}`)
    ctx.on('loader-test/ping', heard => void heard.push(tag))
    ctx.effect(() => () => void log.push(`-${tag}`))
  }

const ink = (colour: string) => ({
  name: 'ink',
  provide: ['ink'],
  apply(ctx: Context) {
    ctx.provide('ink', { colour })
  },
})

const modules: Record<string, unknown> = {
  note: { name: 'note', apply: note('note') },
  red: ink('red'),
  blue: ink('blue'),
  reader: {
    name: 'reader',
    inject: ['ink'],
    apply(ctx: Context) {
      const { colour } = ctx.ink
      log.push(`${rowOf(ctx)!.id} reads ${colour}`)
      ctx.effect(() => () => void log.push(`${rowOf(ctx)!.id} stops`))
    },
  },
  broken: {
    name: 'broken',
    apply(ctx: Context) {
      ctx.effect(() => () => void log.push('-half'))
      throw new Error('boom')
    },
  },
}

async function boot(text: string, more: Record<string, unknown> = {}) {
  const tree = await bootTree(
    { text, file: 'cordis.yml' },
    { modules: { ...modules, ...more }, write: record => records.push(`${record.level} ${record.text}`) },
  )
  booted.push(tree)
  return tree
}

const rowsOf = (text: string) => readTree({ text, file: 'cordis.yml' }).rows
const states = ({ tree }: BootedTree) => tree.rows().map(({ row, state }) => `${row.id} ${state}`)
const ping = ({ ctx }: BootedTree) => {
  const heard: string[] = []
  ctx.emit('loader-test/ping', heard)
  return heard
}

describe('a tree', () => {
  test('mounts its rows in the order of the file and drops them in reverse', async () => {
    const tree = await boot(
      '- { id: a, name: note }\n- { id: g, name: group, config: [{ id: b, name: note }] }\n- { id: c, name: note }',
    )
    expect(log).toEqual(['+a', '+g:b', '+c'])
    expect(states(tree)).toEqual(['a active', 'g active', 'g:b active', 'c active'])
    await tree.dispose()
    expect(log.slice(3)).toEqual(['-c', '-g:b', '-a'])
  })

  test('leaves nothing behind when it is disposed', async () => {
    const bare = createRoot({ write: () => {} })
    const shape = (ctx: Context) => ({
      plugins: ctx.registry.size,
      services: Reflect.ownKeys(ctx.reflect.store).length,
      listeners: Object.entries(ctx.events._hooks)
        .map(([name, hooks]) => [name, hooks.length])
        .filter(([, n]) => n),
      props: Object.keys(ctx.reflect.props).sort(),
    })
    const before = shape(bare)
    const tree = createTree(bare, { modules })
    await tree.apply(
      rowsOf('- { id: a, name: note }\n- { id: r, name: red }\n- { id: g, name: group, config: [{ name: reader }] }'),
    )
    expect(shape(bare)).not.toEqual(before)
    await tree.dispose()
    await bare.fiber.dispose()
    expect({ ...shape(bare), props: before.props }).toEqual(before)
    expect(tree.rows()).toEqual([])
  })

  test('hands a row its config, or an empty one', async () => {
    const seen: unknown[] = []
    const take = { apply: (_ctx: Context, config: unknown) => void seen.push(config) }
    const Config = Schema.object({ n: Schema.number().default(3) })
    await boot('- name: take\n- { name: take, config: { a: 1 } }\n- name: typed\n- { name: typed, config: { n: 4 } }', {
      take,
      typed: { ...take, Config },
    })
    expect(seen).toEqual([{}, { a: 1 }, { n: 3 }, { n: 4 }])
  })

  test('gives a plugin a copy of its config, which it may change', async () => {
    const seen: unknown[] = []
    const greedy = {
      apply(_ctx: Context, config: { list: number[] }) {
        seen.push([...config.list])
        config.list.push(9)
      },
    }
    const tree = await boot('- { id: a, name: greedy, config: { list: [1] } }', { greedy })
    await tree.tree.apply(tree.source.rows, { remount: new Set(['a']) })
    expect(seen).toEqual([[1], [1]])
  })

  test('does not mount what is disabled', async () => {
    const tree = await boot(
      '- { id: a, name: nowhere, disabled: true }\n- { id: g, name: group, disabled: true, config: [{ id: b, name: note }] }',
    )
    expect(log).toEqual([])
    expect(states(tree)).toEqual(['a disabled', 'g disabled', 'g:b disabled'])
  })

  test('waits for plugins that start asynchronously', async () => {
    const slow = {
      async apply() {
        await new Promise(resolve => setImmediate(resolve))
        log.push('slow is up')
      },
    }
    const tree = await boot('- { id: s, name: slow }', { slow })
    expect(log).toEqual(['slow is up'])
    expect(states(tree)).toEqual(['s active'])
  })

  test('gives up on a plugin that never starts', async () => {
    const stuck = {
      apply(ctx: Context) {
        ctx.effect(() => () => void log.push('-stuck'))
        return new Promise(() => {})
      },
    }
    const failure = bootTree({ text: '- { id: s, name: stuck }' }, { modules: { stuck }, settleMs: 20 })
    await expect(failure).rejects.toThrow(/^TREE_SETTLE_TIMEOUT: s did not finish loading within 20 ms/)
    expect(log).toEqual(['-stuck'])
  })

  test('gives up on a module that never loads, and does not wait for it in order to end', async () => {
    const text = '- { id: s, name: ./stuck.mjs }'
    const folder = mkdtempSync(join(tmpdir(), 'loader-tree-'))
    const file = join(folder, 'cordis.yml')
    writeFileSync(join(folder, 'stuck.mjs'), 'export const apply = () => {}')
    const options = { import: () => new Promise<never>(() => {}), write: () => {} }
    await expect(bootTree({ text, file }, { ...options, settleMs: 20 })).rejects.toThrow(
      /^TREE_MODULE_FAILED: \.\/stuck\.mjs cannot be imported: it did not finish loading within 20 ms/,
    )
    const tree = loadTree({ text, file }, options)
    const mounted = tree.mount()
    await tree.dispose()
    await expect(mounted).rejects.toThrow('it was still loading when the tree ended')
    rmSync(folder, { recursive: true })
  })

  test('names the row whose schema itself fails', async () => {
    const validate = () => {
      throw new Error('no such thing')
    }
    const bad = { Config: { '~standard': { version: 1, vendor: 'test', validate } }, apply() {} }
    await expect(boot('- { id: s, name: bad }', { bad: bad as never })).rejects.toThrow(
      /^TREE_CONFIG_INVALID: the config of bad is wrong: its schema failed: no such thing\n {2}where: .*\(row s\)/,
    )
  })

  test('disposes at once what a start brings after it was given up', async () => {
    let finish = (_disposer: () => void) => {}
    const stuck = {
      apply: () =>
        new Promise<() => void>(resolve => {
          finish = resolve
        }),
    }
    const failure = bootTree(
      { text: '- { id: s, name: stuck }' },
      { modules: { stuck }, settleMs: 20, write: () => {} },
    )
    await expect(failure).rejects.toThrow('TREE_SETTLE_TIMEOUT')
    await new Promise<void>(resolve => {
      finish(() => {
        log.push('late')
        resolve()
      })
    })
    expect(log).toEqual(['late'])
  })

  test('starts a consumer once its provider is there, wherever that row stands', async () => {
    await boot('- { id: c, name: reader }\n- { id: p, name: red }')
    expect(log).toEqual(['c reads red'])
  })

  test('tells which services each row says it provides, and which it does', async () => {
    const two = {
      provide: ['paper', 'never'],
      apply(ctx: Context) {
        ctx.plugin({ name: 'inner', apply: (inner: Context) => void inner.provide('paper', {}) })
      },
    }
    const tree = await boot('- { id: p, name: red }\n- { id: q, name: two }', { two })
    const services = tree.tree.rows().map(({ declares, provides }) => ({ declares, provides }))
    expect(services).toEqual([
      { declares: ['ink'], provides: ['ink'] },
      { declares: ['paper', 'never'], provides: ['paper'] },
    ])
  })

  test('keeps the order of listeners for rows that had to wait', async () => {
    const late = { inject: ['ink'], apply: note('late') }
    const tree = await boot('- { id: a, name: note }\n- { id: b, name: late }\n- { id: c, name: note }\n- name: red', {
      late,
    })
    expect(log).toEqual(['+a', '+c', '+b'])
    expect(ping(tree)).toEqual(['a', 'b', 'c'])
  })

  test('stops a consumer when its provider goes, which then waits', async () => {
    const tree = await boot('- { id: p, name: red }\n- { id: c, name: reader }')
    await tree.tree.apply(rowsOf('- { id: c, name: reader }'))
    expect(states(tree)).toEqual(['c waiting'])
    expect(tree.tree.rows()[0]!.waits).toEqual(['ink'])
    await tree.tree.apply(rowsOf('- { id: q, name: blue }\n- { id: c, name: reader }'))
    expect(log).toEqual(['c reads red', 'c stops', 'c reads blue'])
  })
})

describe('a start', () => {
  const refused = async (text: string, more: Record<string, unknown> = {}) => {
    const failure = await boot(text, more).catch((error: Error) => error)
    return (failure as Error).message
  }

  test('that fails leaves nothing mounted', async () => {
    expect(await refused('- { id: a, name: note }\n- { id: b, name: broken }')).toContain(
      'TREE_APPLY_FAILED: broken failed to start: boom',
    )
    expect(log).toEqual(['+a', '-half', '-a'])
    expect(records).toEqual([])
  })

  test('fails when a required row still waits', async () => {
    expect(await refused('- { id: hooks, name: reader }')).toContain(
      'pending: hooks waits for ctx.ink; no enabled row provides it',
    )
  })

  test('goes on without optional rows that fail, cannot be loaded, are misconfigured or wait, and says so once', async () => {
    const strict = { Config: Schema.object({ n: Schema.number() }), apply() {} }
    const tree = await boot(
      `
- { id: good, name: note }
- { id: bad, name: broken, required: false }
- { id: gone, name: ./nowhere.js, required: false }
- { id: wrong, name: strict, required: false, config: { n: x } }
- { id: g, name: group, required: false, config: [{ id: waits, name: reader }] }`,
      { strict },
    )
    expect(states(tree)).toEqual([
      'good active',
      'bad failed',
      'gone failed',
      'wrong failed',
      'g active',
      'g:waits waiting',
    ])
    expect(log).toEqual(['+good', '-half'])
    expect(records.map(record => record.split('\n')[0])).toEqual([
      'warn TREE_APPLY_FAILED: broken failed to start: boom',
      'warn TREE_MODULE_NOT_FOUND: there is no file nowhere.js',
      'warn TREE_CONFIG_INVALID: the config of strict is wrong at n: expected number but got x',
      'warn TREE_PENDING: pending: g:waits waits for ctx.ink; no enabled row provides it',
    ])
    expect(tree.tree.rows().find(({ row }) => row.id === 'bad')!.error?.code).toBe('TREE_APPLY_FAILED')
  })

  test('lives with plugins that fail in every way, and disposes all that run', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'loader-tree-'))
    writeFileSync(join(folder, 'syntax.mjs'), 'export function apply( {')
    const rejects = {
      async apply() {
        await new Promise(resolve => setImmediate(resolve))
        throw new Error('late boom')
      },
    }
    const sour = {
      apply(ctx: Context) {
        ctx.effect(() => () => void log.push('-first'))
        ctx.effect(() => () => {
          throw new Error('sour')
        })
      },
    }
    const tree = await boot(
      `
- { id: healthy, name: note }
- { id: throws, name: broken, required: false }
- { id: rejects, name: rejects, required: false }
- { id: syntax, name: ${join(folder, 'syntax.mjs')}, required: false }
- { id: gone, name: ./gone.mjs, required: false }
- { id: sour, name: sour }`,
      { rejects, sour },
    )
    expect(ping(tree)).toEqual(['healthy'])
    for (const id of ['throws', 'rejects', 'syntax', 'gone']) {
      expect(
        records.filter(record => record.includes(`(row ${id})`) && record.includes('cordis.yml:')),
        id,
      ).toHaveLength(1)
    }
    expect(records).toHaveLength(4)
    await tree.dispose()
    expect(log).toEqual(['+healthy', '-half', '-first', '-healthy'])
    rmSync(folder, { recursive: true })
  })

  test('a row that fails later, when its service comes, is reported once with its place', async () => {
    const late = {
      name: 'late',
      inject: ['ink'],
      apply() {
        throw new Error('bad ink')
      },
    }
    const tree = await boot('- { id: l, name: late, required: false }', { late })
    records = []
    await tree.tree.apply(rowsOf('- { id: l, name: late, required: false }\n- name: red'))
    expect(states(tree)).toEqual(['l failed', 'red#1 active'])
    expect(records).toHaveLength(1)
    expect(records[0]).toContain(
      'error TREE_APPLY_FAILED: late failed to start: bad ink\n  where: cordis.yml:1:3 (row l)',
    )
  })

  test('keeps the code and words of a failure that explains itself, and adds the row', async () => {
    const twice = {
      name: 'twice',
      apply(ctx: Context) {
        ctx.app.claim('loader-test')
      },
    }
    const message = await refused('- { id: one, name: twice }\n- { id: two, name: twice }', { twice })
    expect(message).toContain('TREE_CLAIM_TAKEN: loader-test is already taken by one (cordis.yml:1:3)')
    expect(message).toContain('where: two (cordis.yml:2:3)')
  })
})

describe('a change', () => {
  test('touches only the rows that changed', async () => {
    const tree = await boot(
      '- { id: a, name: note }\n- { id: b, name: note, config: { tag: old } }\n- { id: c, name: note }',
    )
    log = []
    await tree.tree.apply(
      rowsOf(
        '# moved down\n- { id: a, name: note }\n- { id: b, name: note, config: { tag: new } }\n- { id: c, name: note }\n- { id: d, name: note }',
      ),
    )
    expect(log).toEqual(['-old', '+new', '+d'])
    expect(ping(tree)).toEqual(['a', 'new', 'c', 'd'])
    expect(tree.tree.rows()[0]!.row.at).toBe('cordis.yml:2:3')
    expect(rowOf(tree.tree.rows()[0]!.fiber!.ctx)).toMatchObject({ at: 'cordis.yml:2:3', path: [0] })
  })

  test('gives a row whose name changed the other plugin', async () => {
    const tree = await boot('- { id: p, name: red }\n- { id: c, name: reader }')
    await tree.tree.apply(rowsOf('- { id: p, name: blue }\n- { id: c, name: reader }'))
    expect(log).toEqual(['c reads red', 'c stops', 'c reads blue'])
  })

  test('reloads a group together when what it isolates changes', async () => {
    const tree = await boot('- { id: g, name: group, config: [{ id: a, name: note }, { id: b, name: note }] }')
    log = []
    await tree.tree.apply(
      rowsOf(
        '- { id: g, name: group, isolate: { ink: true }, config: [{ id: a, name: note }, { id: b, name: note }] }',
      ),
    )
    expect(log).toEqual(['-g:b', '-g:a', '+g:a', '+g:b'])
  })

  test('keeps the order of rows that change places', async () => {
    const tree = await boot('- { id: a, name: note }\n- { id: b, name: note }\n- { id: c, name: note }')
    await tree.tree.apply(rowsOf('- { id: c, name: note }\n- { id: a, name: note }\n- { id: b, name: note }'))
    expect(ping(tree)).toEqual(['c', 'a', 'b'])
    await tree.dispose()
    expect(log.slice(-3)).toEqual(['-b', '-a', '-c'])
  })

  test('that cannot be prepared touches nothing', async () => {
    const tree = await boot('- { id: a, name: note }\n- { id: b, name: note }')
    log = []
    const change = tree.tree.apply(rowsOf('- { id: b, name: ./nowhere.js, required: false }'))
    await expect(change).rejects.toThrow('TREE_MODULE_NOT_FOUND')
    expect(log).toEqual([])
    expect(states(tree)).toEqual(['a active', 'b active'])
  })

  test('whose plugin throws puts back what ran before', async () => {
    const tree = await boot(
      '- { id: a, name: note }\n- { id: b, name: note, config: { tag: old } }\n- { id: c, name: note }',
    )
    log = []
    const change = tree.tree.apply(
      rowsOf('- { id: b, name: broken, required: false }\n- { id: d, name: note }\n- { id: c, name: note }'),
    )
    await expect(change).rejects.toThrow('broken failed to start: boom')
    expect(log).toEqual(['-old', '-a', '+d', '-half', '-d', '+a', '+old'])
    expect(states(tree)).toEqual(['a active', 'b active', 'c active'])
    expect(ping(tree)).toEqual(['a', 'old', 'c'])
    log = []
    await tree.dispose()
    expect(log).toEqual(['-c', '-old', '-a'])
  })

  test('waits for the one before', async () => {
    const tree = await boot('- { id: a, name: note }')
    log = []
    const first = tree.tree.apply(rowsOf('- { id: a, name: note, config: { tag: one } }'))
    const second = tree.tree.apply(rowsOf('- { id: a, name: note, config: { tag: two } }'))
    await Promise.all([first, second])
    expect(log).toEqual(['-a', '+one', '-one', '+two'])
  })

  test('mounts a row anew that did not change, when asked to', async () => {
    const tree = await boot('- { id: a, name: note }\n- { id: b, name: note }')
    log = []
    await tree.tree.apply(tree.source.rows, { remount: new Set(['a']) })
    expect(log).toEqual(['-a', '+a'])
    expect(ping(tree)).toEqual(['a', 'b'])
  })

  test('after the end is refused', async () => {
    const tree = await boot('[]')
    await tree.dispose()
    await expect(tree.tree.apply([])).rejects.toThrow('TREE_DISPOSED')
  })

  test('tries a row again that failed, once its file is corrected', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'loader-tree-'))
    writeFileSync(join(folder, 'late.mjs'), 'export function apply( {')
    const text = '- { id: a, name: ./late.mjs, required: false }'
    const source = { text, file: join(folder, 'cordis.yml') }
    const tree = await bootTree(source, { write: record => records.push(record.text) })
    booted.push(tree)
    expect(states(tree)).toEqual(['a failed'])
    expect(records).toHaveLength(1)
    writeFileSync(join(folder, 'late.mjs'), 'export function apply() {}')
    await tree.tree.apply(readTree(source).rows)
    expect(states(tree)).toEqual(['a active'])
    rmSync(folder, { recursive: true })
  })
})

describe('isolate, intercept and inject', () => {
  test('a group keeps a service to itself', async () => {
    await boot(`
- { id: p, name: red }
- id: g
  name: group
  isolate: { ink: true }
  config:
    - { id: p, name: blue }
    - { id: c, name: reader }
- { id: c, name: reader }`)
    expect(log.sort()).toEqual(['c reads red', 'g:c reads blue'])
  })

  test('rows with one label share a realm, also across groups', async () => {
    await boot(`
- { id: p, name: red, isolate: { ink: lab } }
- { id: g, name: group, isolate: { ink: lab }, config: [{ id: c, name: reader }] }
- { id: d, name: reader, isolate: { ink: other }, required: false }`)
    expect(log).toEqual(['g:c reads red'])
  })

  test('intercept reaches the services that a row uses', async () => {
    class Pen extends Service<{ width: number }> {
      constructor(ctx: Context) {
        super(ctx, 'pen')
      }
      width() {
        return this[Service.resolveConfig]().width
      }
    }
    const writer = {
      inject: ['pen'],
      apply: (ctx: Context) => void log.push(`width ${(ctx.get('pen') as Pen).width()}`),
    }
    await boot(
      `
- name: pen
- { name: writer, intercept: { pen: { width: 3 } } }
- { name: writer, inject: { pen: { width: 4 } } }
- { name: group, intercept: { pen: { width: 5 } }, config: [{ name: writer }] }`,
      { pen: { default: Pen }, writer },
    )
    expect(log).toEqual(['width 3', 'width 4', 'width 5'])
  })

  test('inject on a row or a group makes it wait, beyond what the plugin asks for', async () => {
    const tree = await boot(`
- { id: a, name: note, inject: [ink], required: false }
- { id: g, name: group, inject: [ink], required: false, config: [{ id: b, name: note }] }`)
    expect(states(tree)).toEqual(['a waiting', 'g active', 'g:b waiting'])
    await tree.tree.apply([...tree.source.rows, ...rowsOf('- name: red')])
    expect(log).toEqual(['+a', '+g:b'])
  })
})

describe('a plugin', () => {
  const disposer = (tag: string) => () => void log.push(`-${tag}`)
  const shapes: Record<string, unknown> = {
    'a namespace with apply, though it has a default too': {
      apply: () => disposer('ns'),
      default: () => disposer('default'),
    },
    'a default function': { default: () => disposer('ns') },
    'a default arrow in CommonJS dress': { default: { __esModule: true, default: () => disposer('ns') } },
    'a default object': { default: { apply: () => disposer('ns') } },
    'a plain function whose disposer cordis would drop': {
      apply: function apply() {
        return disposer('ns')
      },
    },
    'an async function': { apply: async () => disposer('ns') },
    'a generator': {
      *apply() {
        yield disposer('ns')
      },
    },
    'an async generator': {
      async *apply() {
        yield disposer('ns')
      },
    },
    'a class with an init method': {
      default: class {
        [Service.init]() {
          return disposer('ns')
        }
      },
    },
  }
  test('may be a default export with what it needs and provides beside it', async () => {
    const speaker = {
      default: (ctx: Context) => ctx.provide('speech', ctx.get('voice')),
      inject: ['voice'],
      provide: ['speech'],
    }
    const voice = { apply: (ctx: Context) => void ctx.provide('voice', 'loud') }
    const tree = await boot('[{ name: speaker }, { name: voice }]', { speaker, voice })
    expect(tree.ctx.get('speech')).toBe('loud')
    expect(tree.tree.rows()[0]?.declares).toEqual(['speech'])
    await tree.dispose()
  })

  test.each(Object.keys(shapes))('may be %s', async shape => {
    const tree = await boot('- name: it', { it: shapes[shape] })
    expect(states(tree)).toEqual(['it#1 active'])
    await tree.dispose()
    expect(log).toEqual(['-ns'])
  })

  test.each([
    [
      'throws',
      () => () => {
        throw new Error('boom')
      },
    ],
    [
      'rejects',
      () => async () => {
        throw new Error('boom')
      },
    ],
    [
      'throws in a generator',
      () =>
        function* () {
          yield disposer('first')
          throw new Error('boom')
        },
    ],
    [
      'throws in an async generator',
      () =>
        async function* () {
          yield disposer('first')
          throw new Error('boom')
        },
    ],
    [
      'throws in its constructor',
      () =>
        class {
          constructor() {
            throw new Error('boom')
          }
        },
    ],
    [
      'throws in its init method',
      () =>
        class {
          [Service.init]() {
            throw new Error('boom')
          }
        },
    ],
  ])('that %s fails the start, once', async (_how, make) => {
    await expect(boot('- name: it', { it: { default: make() } })).rejects.toThrow(
      /^TREE_APPLY_FAILED: .* boom\n {2}where: cordis.yml:1:3/,
    )
    expect(records).toEqual([])
  })

  test('learns its row from fiber.entry and ctx.loader, as with the public loader', async () => {
    const seen: unknown[] = []
    const curious = {
      inject: ['loader'],
      apply(ctx: Context) {
        seen.push(
          ctx.fiber.entry?.id,
          ctx.loader.locate(),
          [...ctx.loader.entries()].map(entry => entry.id),
        )
        seen.push(ctx.fiber.entry?.options, ctx.baseUrl?.endsWith('/cordis.yml'))
        ctx.plugin({ name: 'inner', apply: (inner: Context) => void seen.push(inner.loader.locate()) })
      },
    }
    await boot('- { id: g, name: group, config: [{ id: me, name: curious, config: { x: 1 } }] }', { curious })
    expect(seen[0]).toBe('g:me')
    expect(seen[1]).toBe('g:me')
    expect(seen[2]).toEqual(['g', 'g:me'])
    expect(seen[3]).toMatchObject({ id: 'me', name: 'curious', config: { x: 1 }, disabled: false })
    expect(seen[4]).toBe(true)
    expect(seen[5]).toBe('g:me')
  })

  test('that stops its own fiber is not written off: the row is disposed, the rest runs', async () => {
    const quits = { apply: (ctx: Context) => void setImmediate(() => ctx.fiber.dispose()) }
    const tree = await boot('- { id: q, name: quits }\n- { id: a, name: note }', { quits })
    await new Promise(resolve => setImmediate(() => setImmediate(resolve)))
    expect(states(tree)).toEqual(['q disposed', 'a active'])
  })

  test('whose disposer throws or hangs does not keep the others from theirs', async () => {
    const sour = {
      apply(ctx: Context) {
        ctx.effect(() => () => {
          throw new Error('sour')
        })
      },
    }
    const tree = await boot('- { id: a, name: note }\n- { id: s, name: sour }\n- { id: b, name: note }', { sour })
    await tree.dispose()
    expect(log).toEqual(['+a', '+b', '-b', '-a'])
    expect(records.join()).toContain('sour')
  })
})
