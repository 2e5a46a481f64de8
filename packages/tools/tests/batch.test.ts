import { createUserMessage } from '@cambium/llm'
import type { SessionEvent } from '@cambium/session'
import { afterEach, describe, expect, test, vi } from 'vitest'
import type { Agent } from '../src/index.ts'
import { boot, call, fakeAgent, latch, never, raw, run, textOf } from './boot.ts'

afterEach(() => void vi.useRealTimers())

const note = (text: string) => createUserMessage({ content: text, source: { kind: 'plugin', plugin: 'test' } })

/** The agent's log from the first call on, in short. */
const log = (agent: Agent) =>
  agent.session.events().flatMap((event: SessionEvent) => {
    if (event.type === 'tool/call') return [`call ${event.data.callId}`]
    if (event.type !== 'tool/result') return event.type.startsWith('tool/') ? [event.type] : []
    const block = event.data.message.content[0]
    return block?.type === 'tool-result' ? [`result ${block.toolCallId}`] : []
  })

/** A tool whose every call runs until it is let go. */
function gated() {
  const started: string[] = []
  const gates = new Map<string, ReturnType<typeof latch<void>>>()
  const waiting: (() => void)[] = []
  const gate = (id: string) => {
    if (!gates.has(id)) gates.set(id, latch())
    return gates.get(id)!
  }
  return {
    started,
    async execute(_args: never, exec: { callId: string }) {
      started.push(exec.callId)
      for (const wake of waiting.splice(0)) wake()
      await gate(exec.callId).promise
      return exec.callId
    },
    open: (...ids: string[]) => {
      for (const id of ids) gate(id).open()
    },
    async until(count: number) {
      while (started.length < count) await new Promise<void>(resolve => waiting.push(resolve))
    },
  }
}

const safe = { isConcurrencySafe: () => true }

test('a call and its result are logged as a pair, with the turn, the outcome and what viewers need', async () => {
  const { ctx } = await boot()
  const { toolResult } = await import('../src/index.ts')
  const { agent } = await fakeAgent(ctx)
  ctx.tools.register(raw('ok', { execute: () => toolResult({ content: 'fine', meta: { lines: 1 } }) }))
  ctx.tools.register(
    raw('bad', {
      execute() {
        throw new Error('no')
      },
    }),
  )
  await run(ctx, agent, call('ok', '{"a": 1}', 'c1'), call('bad', '', 'c2'))
  const events = agent.session.events(2)
  expect(events.map(event => event.data)).toMatchObject([
    { turn: 1, step: 1, callId: 'c1', name: 'ok', arguments: '{"a": 1}' },
    {
      turn: 1,
      step: 1,
      message: {
        role: 'user',
        source: { kind: 'tool', callId: 'c1' },
        content: [{ type: 'tool-result', toolCallId: 'c1', content: [{ type: 'text', text: 'fine' }] }],
      },
      meta: { lines: 1 },
      durationMs: expect.any(Number),
    },
    { callId: 'c2', name: 'bad', arguments: '' },
    {
      message: {
        content: [{ type: 'tool-result', toolCallId: 'c2', isError: true, content: [{ text: 'Error: no' }] }],
      },
      error: { code: 'TOOL_FAILED', message: 'no' },
    },
  ])
})

