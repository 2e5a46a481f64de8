import { type Context, configureBehaviour, createRoot, createScope, pending, Service, stateOf } from '@cambium/core'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { bench, heads, turn } from './bench.ts'
import { mount, row, scenarios } from './scenarios.ts'

afterEach(() => {
  vi.useRealTimers()
})

describe('our kernel decides:', () => {
  it.each(scenarios)('$name', async ({ run, decided }) => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    expect(await run({ ...bench(), pass: ms => vi.advanceTimersByTimeAsync(ms) })).toEqual(decided)
  })
})

describe('disposal', () => {
  it('reports a failing disposer under its plugin and goes on with the rest', async () => {
    const { root, logs } = bench()
    const order: string[] = []
    const fiber = await mount(root, 'plugin', ctx => {
      ctx.effect(() => () => void order.push('first'))
      ctx.effect(() => () => {
        throw new Error('boom')
      })
      ctx.effect(() => async () => {
        throw new Error('bang')
      })
    })
    await fiber.dispose()
    expect(order).toEqual(['first'])
    expect(logs).toEqual(['error plugin: Error: bang', 'error plugin: Error: boom'])
  })

  it('by hand tells the caller of a failure', async () => {
    const { root, logs } = bench()
    const undo = root.effect(() => async () => {
      throw new Error('boom')
    })
    await expect(undo()).rejects.toThrow('boom')
    expect(logs).toEqual([])
  })

  it('of the whole tree reports what fails, since the logger goes last', async () => {
    const { root, logs } = bench()
    await mount(root, 'plugin', () => () => {
      throw new Error('boom')
    })
    await root.fiber.dispose()
    expect(logs).toEqual(['error plugin: Error: boom'])
  })

  it('of an outer effect joins the cleanup of an inner one that has begun', async () => {
    const { root } = bench()
    const order: string[] = []
    let release = () => {}
    const gate = new Promise<void>(resolve => {
      release = resolve
    })
    const undo: (() => unknown)[] = []
    const outer = root.effect(function* () {
      yield () => void order.push('outer')
      const inner = root.effect(() => async () => {
        await gate
        order.push('inner')
      })
      undo.push(inner)
      yield inner
    })
    void undo[0]?.()
    const ended = outer()
    await turn()
    expect(order).toEqual([])
    release()
    await ended
    expect(order).toEqual(['inner', 'outer'])
  })

  it('moves a yielded effect into the outer one, with its label', async () => {
    const { root } = bench()
    const undo = root.effect(function* () {
      yield root.effect(() => () => {}, 'inner')
    }, 'outer')
    const labels = root.fiber.getEffects().slice(1)
    expect(labels).toEqual([{ label: 'outer', children: [{ label: 'inner', children: [] }] }])
    await undo()
    expect(root.fiber.getEffects()).toHaveLength(1)
  })

  it('takes every shape of effect', async () => {
    const { root } = bench()
    const order: string[] = []
    const note = (name: string) => () => void order.push(name)
    const fiber = await mount(root, 'plugin', async ctx => {
      ctx.effect(() => note('function'))
      ctx.effect(() => [note('list 1'), note('list 2')])
      await ctx.effect(async () => note('promise'))
      await ctx.effect(async function* () {
        yield note('async 1')
        yield note('async 2')
      })
      await ctx.effect(async function* () {
        yield ctx.effect(() => note('awaited'))
      })
    })
    await fiber.dispose()
    expect(order).toEqual(['awaited', 'async 2', 'async 1', 'promise', 'list 2', 'list 1', 'function'])
  })

  it('of a plugin whose body yields its disposers runs them last first', async () => {
    const { root } = bench()
    const order: string[] = []
    const fiber = await mount(root, 'plugin', function* () {
      yield () => void order.push('a')
      yield () => void order.push('b')
    })
    await fiber.dispose()
    expect(order).toEqual(['b', 'a'])
  })

  it('refuses what is no effect, and leaves nothing of it', () => {
    const { root } = bench()
    const before = root.fiber.getEffects()
    expect(() => root.effect(() => 'text' as never)).toThrow('Invalid effect')
    expect(() => root.effect(() => [() => {}, 'text'] as never)).toThrow('Invalid effect')
    expect(root.fiber.getEffects()).toEqual(before)
  })

  it('undoes what an effect did before it failed', () => {
    const { root } = bench()
    const order: string[] = []
    expect(() =>
      root.effect(function* () {
        yield () => void order.push('undone')
        throw new Error('boom')
      }),
    ).toThrow('boom')
    expect(order).toEqual(['undone'])
  })

  it('waits for a start under way that ends in time', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    const { root, logs } = bench()
    const order: string[] = []
    const slow = async () => {
      await new Promise(resolve => setTimeout(resolve, 4_000))
      order.push('started')
      return () => void order.push('disposed')
    }
    const fiber = root.plugin({ name: 'plugin', apply: () => slow() as never })
    await turn()
    const disposal = fiber.dispose()
    await vi.advanceTimersByTimeAsync(4_000)
    await disposal
    expect(order).toEqual(['started', 'disposed'])
    expect(logs).toEqual([])
    expect(vi.getTimerCount()).toBe(0)
  })

  it('does not give up a start that only has to begin again, and does when it is disposed later', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    const { root, logs } = bench()
    const provider = await mount(root, 'provider', ctx => ctx.provide('service', {}))
    const fiber = root.plugin({ name: 'plugin', inject: ['service'], apply: () => new Promise<void>(() => {}) })
    await turn()
    const gone = provider.dispose()
    await vi.advanceTimersByTimeAsync(20_000)
    await gone
    expect(stateOf(fiber)).toBe('loading')
    const disposal = fiber.dispose()
    await vi.advanceTimersByTimeAsync(5_000)
    await disposal
    expect(stateOf(fiber)).toBe('disposed')
    expect(logs).toEqual([
      'error provider: disposing ctx.provide("service") did not end within 5000 ms and was passed over',
      'error plugin: apply() was still starting 5000 ms after its disposal began and was passed over',
    ])
  })

  it('is bounded as configured, until that is undone', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    const { root, logs } = bench()
    const undo = configureBehaviour({ disposeMs: 10 })
    const hang = () => root.effect(() => () => new Promise<void>(() => {}), 'it')
    const first = hang()()
    await vi.advanceTimersByTimeAsync(10)
    await first
    undo()
    const second = hang()()
    await vi.advanceTimersByTimeAsync(4_999)
    expect(logs).toHaveLength(1)
    await vi.advanceTimersByTimeAsync(1)
    await second
    expect(logs).toHaveLength(2)
  })

  it('of a parent waits for a child as long as the child’s own disposers take', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    const { root } = bench()
    const order: string[] = []
    const parent = await mount(root, 'parent', ctx => {
      ctx.effect(() => () => void order.push('parent'))
      return mount(ctx, 'child', inner => {
        inner.effect(() => () => void order.push('child'))
        inner.effect(() => () => new Promise<void>(() => {}))
        inner.effect(() => () => new Promise<void>(() => {}))
      }).then(() => undefined)
    })
    const disposal = parent.dispose()
    await vi.advanceTimersByTimeAsync(9_000)
    expect(order).toEqual([])
    await vi.advanceTimersByTimeAsync(1_000)
    await disposal
    expect(order).toEqual(['child', 'parent'])
  })
})

