import { type Context, createScope, withRow } from '@cambium/core'
import { describe, expect, test, vi } from 'vitest'
import type { ToolDefinition } from '../src/index.ts'
import { boot, call, fakeAgent, latch, never, raw, run, textOf } from './boot.ts'

const offering = (name: string, ...definitions: ToolDefinition[]) => ({
  name,
  inject: ['tools'],
  apply(ctx: Context) {
    for (const definition of definitions) ctx.tools.register(definition)
  },
})

const names = (ctx: Context, scope?: object) => ctx.tools.schemas(scope).map(schema => schema.name)

describe('registration', () => {
  test('a tool leaves with the plugin that offered it', async () => {
    const { ctx } = await boot()
    const fiber = await ctx.plugin(offering('greeter', raw('hello')))
    expect(names(ctx)).toEqual(['hello'])
    await fiber.dispose()
    expect(names(ctx)).toEqual([])
    expect(textOf(await ctx.tools.execute(call('hello')))).toBe('Error: there is no tool "hello". There are no tools.')
  })

  test('a tool leaves when its registration is undone, once', async () => {
    const { ctx } = await boot()
    const undo = ctx.tools.register(raw('hello'))
    undo()
    ctx.tools.register(raw('hello'))
    undo()
    expect(names(ctx)).toEqual(['hello'])
  })

  test('a second tool of a name is refused by the names of both plugins, and the first stays', async () => {
    const { ctx } = await boot()
    await ctx.plugin(offering('greeter', raw('hello', { description: 'first' })))
    const row = withRow(ctx, { id: 'rival', at: 'cordis.yml:12:3', path: [1] })
    let error: unknown
    await row.plugin({
      name: 'rival',
      inject: ['tools'],
      apply(own: Context) {
        try {
          own.tools.register(raw('hello'))
        } catch (thrown) {
          error = thrown
        }
      },
    })
    expect(error).toMatchObject({
      code: 'TOOL_DUPLICATE',
      problem: 'tool "hello" is already offered by greeter',
      where: 'rival (cordis.yml:12:3)',
    })
    expect(ctx.tools.get('hello')?.description).toBe('first')
  })

  test.each<[string, unknown, RegExp]>([
    ['no definition', undefined, /a tool definition must be an object/],
    ['no name', { ...raw('x'), name: undefined }, /a tool has the name undefined/],
    ['a name no provider takes', raw('my tool'), /a tool has the name "my tool"/],
    ['a long name', raw('x'.repeat(65)), /a tool has the name "x+"/],
    ['no description', { ...raw('x'), description: undefined }, /tool "x": description is no string/],
    ['no schema', { ...raw('x'), parameters: undefined }, /tool "x": parameters is no JSON Schema of type object/],
    ['another schema', raw('x', { parameters: { type: 'string' } }), /tool "x": parameters is no JSON Schema of type/],
    [
      'a schema that is no JSON',
      raw('x', { parameters: { type: 'object', f: (() => {}) as never } }),
      /tool "x": parameters\.f is function/,
    ],
    ['no code', { ...raw('x'), execute: 'rm -rf' }, /tool "x": execute is no function/],
    ['a bad classifier', { ...raw('x'), isConcurrencySafe: true }, /tool "x": isConcurrencySafe is no function/],
    ['a bad output', { ...raw('x'), output: 'string' }, /tool "x": output is no JSON Schema/],
    ['a bad budget', raw('x', { timeoutMs: -1 }), /tool "x": timeoutMs is no positive number/],
  ])('%s is refused at registration with the plugin named, and other tools are unaffected', async (_, bad, problem) => {
    const { ctx } = await boot()
    await ctx.plugin(offering('good', raw('fine')))
    const row = withRow(ctx, { id: 'broken', at: 'cordis.yml:7:3', path: [1] })
    await expect(row.plugin(offering('broken', bad as ToolDefinition))).rejects.toMatchObject({
      code: 'TOOL_INVALID',
      problem: expect.stringMatching(problem),
      where: 'broken (cordis.yml:7:3)',
    })
    expect(names(ctx)).toEqual(['fine'])
    expect(textOf(await ctx.tools.execute(call('fine')))).toBe('fine')
  })
})