describe('overlap', () => {
  test('bodies of safe calls run together; judging, results and contexts keep the order of the model', async () => {
    const { ctx } = await boot()
    const { agent, injected } = await fakeAgent(ctx)
    const order: string[] = []
    ctx.on('tools/pre-execute', (exec, next) => {
      order.push(`pre ${exec.callId}`)
      return next()
    })
    ctx.on('tools/post-execute', (exec, _result, next) => {
      order.push(`post ${exec.callId}`)
      return next()
    })
    const { execute, open, until } = gated()
    ctx.tools.register(
      raw('read', {
        ...safe,
        async execute(args, exec) {
          const value = await execute(args, exec)
          exec.deferContext(note(`context ${exec.callId}`))
          return value
        },
      }),
    )
    const texts = run(ctx, agent, call('read', {}, 'a'), call('read', {}, 'b'), call('read', {}, 'c'))
    await until(3)
    open('c', 'b')
    await new Promise(setImmediate)
    expect(log(agent)).toEqual(['call a', 'call b', 'call c'])
    expect(injected).toEqual([])
    open('a')
    expect(await texts).toEqual(['a', 'b', 'c'])
    expect(order).toEqual(['pre a', 'pre b', 'pre c', 'post a', 'post b', 'post c'])
    expect(log(agent).slice(3)).toEqual(['result a', 'result b', 'result c'])
    expect(injected.map(message => message.content)).toEqual(
      ['a', 'b', 'c'].map(id => [{ type: 'text', text: `context ${id}` }]),
    )
  })

  test('any other call is a barrier: it waits for those before it, and those after wait for it', async () => {
    const { ctx } = await boot()
    const { agent } = await fakeAgent(ctx)
    const { execute, open, until, started } = gated()
    ctx.tools.register(raw('read', { ...safe, execute }))
    ctx.tools.register(raw('edit', { execute }))
    const texts = run(
      ctx,
      agent,
      call('read', {}, 'r1'),
      call('read', {}, 'r2'),
      call('edit', {}, 'e1'),
      call('edit', {}, 'e2'),
      call('read', {}, 'r3'),
    )
    await until(2)
    open('r2')
    await new Promise(setImmediate)
    expect(started).toEqual(['r1', 'r2'])
    // Not even its call is logged or judged before its turn has come.
    expect(log(agent)).toEqual(['call r1', 'call r2'])
    open('r1')
    await until(3)
    expect(log(agent)).toEqual(['call r1', 'call r2', 'result r1', 'result r2', 'call e1'])
    open('e1', 'e2', 'r3')
    expect(await texts).toEqual(['r1', 'r2', 'e1', 'e2', 'r3'])
    expect(log(agent).slice(5)).toEqual(['result e1', 'call e2', 'result e2', 'call r3', 'result r3'])
  })

  test('six edits of one file in one answer all take effect', async () => {
    const { ctx } = await boot()
    const { agent } = await fakeAgent(ctx)
    let file = Array.from({ length: 100 }, (_, i) => `${i + 1}`).join('\n')
    ctx.tools.register(
      raw('edit', {
        async execute(args: { from: string; to: string }) {
          const before = file
          await new Promise(setImmediate)
          file = before.replace(new RegExp(`^${args.from}$`, 'm'), args.to)
          return 'edited'
        },
      } as never),
    )
    const edits = ['50', '75', '10', '20', '30', '40'].map(from => call('edit', { from, to: `<${from}>` }))
    expect(await run(ctx, agent, ...edits)).toEqual(edits.map(() => 'edited'))
    expect(file.split('\n').filter(line => line.startsWith('<'))).toEqual([
      '<10>',
      '<20>',
      '<30>',
      '<40>',
      '<50>',
      '<75>',
    ])
  })

  test.each<[string, { maxParallel?: number }, { limit?: number }]>([
    ['the configured limit', { maxParallel: 2 }, {}],
    ["the caller's limit", {}, { limit: 2 }],
  ])('%s bounds how many bodies run', async (_, config, options) => {
    const { ctx } = await boot(config)
    const { agent } = await fakeAgent(ctx)
    const { execute, open, until, started } = gated()
    ctx.tools.register(raw('read', { ...safe, execute }))
    const calls = ['a', 'b', 'c', 'd'].map(id => call('read', {}, id))
    const done = ctx.tools.runBatch(calls, { agent, signal: never(), ...options })
    await until(2)
    await new Promise(setImmediate)
    expect(started).toEqual(['a', 'b'])
    open('b')
    await until(3)
    expect(started).toEqual(['a', 'b', 'c'])
    open('a', 'c', 'd')
    expect((await done).results.map(textOf)).toEqual(['a', 'b', 'c', 'd'])
  })

  test('whether a call is safe is read again right before it starts, on the arguments that will run', async () => {
    const { ctx } = await boot()
    const { agent } = await fakeAgent(ctx)
    const { execute, open, until, started } = gated()
    ctx.tools.register(raw('read', { isConcurrencySafe: args => !(args as { write?: true }).write, execute }))
    ctx.on('tools/pre-execute', async (exec, next) =>
      exec.callId === 'b' ? { kind: 'allow', arguments: { write: true } } : next(),
    )
    const texts = run(ctx, agent, call('read', {}, 'a'), call('read', {}, 'b'))
    await until(1)
    await new Promise(setImmediate)
    expect(started).toEqual(['a'])
    open('a', 'b')
    expect(await texts).toEqual(['a', 'b'])
  })

  test('a classifier that throws or answers something else makes the call run alone', async () => {
    const { ctx } = await boot()
    const { agent } = await fakeAgent(ctx)
    let running = 0
    let most = 0
    const execute = async () => {
      most = Math.max(most, ++running)
      await new Promise(setImmediate)
      running--
    }
    const answers: (() => never)[] = [
      () => {
        throw new Error('no idea')
      },
      () => 'yes' as never,
    ]
    for (const [index, isConcurrencySafe] of answers.entries()) {
      ctx.tools.register(raw(`t${index}`, { isConcurrencySafe, execute }))
      await run(ctx, agent, call(`t${index}`), call(`t${index}`))
    }
    expect(most).toBe(1)
  })

  test('many calls at once leave no warning about listeners', async () => {
    const warnings: string[] = []
    const onWarning = (warning: Error) => void warnings.push(warning.message)
    process.on('warning', onWarning)
    const { ctx } = await boot()
    const { agent } = await fakeAgent(ctx)
    ctx.tools.register(
      raw('read', { ...safe, execute: () => new Promise(resolve => setImmediate(() => resolve('x'))) }),
    )
    const calls = Array.from({ length: 60 }, () => call('read'))
    await ctx.tools.runBatch(calls, { agent, signal: never(), limit: 60 })
    await new Promise(setImmediate)
    process.off('warning', onWarning)
    expect(warnings).toEqual([])
  })
})