describe('pending plugins', () => {
  it('are listed with what they wait for, and no longer when it is there', async () => {
    const { root } = bench()
    await mount(root, 'started', () => {})
    await mount(root, 'hooks', () => {}, ['fs', 'process'])
    await mount(root, 'fs', ctx => ctx.provide('fs', {}))
    expect(pending(root).map(({ plugin, waits }) => ({ plugin, waits }))).toEqual([
      { plugin: 'hooks', waits: ['process'] },
    ])
    const provider = await mount(root, 'process', ctx => ctx.provide('process', {}))
    await turn()
    expect(pending(root)).toEqual([])
    await provider.dispose()
    expect(pending(root)).toMatchObject([{ plugin: 'hooks', waits: ['process'] }])
  })

  it('are listed when the service is there and refuses', async () => {
    const { root } = bench()
    await mount(root, 'provider', ctx => ctx.reflect.provide('fs', {}, () => false))
    await mount(root, 'hooks', () => {}, ['fs'])
    expect(pending(root)).toMatchObject([{ plugin: 'hooks', waits: ['fs'] }])
  })
})

describe('the order of listeners', () => {
  const listen =
    (heard: string[], name: string, prepend = false) =>
    (ctx: Context) => {
      ctx.on('test/said', () => void heard.push(name), { prepend })
    }

  it('is the same however rows are mounted, reloaded and mixed with code that no tree mounted', async () => {
    const names = ['row 1', 'row 2', 'row 2, first', 'row 3', 'row 3, first', 'none', 'none, first']
    const contextOf = (root: Context, name: string) => {
      const number = /\d/.exec(name)?.[0]
      return number ? row(root, Number(number)) : root
    }
    const orders = new Set<string>()
    for (let turns = 0; turns < names.length; turns++) {
      const { root } = bench()
      const heard: string[] = []
      const rotated = [...names.slice(turns), ...names.slice(0, turns)]
      for (const name of rotated) await mount(contextOf(root, name), name, listen(heard, name, name.endsWith('first')))
      root.emit('test/said', 'hello')
      orders.add(heard.join(' · '))
    }
    expect([...orders]).toEqual(['none, first · row 3, first · row 2, first · row 1 · row 2 · row 3 · none'])
  })

  it('is that of registration within a row', async () => {
    const { root } = bench()
    const heard: string[] = []
    await mount(row(root, 2), 'two', listen(heard, 'last'))
    await mount(row(root, 1), 'one', ctx => {
      listen(heard, 'a')(ctx)
      listen(heard, 'b')(ctx)
      listen(heard, 'second', true)(ctx)
      listen(heard, 'first', true)(ctx)
    })
    root.emit('test/said', 'hello')
    expect(heard).toEqual(['first', 'second', 'a', 'b', 'last'])
  })

  it('holds for waterfalls, and for plugins that a row mounts itself', async () => {
    const { root } = bench()
    const around = (name: string) => (ctx: Context) => {
      ctx.on('test/around', (_, next) => `${name}(${next()})`)
    }
    await mount(row(root, 2), 'inner', around('inner'))
    await mount(row(root, 1), 'outer', ctx => mount(ctx, 'child', around('outer')).then(() => undefined))
    expect(root.waterfall('test/around', 'x', () => 'body')).toBe('outer(inner(body))')
  })
})