describe('what a scope sees', () => {
  test('tools are sorted by name, and the list keeps its identity until it changes', async () => {
    const { ctx } = await boot()
    const { agent } = await fakeAgent(ctx)
    const other = await fakeAgent(ctx)
    for (const name of ['write', 'read', 'Bash']) ctx.tools.register(raw(name))
    const before = ctx.tools.schemas(agent)
    expect(names(ctx, agent)).toEqual(['Bash', 'read', 'write'])
    expect(Object.isFrozen(before)).toBe(true)
    const change = vi.fn()
    ctx.on('tools/change', change)
    other.agent.ctx.tools.register(raw('private'))
    expect(change).toHaveBeenCalledTimes(1)
    expect(ctx.tools.schemas(agent)).toBe(before)
    const undo = ctx.tools.register(raw('later'))
    expect(ctx.tools.schemas(agent)).not.toBe(before)
    expect(ctx.tools.schemas(agent)[0]).toBe(before[0])
    undo()
    expect(names(ctx, agent)).toEqual(['Bash', 'read', 'write'])
    expect(change).toHaveBeenCalledTimes(3)
  })

  test("an agent's own tool is its alone, shadows the common one, and leaves with it", async () => {
    const { ctx } = await boot()
    const { agent, scope } = await fakeAgent(ctx)
    const child = (await fakeAgent(ctx, agent)).agent
    const stranger = (await fakeAgent(ctx)).agent
    ctx.tools.register(raw('report', { description: 'common' }))
    agent.ctx.tools.register(raw('report', { description: 'own' }))
    agent.ctx.tools.register(raw('secret'))
    expect(ctx.tools.get('report', agent)?.description).toBe('own')
    expect(ctx.tools.get('report', child)?.description).toBe('own')
    expect(ctx.tools.get('report', stranger)?.description).toBe('common')
    expect(agent.ctx.tools.get('report')?.description).toBe('own')
    expect(names(ctx, stranger)).toEqual(['report'])
    await scope.dispose()
    expect(ctx.tools.get('report', agent)?.description).toBe('common')
  })

  test('a view asked for before its scope was open does not stick', async () => {
    const { ctx } = await boot()
    const key = {}
    ctx.tools.register(raw('a'))
    const parent = (await fakeAgent(ctx)).agent
    parent.ctx.tools.register(raw('b'))
    expect(names(ctx, key)).toEqual(['a'])
    createScope(ctx, key, parent)
    expect(names(ctx, key)).toEqual(['a', 'b'])
  })
})

describe('restrictions', () => {
  test('hide inherited tools from showing, finding and running alike', async () => {
    const { ctx } = await boot()
    const { agent } = await fakeAgent(ctx)
    for (const name of ['read', 'write', 'bash']) ctx.tools.register(raw(name))
    const undo = agent.ctx.tools.restrict({ deny: ['bash'] })
    expect(names(ctx, agent)).toEqual(['read', 'write'])
    expect(ctx.tools.get('bash', agent)).toBeUndefined()
    expect(await run(ctx, agent, call('bash'))).toEqual(['Error: there is no tool "bash". There are: read, write.'])
    expect(names(ctx)).toEqual(['bash', 'read', 'write'])
    undo()
    expect(await run(ctx, agent, call('bash'))).toEqual(['bash'])
  })

  test('intersect down the chain, spare own tools, and hold for tools that come later', async () => {
    const { ctx } = await boot()
    const { agent } = await fakeAgent(ctx)
    const child = (await fakeAgent(ctx, agent)).agent
    for (const name of ['read', 'write', 'bash']) ctx.tools.register(raw(name))
    agent.ctx.tools.restrict({ deny: ['bash'] })
    // The child may name what its parent has lost, and does not get it back by that.
    child.ctx.tools.restrict({ allow: ['read', 'bash'] })
    child.ctx.tools.register(raw('report'))
    ctx.tools.register(raw('later'))
    agent.ctx.tools.register(raw('parents'))
    expect(names(ctx, child)).toEqual(['read', 'report'])
    expect(names(ctx, agent)).toEqual(['later', 'parents', 'read', 'write'])
    child.ctx.tools.restrict({ allow: [] })
    expect(names(ctx, child)).toEqual(['report'])
  })

  test('that cannot mean anything are refused', async () => {
    const { ctx } = await boot()
    const { agent } = await fakeAgent(ctx)
    ctx.tools.register(raw('read'))
    agent.ctx.tools.register(raw('own'))
    expect(() => ctx.tools.restrict({ deny: ['read'] })).toThrow(/^TOOL_RESTRICT_GLOBAL/)
    expect(() => agent.ctx.tools.restrict({})).toThrow(/^TOOL_INVALID: a restriction needs allow or deny/)
    expect(() => agent.ctx.tools.restrict({ deny: ['raed'] })).toThrow(
      /^TOOL_UNKNOWN: .*"raed"[\s\S]*did you mean "read"/,
    )
    expect(() => agent.ctx.tools.restrict({ deny: ['own'] })).toThrow(
      /^TOOL_UNKNOWN: .*"own"[\s\S]*own tools are never/,
    )
    expect(names(ctx, agent)).toEqual(['own', 'read'])
  })
})