describe('cancelling', () => {
  test('lets started bodies end, starts no other, and leaves a pair for every call', async () => {
    const { ctx } = await boot()
    const { agent } = await fakeAgent(ctx)
    const results = vi.fn()
    ctx.on('tools/result', results)
    const caller = new AbortController()
    const ran: string[] = []
    ctx.tools.register(
      raw('read', {
        ...safe,
        execute: (_args, exec) =>
          new Promise(resolve => {
            ran.push(exec.callId)
            exec.signal.addEventListener('abort', () => setImmediate(() => resolve('too late')))
            if (ran.length === 2) setImmediate(() => caller.abort())
          }),
      }),
    )
    ctx.tools.register(raw('edit', { execute: () => void ran.push('edit') }))
    const calls = [call('read', {}, 'a'), call('read', {}, 'b'), call('edit', {}, 'c'), call('nope', 'no json', 'd')]
    const { results: all, concluded } = await ctx.tools.runBatch(calls, { agent, signal: caller.signal })
    expect(ran).toEqual(['a', 'b'])
    expect(all.map(result => result.error?.code)).toEqual([
      'ABORTED',
      'ABORTED',
      'ABORTED_BEFORE_DISPATCH',
      'ABORTED_BEFORE_DISPATCH',
    ])
    expect(log(agent)).toEqual(['call a', 'call b', 'result a', 'result b', 'call c', 'result c', 'call d', 'result d'])
    expect(results).toHaveBeenCalledTimes(4)
    expect(concluded).toBe(false)
  })

  test('reaches a batch of bodies that never wait for anything', async () => {
    const { ctx } = await boot()
    const { agent } = await fakeAgent(ctx)
    const controller = new AbortController()
    let ran = 0
    ctx.tools.register(
      raw('quick', {
        execute() {
          if (!ran++) setImmediate(() => controller.abort({ by: 'user' }))
          return 'done'
        },
      }),
    )
    const calls = Array.from({ length: 3_000 }, (_, i) => call('quick', '{}', `c${i}`))
    const { results } = await ctx.tools.runBatch(calls, { agent, signal: controller.signal })
    expect(results).toHaveLength(3_000)
    expect(ran).toBeLessThan(2_000)
  })

  test('before the batch: a pair for every call all the same', async () => {
    const { ctx } = await boot()
    const { agent } = await fakeAgent(ctx)
    ctx.tools.register(raw('edit'))
    await ctx.tools.runBatch([call('edit', {}, 'a'), call('edit', {}, 'b')], { agent, signal: AbortSignal.abort() })
    expect(log(agent)).toEqual(['call a', 'result a', 'call b', 'result b'])
  })
})

test('one call that succeeds concludes the turn, and the calls after it still run', async () => {
  const { ctx } = await boot()
  const { agent } = await fakeAgent(ctx)
  ctx.tools.register(raw('done', { execute: (_args, exec) => exec.concludeTurn() }))
  ctx.tools.register(raw('more'))
  const batch = (...names: string[]) =>
    ctx.tools.runBatch(
      names.map(name => call(name)),
      { agent, signal: never() },
    )
  const outcome = await batch('done', 'more')
  expect([outcome.concluded, outcome.results.map(textOf)]).toEqual([true, ['(no output)', 'more']])
  expect((await batch('more')).concluded).toBe(false)
  ctx.on('tools/post-execute', async () => ({ kind: 'block', feedback: 'not yet' }))
  expect((await batch('done')).concluded).toBe(false)
})