describe('what cordis does itself goes on:', () => {
  it('its events of plugins, states and services reach everyone, inside scopes too', async () => {
    const { root } = bench()
    const seen: string[] = []
    const { ctx } = createScope(root, {})
    await turn()
    ctx.on('internal/plugin', fiber => void seen.push(`${fiber.name} ${fiber.uid === null ? 'gone' : 'made'}`))
    ctx.on('internal/status', fiber => void seen.push(`${fiber.name} ${stateOf(fiber)}`))
    ctx.on('internal/service', name => void seen.push(`service ${name}`))
    const fiber = await mount(root, 'plugin', inner => inner.provide('service', {}))
    await fiber.dispose()
    expect(seen).toEqual([
      'plugin made',
      'plugin loading',
      'plugin active',
      'service service',
      'plugin gone',
      'plugin unloading',
      'service service',
      'service service',
      'plugin disposed',
    ])
  })

  it('an observer of plugins that throws does not keep a plugin from its start', async () => {
    const { root, logs } = bench()
    root.on('internal/plugin', () => {
      throw new Error('boom')
    })
    const fiber = await mount(root, 'plugin', () => {})
    expect(stateOf(fiber)).toBe('active')
    expect(heads(logs)).toEqual(['error root: listener of internal/plugin failed: Error: boom'])
  })

  it('internal/dispatch tells of every mode once, before the listeners', () => {
    const { root } = bench()
    const seen: string[] = []
    root.on('internal/dispatch', (mode, name, args) => void seen.push(`${mode} ${name} ${JSON.stringify(args)}`))
    root.on('test/said', word => void seen.push(word))
    root.emit('test/said', 'a')
    root.bail('test/said', 'b')
    root.waterfall('test/around', 'c', () => 'd')
    expect(seen).toEqual(['emit test/said ["a"]', 'a', 'bail test/said ["b"]', 'b', 'waterfall test/around ["c",null]'])
  })

  it('a plugin may answer an update of its config itself', async () => {
    const { root } = bench()
    const seen: string[] = []
    const fiber = root.plugin(
      {
        name: 'plugin',
        apply(ctx: Context, config: { n: number }) {
          seen.push(`apply ${config.n}`)
          ctx.on('internal/update', (next: { n: number }, _, proceed) => {
            seen.push(`update ${next.n}`)
            if (next.n > 2) proceed()
          })
        },
      },
      { n: 1 },
    )
    await fiber
    fiber.update({ n: 2 })
    await fiber
    fiber.update({ n: 3 })
    await fiber
    expect(seen).toEqual(['apply 1', 'update 2', 'update 3', 'apply 3'])
  })

  it('once hears once, bail stops at an answer, a listener is removed by its undo', () => {
    const { root } = bench()
    const heard: string[] = []
    root.once('test/said', word => void heard.push(`once ${word}`))
    const undo = root.on('test/said', word => {
      heard.push(word)
      return word === 'stop' ? 'stopped' : undefined
    })
    root.on('test/said', word => void heard.push(`after ${word}`))
    root.emit('test/said', 'a')
    expect(root.bail('test/said', 'stop')).toBe('stopped')
    undo()
    root.emit('test/said', 'b')
    expect(heard).toEqual(['once a', 'a', 'after a', 'stop', 'after b'])
  })

  it('a listener that is removed while an event is out still hears that one', () => {
    const { root } = bench()
    const heard: string[] = []
    root.on('test/said', () => void undo())
    const undo = root.on('test/said', word => void heard.push(word))
    root.emit('test/said', 'a')
    root.emit('test/said', 'b')
    expect(heard).toEqual(['a'])
  })

  it('methods of a service register for the plugin that calls them', async () => {
    class Board extends Service {
      notes = new Set<string>()
      constructor(ctx: Context) {
        super(ctx, 'board')
      }
      pin(note: string) {
        return this.ctx.effect(() => {
          this.notes.add(note)
          return () => this.notes.delete(note)
        }, `note ${note}`)
      }
    }
    const { root } = bench()
    const board = () => root.get('board') as Board
    await root.plugin(Board)
    const caller = await mount(root, 'caller', ctx => (ctx.get('board') as Board).pin('mine') as never, ['board'])
    expect([...board().notes]).toEqual(['mine'])
    await caller.dispose()
    expect([...board().notes]).toEqual([])
  })
})

describe('a root', () => {
  it('has its logger before any plugin, so that nothing fails in silence', async () => {
    const { root, logs } = bench()
    await expect(
      mount(root, 'failing', () => {
        throw new Error('boom')
      }),
    ).rejects.toThrow('boom')
    expect(logs).toEqual(['error failing: Error: boom'])
  })

  it('writes to standard error when nobody takes its records, and nothing to standard output', async () => {
    const out = vi.spyOn(process.stdout, 'write').mockReturnValue(true)
    const err = vi.spyOn(process.stderr, 'write').mockReturnValue(true)
    const root = createRoot()
    root.logger('part').warn('look out')
    root.logger('part').info('not by default')
    expect(err.mock.calls.map(([text]) => text)).toEqual(['warn: part: look out\n'])
    expect(out).not.toHaveBeenCalled()
    vi.restoreAllMocks()
  })
})