describe('unloading a plugin while its tool runs', () => {
  test('waits for the call, whose result is the real one, and the next call meets the new code', async () => {
    const { ctx } = await boot()
    const { agent } = await fakeAgent(ctx)
    const started = latch()
    const go = latch()
    const order: string[] = []
    const old = await ctx.plugin({
      name: 'slow',
      inject: ['tools'],
      apply(own: Context) {
        own.effect(() => () => void order.push('resources closed'))
        own.tools.register(
          raw('work', {
            async execute() {
              started.open()
              await go.promise
              order.push('call ended')
              return 'old'
            },
          }),
        )
      },
    })
    const batch = run(ctx, agent, call('work'))
    await started.promise
    const gone = latch()
    ctx.once('tools/change', () => gone.open())
    const disposal = old.dispose()
    await gone.promise
    expect(names(ctx)).toEqual([])
    go.open()
    await disposal
    expect(await batch).toEqual(['old'])
    expect(order).toEqual(['call ended', 'resources closed'])
    await ctx.plugin(offering('slow', raw('work', { execute: () => 'new' })))
    expect(await run(ctx, agent, call('work'))).toEqual(['new'])
    expect(agent.session.events().filter(event => event.type === 'tool/result')).toHaveLength(2)
  })

  test('cancels the call when it does not end in time, and the call still has one result', async () => {
    const { ctx } = await boot({ drainMs: 0 })
    const { agent } = await fakeAgent(ctx)
    const started = latch()
    const fiber = await ctx.plugin(
      offering(
        'stuck',
        raw('work', {
          execute: (_args, exec) =>
            new Promise((_resolve, reject) => {
              started.open()
              exec.signal.addEventListener('abort', () => reject(exec.signal.reason))
            }),
        }),
      ),
    )
    const batch = run(ctx, agent, call('work'))
    await started.promise
    await fiber.dispose()
    expect(await batch).toEqual(['Error: tool "work" was unloaded while it ran'])
  })

  test('between judging and running gives a clear answer and runs nothing', async () => {
    const { ctx } = await boot()
    const { agent } = await fakeAgent(ctx)
    const ran = vi.fn()
    const fiber = await ctx.plugin(offering('slow', raw('work', { execute: ran })))
    ctx.on('tools/execute', async (_exec, next) => {
      await fiber.dispose()
      return next()
    })
    const { results } = await ctx.tools.runBatch([call('work')], { agent, signal: never() })
    expect(results[0]?.error?.code).toBe('TOOL_CHANGED')
    expect(textOf(results[0])).toMatch(/nothing was run\. Call it again if it is still there/)
    expect(ran).not.toHaveBeenCalled()
  })
})

test('when the tools plugin unloads nothing of it is left, and it can be mounted again', async () => {
  const { ctx } = await boot()
  const tools = await import('../src/index.ts')
  const fiber = [...ctx.registry.values()].flatMap(runtime => [...runtime.fibers]).find(one => one.name === 'tools')!
  const user = await ctx.plugin(offering('user', raw('hello')))
  await fiber.dispose()
  expect(ctx.get('tools')).toBeUndefined()
  await ctx.plugin(tools)
  await user
  expect(names(ctx)).toEqual(['hello'])
})