test('a log that cannot be written ends the batch without made-up results, once the bodies have ended', async () => {
  const { ctx } = await boot()
  const { agent, injected } = await fakeAgent(ctx)
  const { execute, open, until } = gated()
  let ended = false
  ctx.tools.register(
    raw('read', {
      ...safe,
      async execute(args, exec) {
        exec.deferContext(note('x'))
        await execute(args, exec)
        ended ||= exec.callId === 'b'
      },
    }),
  )
  // The third waits for a place, and finds the log closed while the second still runs.
  const calls = ['a', 'b', 'c'].map(id => call('read', {}, id))
  const batch = ctx.tools.runBatch(calls, { agent, signal: never(), limit: 2 })
  let settled = false
  const failure = batch
    .catch((error: unknown) => error)
    .finally(() => {
      settled = true
    })
  await until(2)
  await ctx.sessions.close(agent.session)
  open('a')
  await new Promise(setImmediate)
  expect(settled).toBe(false)
  open('b')
  expect(await failure).toMatchObject({ code: 'SESSION_CLOSED' })
  expect(ended).toBe(true)
  expect(log(agent)).toEqual(['call a', 'call b'])
  expect(injected).toEqual([])
})

describe('progress', () => {
  async function setup() {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] })
    const { ctx, records } = await boot()
    const { agent } = await fakeAgent(ctx)
    const seen: unknown[] = []
    ctx.on('session/event', (_session, event) => {
      if (event.type === 'tool/progress') seen.push(event.data.data)
      if (event.type === 'tool/result') seen.push('result')
    })
    return { ctx, agent, seen, records }
  }

  test('is shown at most ten times a second, the last one always and before the result, and never logged', async () => {
    const { ctx, agent, seen } = await setup()
    ctx.tools.register(
      raw('build', {
        async execute(_args, exec) {
          for (let i = 0; i < 1000; i++) {
            exec.progress({ done: i })
            vi.advanceTimersByTime(1)
          }
          exec.progress({ done: 'all' })
        },
      }),
    )
    await run(ctx, agent, call('build'))
    expect(seen.length).toBeLessThanOrEqual(13)
    expect(seen.length).toBeGreaterThan(9)
    expect(seen[0]).toEqual({ done: 0 })
    expect(seen.slice(-2)).toEqual([{ done: 'all' }, 'result'])
    expect(agent.session.events().some(event => (event.type as string) === 'tool/progress')).toBe(false)
  })

  test('that came too fast is shown a moment later, while the tool still runs', async () => {
    const { ctx, agent, seen } = await setup()
    const go = latch()
    ctx.tools.register(
      raw('build', {
        async execute(_args, exec) {
          exec.progress('one')
          exec.progress('two')
          exec.progress('three')
          await go.promise
        },
      }),
    )
    const done = run(ctx, agent, call('build'))
    await new Promise(setImmediate)
    expect(seen).toEqual(['one'])
    vi.advanceTimersByTime(100)
    expect(seen).toEqual(['one', 'three'])
    go.open()
    await done
  })

  test('that is large is cut, and what is no JSON is reported without harm to the call', async () => {
    const { ctx, agent, seen, records } = await setup()
    let data: unknown
    ctx.tools.register(raw('build', { execute: (_args, exec) => exec.progress(data as never) }))
    const report = async (next: unknown) => {
      data = next
      return run(ctx, agent, call('build'))
    }
    await report(`${'x'.repeat(50_000)}end`)
    await report({ list: 'y'.repeat(50_000) })
    expect(await report({ when: new Date() })).toEqual(['(no output)'])
    const shown = seen.filter(one => one !== 'result')
    expect(shown).toEqual([
      expect.stringMatching(/^…x+end$/),
      { truncated: true, start: expect.stringMatching(/^\{"list":"y+$/) },
    ])
    expect(JSON.stringify(shown).length).toBeLessThan(40_000)
    expect(records.map(record => record.text)).toEqual([
      expect.stringMatching(/^tool "build": progress was not shown: .*progress\.when is an instance of Date/),
    ])
  })
})
