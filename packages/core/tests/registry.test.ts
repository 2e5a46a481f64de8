import { createScope, ScopedRegistry, type ScopedRegistryOptions } from '@cambium/core'
import { describe, expect, it } from 'vitest'
import { bench, heads } from './bench.ts'
import { mount, row } from './scenarios.ts'

const registry = (more: Partial<ScopedRegistryOptions<number>> = {}) =>
  new ScopedRegistry<number>({ noun: 'tool', duplicateCode: 'TOOL_DUPLICATE', ...more })

describe('a registry', () => {
  it('offers an entry until its undo is called', () => {
    const { root } = bench()
    const tools = registry()
    const undo = tools.register(root, 'hello', 1)
    expect(tools.get('hello')).toBe(1)
    expect(tools.list()).toEqual([1])
    undo()
    expect(tools.get('hello')).toBeUndefined()
    expect(tools.list()).toEqual([])
    tools.register(root, 'hello', 2)
    undo()
    expect(tools.get('hello')).toBe(2)
  })

  it('offers an entry as long as its plugin lives', async () => {
    const { root } = bench()
    const tools = registry()
    const fiber = await mount(root, 'greeter', ctx => void tools.register(ctx, 'hello', 1))
    expect(tools.owner('hello')).toBe('greeter')
    await fiber.restart()
    expect(tools.get('hello')).toBe(1)
    await fiber.dispose()
    expect(tools.get('hello')).toBeUndefined()
    expect(tools.owner('hello')).toBeUndefined()
  })

  it('refuses a second entry of a name, and says who holds it and what to do', async () => {
    const { root } = bench()
    const tools = registry()
    await mount(row(root, 1), 'greeter', ctx => void tools.register(ctx, 'hello', 1))
    const rival = mount(row(root, 12), 'rival', ctx => void tools.register(ctx, 'hello', 2))
    await expect(rival).rejects.toMatchObject({
      code: 'TOOL_DUPLICATE',
      message: [
        'TOOL_DUPLICATE: tool "hello" is already offered by greeter',
        '  where: rival (cordis.yml:12:3)',
        '  fix:   rename one of the two, or disable greeter (cordis.yml:1:3)',
      ].join('\n'),
    })
    expect(tools.get('hello')).toBe(1)
  })

  it('names plugins alone where no tree mounted them', async () => {
    const { root } = bench()
    const tools = registry()
    await mount(root, 'greeter', ctx => void tools.register(ctx, 'hello', 1))
    await expect(mount(root, 'rival', ctx => void tools.register(ctx, 'hello', 2))).rejects.toMatchObject({
      where: 'rival',
      fix: 'rename one of the two, or disable greeter',
    })
  })

  it('lists in row order, then in order of registration, also after a reload', async () => {
    const { root } = bench()
    const tools = registry()
    await mount(root, 'embedder', ctx => void tools.register(ctx, 'embedded', 9))
    await mount(row(root, 3), 'three', ctx => void tools.register(ctx, 'c', 3))
    const one = await mount(row(root, 1), 'one', ctx => {
      tools.register(ctx, 'b', 1)
      tools.register(ctx, 'a', 2)
    })
    expect([...tools.entries().keys()]).toEqual(['b', 'a', 'c', 'embedded'])
    await one.restart()
    expect(tools.list()).toEqual([1, 2, 3, 9])
  })

  it('hands out copies', () => {
    const { root } = bench()
    const tools = registry()
    tools.register(root, 'a', 1)
    tools.entries().clear()
    tools.list().length = 0
    tools.own().length = 0
    expect([tools.list(), tools.own()]).toEqual([[1], ['a']])
  })

  it('tells of each entry that comes and goes, after the fact', async () => {
    const { root } = bench()
    const seen: unknown[] = []
    const tools: ScopedRegistry<number> = registry({
      changed: (name, scope, entry) => seen.push([name, scope === key, entry, tools.get(name, scope)]),
    })
    const key = {}
    const scope = createScope(root, key)
    tools.register(scope.ctx, 'scoped', 1)
    tools.register(root, 'global', 2)()
    await scope.dispose()
    expect(seen).toEqual([
      ['scoped', true, 1, 1],
      ['global', false, 2, 2],
      ['global', false, 2, undefined],
      ['scoped', true, 1, undefined],
    ])
  })

  it('outlives what fails when it tells of a change', () => {
    const { root, logs } = bench()
    const tools = registry({
      changed: () => {
        throw new Error('boom')
      },
    })
    const undo = tools.register(root, 'a', 1)
    expect(tools.get('a')).toBe(1)
    undo()
    expect(tools.get('a')).toBeUndefined()
    expect(heads(logs)).toEqual(Array(2).fill('error root: what follows a change of tool a failed: Error: boom'))
  })
})

describe('a scope', () => {
  function scoped() {
    const { root } = bench()
    const [parent, child, other] = [{}, {}, {}]
    const tools = registry()
    const ctx = {
      parent: createScope(root, parent).ctx,
      child: createScope(root, child, parent).ctx,
      other: createScope(root, other).ctx,
    }
    return { root, tools, parent, child, other, ctx }
  }

  it('inherits down its chain; the nearest entry of a name shadows the others', () => {
    const { root, tools, parent, child, other, ctx } = scoped()
    tools.register(root, 'a', 1)
    tools.register(root, 'b', 2)
    tools.register(ctx.parent, 'b', 20)
    tools.register(ctx.parent, 'c', 30)
    tools.register(ctx.child, 'c', 300)
    const seen = (scope?: object) => Object.fromEntries(tools.entries(scope))
    expect(seen()).toEqual({ a: 1, b: 2 })
    expect(seen(parent)).toEqual({ a: 1, b: 20, c: 30 })
    expect(seen(child)).toEqual({ a: 1, b: 20, c: 300 })
    expect(seen(other)).toEqual({ a: 1, b: 2 })
    expect([tools.get('c', child), tools.get('c', parent), tools.get('c')]).toEqual([300, 30, undefined])
    expect(tools.own(child)).toEqual(['c'])
    expect(tools.own(other)).toEqual([])
  })

  it('shows what was shadowed again when the shadow goes', () => {
    const { root, tools, child, ctx } = scoped()
    tools.register(root, 'a', 1)
    const undo = tools.register(ctx.child, 'a', 2)
    expect(tools.owner('a', child)).toBe('scope')
    undo()
    expect(tools.get('a', child)).toBe(1)
    expect(tools.owner('a', child)).toBe('root')
  })

  it('refuses a second entry of a name only within itself', () => {
    const { tools, ctx } = scoped()
    tools.register(ctx.parent, 'a', 1)
    tools.register(ctx.child, 'a', 2)
    tools.register(ctx.other, 'a', 3)
    expect(() => tools.register(ctx.child, 'a', 4)).toThrow('tool "a" is already offered by scope')
  })

  it('that is not open sees what is global', () => {
    const { root, tools } = scoped()
    tools.register(root, 'a', 1)
    expect(tools.get('a', {})).toBe(1)
    expect(tools.list({})).toEqual([1])
  })
})
