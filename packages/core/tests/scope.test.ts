import { type Context, createScope, notify, ScopedRegistry, type ScopeHandle, scopeChain, scopeOf } from '@cambium/core'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { bench, turn } from './bench.ts'
import { mount } from './scenarios.ts'

afterEach(() => {
  vi.useRealTimers()
})

/** A household: child and sibling under parent, and a stranger. */
function family() {
  const { root, logs } = bench()
  const [parent, child, sibling, stranger] = [{}, {}, {}, {}]
  const scopes = {
    parent: createScope(root, parent),
    child: createScope(root, child, parent),
    sibling: createScope(root, sibling, parent),
    stranger: createScope(root, stranger),
  }
  return { root, logs, keys: { parent, child, sibling, stranger }, scopes }
}

function ears(root: Context, scopes: Record<string, ScopeHandle>) {
  const heard: string[] = []
  root.on('test/said', () => void heard.push('root'))
  for (const [name, { ctx }] of Object.entries(scopes)) ctx.on('test/said', () => void heard.push(name))
  return heard
}

describe('events', () => {
  it('go up: the scope, its ancestors and untagged listeners hear, no sibling, child or stranger', () => {
    const { root, keys, scopes } = family()
    const heard = ears(root, scopes)
    notify(root, keys.child, 'test/said', 'x')
    expect(heard.splice(0)).toEqual(['root', 'parent', 'child'])
    notify(root, keys.parent, 'test/said', 'x')
    expect(heard).toEqual(['root', 'parent'])
  })

  it('of no scope, and of a key that is not open, are heard by untagged listeners only', async () => {
    const { root, keys, scopes } = family()
    const heard = ears(root, scopes)
    notify(root, undefined, 'test/said', 'x')
    root.emit('test/said', 'x')
    notify(root, {}, 'test/said', 'x')
    expect(heard.splice(0)).toEqual(['root', 'root', 'root'])
    await scopes.child.dispose()
    notify(root, keys.child, 'test/said', 'x')
    expect(heard).toEqual(['root'])
  })

  it('are heard in the nearest scope of a context', () => {
    const { root, keys, scopes } = family()
    const inner = createScope(scopes.parent.ctx, {})
    const heard: string[] = []
    inner.ctx.on('test/said', () => void heard.push('inner'))
    notify(root, keys.parent, 'test/said', 'x')
    expect(heard).toEqual([])
    expect(scopeOf(inner.ctx)).not.toBe(keys.parent)
  })
})

describe('a chain', () => {
  it('lists the nearest first, and is empty for no key or one that is not open', () => {
    const { keys } = family()
    expect(scopeChain(keys.child)).toEqual([keys.child, keys.parent])
    expect(scopeChain(keys.child)[0]).toBe(keys.child)
    expect(scopeChain(undefined)).toEqual([])
    expect(scopeChain({})).toEqual([])
  })

  it('of a parent that is not open is refused, with what to do', () => {
    const { root, keys } = family()
    expect(() => createScope(root, {}, {})).toThrow(
      expect.objectContaining({ code: 'SCOPE_PARENT_UNKNOWN', fix: expect.stringContaining('open the parent') }),
    )
    // The parent counts only for the call that opens.
    expect(() => createScope(root, keys.child, {})).not.toThrow()
  })
})

describe('the end of a scope', () => {
  it('takes its registrations along, and leaves those of others', async () => {
    const { root, keys, scopes } = family()
    const registry = new ScopedRegistry<string>({ noun: 'thing', duplicateCode: 'THING_DUPLICATE' })
    registry.register(scopes.child.ctx, 'a', 'child')
    registry.register(scopes.sibling.ctx, 'a', 'sibling')
    const heard = ears(root, scopes)
    await scopes.child.dispose()
    expect(registry.get('a', keys.child)).toBeUndefined()
    expect(registry.get('a', keys.sibling)).toBe('sibling')
    notify(root, keys.sibling, 'test/said', 'x')
    expect(heard).toEqual(['root', 'parent', 'sibling'])
  })

  it('comes with the plugin that opened it', async () => {
    const { root } = bench()
    const key = {}
    const order: string[] = []
    const fiber = await mount(root, 'owner', ctx => {
      createScope(ctx, key).ctx.effect(() => () => void order.push('gone'))
    })
    expect(scopeChain(key)).toEqual([key])
    await fiber.dispose()
    expect(order).toEqual(['gone'])
    expect(scopeChain(key)).toEqual([])
  })

  it('resolves for every caller when all is gone, also when the plugin above was first', async () => {
    const { root } = bench()
    const gate = { open: () => {} }
    const opened = new Promise<void>(resolve => {
      gate.open = resolve
    })
    const order: string[] = []
    const handles: ScopeHandle[] = []
    const fiber = await mount(root, 'owner', ctx => {
      const scope = createScope(ctx, {})
      handles.push(scope)
      scope.ctx.effect(() => async () => {
        await opened
        order.push('gone')
      })
    })
    const unload = fiber.dispose()
    await turn()
    const first = handles[0]!.dispose().then(() => order.push('first'))
    const second = handles[0]!.dispose().then(() => order.push('second'))
    await turn()
    expect(order).toEqual([])
    gate.open()
    await Promise.all([first, second, unload])
    expect(order[0]).toBe('gone')
  })

  it('frees the key, which may be opened again', async () => {
    const { root, keys, scopes } = family()
    await scopes.stranger.dispose()
    const again = createScope(root, keys.stranger, keys.parent)
    expect(scopeChain(keys.stranger)).toEqual([keys.stranger, keys.parent])
    await again.dispose()
  })

  it('of a context that takes no more leaves no scope open', async () => {
    const { root } = bench()
    const contexts: Context[] = []
    const fiber = await mount(root, 'gone', ctx => void contexts.push(ctx))
    await fiber.dispose()
    const key = {}
    expect(() => createScope(contexts[0]!, key)).toThrow('inactive')
    expect(scopeChain(key)).toEqual([])
  })
})

describe('joining a scope that is open', () => {
  async function joined() {
    const { root, logs } = bench()
    const key = {}
    const order: string[] = []
    const owner = createScope(root, key)
    const registry = new ScopedRegistry<string>({ noun: 'thing', duplicateCode: 'THING_DUPLICATE' })
    const plugin = await mount(root, 'joining', ctx => {
      const part = createScope(ctx, key)
      part.ctx.effect(() => () => void order.push('part gone'))
      registry.register(part.ctx, 'a', 'joined')
    })
    return { root, logs, key, order, owner, plugin, registry }
  }

  it('registers for the scope', async () => {
    const { key, registry } = await joined()
    expect(registry.get('a', key)).toBe('joined')
    expect(registry.get('a')).toBeUndefined()
  })

  it('ends with the plugin that joined, and the scope stays', async () => {
    const { key, order, plugin, registry, owner } = await joined()
    await plugin.dispose()
    expect(order).toEqual(['part gone'])
    expect(registry.get('a', key)).toBeUndefined()
    expect(scopeChain(key)).toEqual([key])
    await owner.dispose()
    expect(order).toEqual(['part gone'])
  })

  it('ends with the scope, and the plugin that joined stays', async () => {
    const { root, key, order, plugin, owner } = await joined()
    await owner.dispose()
    expect(order).toEqual(['part gone'])
    expect(scopeChain(key)).toEqual([])
    // The plugin's own registrations work on.
    const heard: string[] = []
    plugin.ctx.on('test/said', word => void heard.push(word))
    root.emit('test/said', 'still here')
    expect(heard).toEqual(['still here'])
    await plugin.dispose()
  })

  it('while it ends takes part in the end', async () => {
    const { root, key, order, owner } = await joined()
    owner.ctx.effect(() => () => {
      createScope(root, key).ctx.effect(() => () => void order.push('latecomer gone'))
    })
    await owner.dispose()
    expect(order).toContain('latecomer gone')
    expect(scopeChain(key)).toEqual([])
  })

  it('a part that hangs is passed over', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    const { root, key, owner, logs } = await joined()
    createScope(root, key).ctx.effect(() => () => new Promise<void>(() => {}), 'a socket')
    const end = owner.dispose()
    await vi.advanceTimersByTimeAsync(5_000)
    await end
    expect(logs).toContain('error scope: disposing a socket did not end within 5000 ms and was passed over')
  })
})

it('a thousand scopes come, hear and go without the cost growing with their number', async () => {
  const { root } = bench()
  async function round(count: number) {
    const started = performance.now()
    const keys = Array.from({ length: count }, () => ({}))
    let heard = 0
    const handles = keys.map(key => createScope(root, key))
    for (const { ctx } of handles) {
      ctx.on('test/said', () => {
        heard++
      })
    }
    for (const key of keys) notify(root, key, 'test/said', 'x')
    await Promise.all(handles.map(handle => handle.dispose()))
    expect(heard).toBe(count)
    return performance.now() - started
  }
  await round(100)
  const [few, many] = [await round(250), await round(1_000)]
  // Four times as many. Each event passes each listener, so a part of the cost is quadratic; much more than that is a fault.
  expect(many / few).toBeLessThan(32)
  expect(root.events._hooks['test/said']).toEqual([])
  expect(root.fiber.getEffects()).toHaveLength(1)
})
