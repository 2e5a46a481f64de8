import type { Context } from '@cambium/core'
import { createUserMessage } from '@cambium/llm'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import type { Agent, Approval, ToolExecution, ToolResult } from '../src/index.ts'
import { failedResult } from '../src/index.ts'
import { boot, call, fakeAgent, latch, raw, textOf } from './boot.ts'

const note = (text: string) => createUserMessage({ content: text, source: { kind: 'plugin', plugin: 'test' } })

async function setup() {
  const { ctx, records } = await boot()
  const ran = vi.fn(() => 'ran')
  ctx.tools.register(raw('work', { execute: ran }))
  const results = vi.fn()
  ctx.on('tools/result', results)
  return { ctx, records, ran, results, agent: (await fakeAgent(ctx)).agent }
}

const approving = (answer: Awaited<ReturnType<Approval['request']>> | Error) => {
  const request = vi.fn(async (_question: Parameters<Approval['request']>[0]) => {
    if (answer instanceof Error) throw answer
    return answer
  })
  const plugin = { name: 'approver', apply: (ctx: Context) => void ctx.provide('approval', { request }) }
  return { plugin, request }
}

test('the steps of a call come in this order', async () => {
  const { ctx } = await boot()
  const order: string[] = []
  const { plugin, request } = approving({ kind: 'allow' })
  request.mockImplementation(async () => {
    order.push('approval')
    return { kind: 'allow' }
  })
  await ctx.plugin(plugin)
  ctx.on('tools/pre-execute', async (_exec, next) => {
    order.push('pre-execute')
    await next()
    return { kind: 'ask' }
  })
  ctx.tools.guard(() => void order.push('guard'))
  ctx.on('tools/execute', async (_exec, next) => {
    order.push('execute')
    return next()
  })
  ctx.on('tools/post-execute', async (_exec, _result, next) => {
    order.push('post-execute')
    return next()
  })
  ctx.on('tools/result', () => void order.push('result'))
  ctx.tools.register(raw('work', { execute: () => void order.push('body') }))
  await ctx.tools.execute(call('work'))
  expect(order).toEqual(['pre-execute', 'approval', 'guard', 'execute', 'body', 'post-execute', 'result'])
})

describe('may it run', () => {
  test('a denied call does not run, tells the model why, and goes through post-execute and result', async () => {
    const { ctx, ran, results } = await setup()
    const post = vi.fn((_exec, _result, next) => next())
    ctx.on('tools/post-execute', post)
    ctx.on('tools/pre-execute', async () => ({ kind: 'deny', reason: 'Denied by policy.' }))
    const result = await ctx.tools.execute(call('work'))
    expect(textOf(result)).toBe('Error: Denied by policy.')
    expect(result.error).toEqual({ code: 'TOOL_DENIED', message: 'Denied by policy.' })
    expect(ran).not.toHaveBeenCalled()
    expect(post).toHaveBeenCalledTimes(1)
    expect(results.mock.calls).toEqual([[expect.anything(), result]])
  })

  test('ask runs the call once somebody allows it, with the effective arguments in the question', async () => {
    const { ctx, ran, agent } = await setup()
    const { plugin, request } = approving({ kind: 'allow' })
    await ctx.plugin(plugin)
    ctx.on('tools/pre-execute', async () => ({ kind: 'ask', reason: 'it writes', arguments: { safe: true } }))
    expect(textOf(await ctx.tools.execute(call('work'), { agent }))).toBe('ran')
    expect(ran).toHaveBeenCalledWith({ safe: true }, expect.anything())
    expect(request).toHaveBeenCalledTimes(1)
    expect(request.mock.calls[0]?.[0]).toMatchObject({
      reason: 'it writes',
      exec: { arguments: { safe: true }, agent },
    })
  })

  test.each<[string, Parameters<typeof approving>[0] | undefined, string]>([
    ['nobody is there', undefined, 'Error: this call needs approval and nobody is there to give it: it writes'],
    ['the answer is no', { kind: 'deny', reason: 'not now' }, 'Error: not now'],
    [
      'the question is withdrawn',
      { kind: 'cancelled' },
      'Error: the question whether this call may run was withdrawn: it writes',
    ],
    ['asking fails', new Error('socket closed'), 'Error: the call was not run because a check failed: socket closed'],
  ])('ask denies when %s', async (_, answer, text) => {
    const { ctx, ran } = await setup()
    if (answer) await ctx.plugin(approving(answer).plugin)
    ctx.on('tools/pre-execute', async () => ({ kind: 'ask', reason: 'it writes' }))
    expect(textOf(await ctx.tools.execute(call('work')))).toBe(text)
    expect(ran).not.toHaveBeenCalled()
  })

  test('no listener can undo what a guard denies; global guards are asked first', async () => {
    const { ctx, ran, agent } = await setup()
    await ctx.plugin(approving({ kind: 'allow' }).plugin)
    ctx.on('tools/pre-execute', async () => ({ kind: 'allow' }), { prepend: true })
    const order: string[] = []
    agent.ctx.tools.guard(() => void order.push('agent'))
    const child = (await fakeAgent(ctx, agent)).agent
    child.ctx.tools.guard(() => {
      order.push('child')
      return 'never'
    })
    ctx.tools.guard(() => void order.push('global'))
    expect(textOf(await ctx.tools.execute(call('work'), { agent: child }))).toBe('Error: never')
    expect(order).toEqual(['global', 'agent', 'child'])
    expect(textOf(await ctx.tools.execute(call('work'), { agent }))).toBe('ran')
    expect(ran).toHaveBeenCalledTimes(1)
  })

  test('a guard leaves with its plugin', async () => {
    const { ctx } = await setup()
    const fiber = await ctx.plugin({
      name: 'strict',
      inject: ['tools'],
      apply: (own: Context) => void own.tools.guard(() => 'no'),
    })
    expect(textOf(await ctx.tools.execute(call('work')))).toBe('Error: no')
    await fiber.dispose()
    expect(textOf(await ctx.tools.execute(call('work')))).toBe('ran')
  })

  test('a check that throws, answers nothing or answers late keeps the call from running, by the name of its plugin', async () => {
    const { ctx, ran, records } = await setup()
    const post = vi.fn((_exec, _result, next) => next())
    ctx.on('tools/post-execute', post)
    const broken = (apply: (own: Context) => void) => ctx.plugin({ name: 'my-gate', inject: ['tools'], apply })
    const cases: [(own: Context) => void, string][] = [
      [
        own =>
          void own.on('tools/pre-execute', () => {
            throw new Error('boom')
          }),
        'a check by my-gate failed: boom',
      ],
      [
        own => void own.on('tools/pre-execute', (async () => {}) as never),
        'a check by my-gate failed: it answered tools/pre-execute with no decision; it must return one, or next()',
      ],
      [
        own => void own.tools.guard((async () => undefined) as never),
        'a check failed: a guard must answer at once with a reason or undefined',
      ],
    ]
    for (const [apply, problem] of cases) {
      const fiber = await broken(apply)
      const result = await ctx.tools.execute(call('work'))
      expect(textOf(result)).toBe(`Error: the call was not run because ${problem}`)
      expect(result.error?.code).toBe('TOOL_POLICY_FAILED')
      await fiber.dispose()
    }
    expect(ran).not.toHaveBeenCalled()
    expect(post).not.toHaveBeenCalled()
    expect(records).toHaveLength(3)
  })

  test("listeners of an agent's scope judge its calls and its children's, nobody else's", async () => {
    const { ctx, agent } = await setup()
    const child = (await fakeAgent(ctx, agent)).agent
    const other = (await fakeAgent(ctx)).agent
    agent.ctx.on('tools/pre-execute', async () => ({ kind: 'deny', reason: 'scoped' }))
    const outcome = async (of?: Agent) => textOf(await ctx.tools.execute(call('work'), of ? { agent: of } : {}))
    expect(await outcome(agent)).toBe('Error: scoped')
    expect(await outcome(child)).toBe('Error: scoped')
    expect(await outcome(other)).toBe('ran')
    expect(await outcome()).toBe('ran')
  })

  test('a name nobody offers is shown to policy, answered with the nearest name, and post-executed', async () => {
    const { ctx } = await setup()
    const pre = vi.fn((_exec, next) => next())
    const post = vi.fn((_exec, _result, next) => next())
    ctx.on('tools/pre-execute', pre)
    ctx.on('tools/post-execute', post)
    const result = await ctx.tools.execute(call('wrok', 'not json'))
    expect(textOf(result)).toBe('Error: there is no tool "wrok". Did you mean "work"?')
    expect(result.error?.code).toBe('UNKNOWN_TOOL')
    expect(pre.mock.calls[0]?.[0]).toMatchObject({ name: 'wrok', tool: undefined, arguments: 'not json' })
    expect(post).toHaveBeenCalledTimes(1)
  })

  test('invalid arguments are never shown to policy, and are post-executed', async () => {
    const { ctx } = await boot()
    const pre = vi.fn((_exec, next) => next())
    const post = vi.fn((_exec, _result, next) => next())
    ctx.on('tools/pre-execute', pre)
    ctx.on('tools/post-execute', post)
    ctx.tools.register(raw('work', { parameters: { type: 'object', required: ['a'] } }))
    expect(textOf(await ctx.tools.execute(call('work')))).toBe('Error: invalid arguments: "a" is required')
    expect(pre).not.toHaveBeenCalled()
    expect(post).toHaveBeenCalledTimes(1)
  })

  test('only the signal of a call can be replaced', async () => {
    const { ctx, ran } = await setup()
    ctx.on('tools/pre-execute', (exec, next) => {
      expect(Object.isFrozen(exec.arguments)).toBe(true)
      expect(() => Object.assign(exec, { arguments: {} })).toThrow(TypeError)
      expect(() => Object.assign(exec, { tool: undefined })).toThrow(TypeError)
      return next()
    })
    expect(textOf(await ctx.tools.execute(call('work', { a: [1] })))).toBe('ran')
    expect(ran).toHaveBeenCalledTimes(1)
  })
})

describe('running', () => {
  test('a throw is an error in plain words, with its code and without its stack', async () => {
    const { ctx } = await boot()
    const { HarnessError } = await import('@cambium/core')
    const cases: [unknown, string, string][] = [
      [new Error('disk on fire'), 'disk on fire', 'TOOL_FAILED'],
      [Object.assign(new Error('no such file: x'), { code: 'ENOENT' }), 'no such file: x', 'ENOENT'],
      [
        new HarnessError('FS_OUTSIDE', 'x lies outside', { where: '/tmp/x', fix: 'stay inside' }),
        'x lies outside (/tmp/x)\nstay inside',
        'FS_OUTSIDE',
      ],
      [new Error('worker died\n    at run (/app/x.js:1:2)\n    at <anonymous>'), 'worker died', 'TOOL_FAILED'],
      ['just a string', 'just a string', 'TOOL_FAILED'],
      [undefined, 'undefined', 'TOOL_FAILED'],
    ]
    for (const [index, [thrown, text, code]] of cases.entries()) {
      const execute = () => {
        throw thrown
      }
      ctx.tools.register(raw(`t${index}`, { execute }))
      const result = await ctx.tools.execute(call(`t${index}`))
      expect([textOf(result), result.error]).toEqual([`Error: ${text}`, { code, message: text }])
    }
  })

  test("the body's signal aborts with the caller's and with a wrapper's own", async () => {
    for (const who of ['caller', 'wrapper'] as const) {
      const { ctx } = await boot()
      const wrapper = new AbortController()
      const caller = new AbortController()
      ctx.on('tools/execute', async (exec, next) => {
        exec.signal = wrapper.signal
        return next()
      })
      const started = latch()
      ctx.tools.register(
        raw('wait', {
          execute: (_args, exec) =>
            new Promise((_resolve, reject) => {
              exec.signal.addEventListener('abort', () => reject(exec.signal.reason))
              started.open()
            }),
        }),
      )
      const result = ctx.tools.execute(call('wait'), { signal: caller.signal })
      await started.promise
      ;(who === 'caller' ? caller : wrapper).abort(new Error('too slow'))
      expect((await result).error).toEqual(
        who === 'caller'
          ? { code: 'ABORTED', message: 'the call was cancelled while it ran; it may have had effects' }
          : { code: 'TOOL_FAILED', message: 'too slow' },
      )
    }
  })

  test('a body that a wrapper gave up on is still awaited, and its wrapper cannot start another', async () => {
    const { ctx, results } = await setup()
    const started = latch()
    const go = latch()
    const timedOut = latch()
    let runs = 0
    ctx.tools.register(
      raw('slow', {
        async execute() {
          runs++
          started.open()
          await go.promise
          return 'late'
        },
      }),
    )
    const left = latch<string>()
    ctx.on('tools/execute', async (_exec, next) => {
      void next()
      await started.promise
      timedOut.open()
      return failedResult('TOOL_TIMEOUT', 'no end within 5 ms')
    })
    ctx.on('tools/execute', async (_exec, next) => {
      await next()
      const second = await next()
      left.open(textOf(second))
      return second
    })
    const outcome = ctx.tools.execute(call('slow'))
    await timedOut.promise
    await new Promise(setImmediate)
    expect(results).not.toHaveBeenCalled()
    go.open()
    expect((await outcome).error).toEqual({ code: 'TOOL_TIMEOUT', message: 'no end within 5 ms' })
    expect(await left.promise).toMatch(/cancelled before it started/)
    expect(runs).toBe(1)
  })

  test('a wrapper may run the body again, and contexts of the attempt that counts are kept', async () => {
    const { ctx } = await boot()
    let attempts = 0
    ctx.tools.register(
      raw('flaky', {
        execute(_args, exec) {
          exec.deferContext(note(`attempt ${++attempts}`))
          if (attempts < 3) throw new Error('not yet')
          return 'done'
        },
      }),
    )
    ctx.on('tools/execute', async (_exec, next) => {
      for (;;) {
        const result = await next()
        if (!result.isError) return result
      }
    })
    const result = await ctx.tools.execute(call('flaky'))
    expect(textOf(result)).toBe('done')
    expect(result.contexts.map(textOfMessage)).toEqual(['attempt 3'])
  })

  test("a success that a wrapper makes up is held to the tool's output schema", async () => {
    const { ctx } = await boot()
    ctx.tools.register(raw('n', { output: { type: 'integer' }, execute: () => 1 }))
    let value: unknown = 2
    ctx.on('tools/execute', async (_exec, next) => ({ ...(await next()), value: value as never }))
    expect(await ctx.tools.execute(call('n'))).toMatchObject({ isError: false, value: 2 })
    value = 'two'
    expect((await ctx.tools.execute(call('n'))).error?.code).toBe('INVALID_TOOL_OUTPUT')
  })

  test('a wrapper that forgets its result is an error, not a hang', async () => {
    const { ctx } = await setup()
    ctx.on('tools/execute', (async (_exec: ToolExecution, next: () => unknown) => void (await next())) as never)
    expect(textOf(await ctx.tools.execute(call('work')))).toMatch(/tools\/execute answered with no result/)
  })

  test('a nested call names its parent and belongs to the same agent', async () => {
    const { ctx, agent } = await setup()
    ctx.tools.register(
      raw('outer', { execute: async (_args, exec) => textOf(await ctx.tools.execute(call('work'), { parent: exec })) }),
    )
    const seen: unknown[] = []
    ctx.on('tools/pre-execute', (exec, next) => {
      seen.push([exec.name, exec.parent?.name, exec.agent === agent])
      return next()
    })
    expect(textOf(await ctx.tools.execute(call('outer'), { agent }))).toBe('ran')
    expect(seen).toEqual([
      ['outer', undefined, true],
      ['work', 'outer', true],
    ])
  })
})

describe('the log before an effect', () => {
  test('is flushed before a tool that may change something, and not before one that cannot', async () => {
    const { ctx, agent } = await setup()
    const order: string[] = []
    ctx.on('session/flush', () => void order.push('flush'))
    ctx.tools.register(raw('look', { readOnly: true, execute: () => void order.push('look') }))
    ctx.tools.register(raw('todo', { sessionLocal: true, execute: () => void order.push('todo') }))
    ctx.tools.register(raw('edit', { execute: () => void order.push('edit') }))
    for (const name of ['look', 'todo', 'edit']) await ctx.tools.execute(call(name), { agent })
    expect(order).toEqual(['look', 'todo', 'flush', 'edit'])
  })

  test('that cannot be written keeps the tool from running', async () => {
    const { ctx, agent, ran } = await setup()
    ctx.on('session/flush', async () => {
      throw new Error('no space left')
    })
    const result = await ctx.tools.execute(call('work'), { agent })
    expect(textOf(result)).toBe(
      "Error: the call was not run because the session's log could not be written: no space left",
    )
    expect(result.error?.code).toBe('SESSION_NOT_STORED')
    expect(ran).not.toHaveBeenCalled()
  })
})

describe('cancelling', () => {
  test('before the start: nothing is judged or run', async () => {
    const { ctx, ran, results } = await setup()
    const pre = vi.fn((_exec, next) => next())
    ctx.on('tools/pre-execute', pre)
    const result = await ctx.tools.execute(call('work'), { signal: AbortSignal.abort() })
    expect(result.error?.code).toBe('ABORTED_BEFORE_DISPATCH')
    expect(pre).not.toHaveBeenCalled()
    expect(ran).not.toHaveBeenCalled()
    expect(results).toHaveBeenCalledTimes(1)
  })

  test('while a listener or a person thinks: does not wait for them, and their late answer changes nothing', async () => {
    const { ctx, ran } = await setup()
    const thinking = latch()
    const answer = latch()
    ctx.on('tools/pre-execute', async () => {
      thinking.open()
      await answer.promise
      return { kind: 'allow', arguments: { late: true } }
    })
    const caller = new AbortController()
    let exec: ToolExecution | undefined
    ctx.on('tools/result', one => {
      exec = one
    })
    const outcome = ctx.tools.execute(call('work', { a: 1 }), { signal: caller.signal })
    await thinking.promise
    caller.abort()
    expect((await outcome).error?.code).toBe('ABORTED_BEFORE_DISPATCH')
    answer.open()
    await new Promise(setImmediate)
    expect(exec?.arguments).toEqual({ a: 1 })
    expect(ran).not.toHaveBeenCalled()
  })

  describe('does not wait for ever', () => {
    beforeEach(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] }))
    afterEach(() => void vi.useRealTimers())
    const never = () => new Promise<never>(() => {})

    test.each([
      ['before the body', never, 'ABORTED_BEFORE_DISPATCH'],
      ['behind the body', (_exec: ToolExecution, next: () => Promise<ToolResult>) => next().then(never), 'ABORTED'],
    ])('for a wrapper that hangs %s', async (_where, wrapper, code) => {
      const { ctx, records } = await setup()
      ctx.on('tools/execute', wrapper)
      const caller = new AbortController()
      const outcome = ctx.tools.execute(call('work'), { signal: caller.signal })
      await vi.advanceTimersByTimeAsync(1)
      caller.abort()
      await vi.advanceTimersByTimeAsync(2_000)
      expect((await outcome).error?.code).toBe(code)
      expect(records.at(-1)?.text).toContain('a wrapper of tool "work" did not end')
      expect(vi.getTimerCount()).toBe(0)
    })

    test.each([
      ['the caller cancels', false],
      ['a wrapper gives it up', true],
    ])('for a body that does not end when %s', async (_what, wrapped) => {
      const { ctx, records } = await setup()
      ctx.tools.register(raw('hang', { execute: never }))
      const caller = new AbortController()
      const own = new AbortController()
      if (wrapped) {
        ctx.on('tools/execute', (exec, next) => {
          exec.signal = own.signal
          return next()
        })
      }
      const outcome = ctx.tools.execute(call('hang'), { signal: caller.signal })
      await vi.advanceTimersByTimeAsync(1)
      ;(wrapped ? own : caller).abort()
      await vi.advanceTimersByTimeAsync(30_000)
      expect(textOf(await outcome)).toBe('Error: the call was cancelled but has not ended; it may still be running')
      expect(records.at(-1)?.text).toContain('tool "hang" did not end within 30000 ms of being cancelled')
      expect(vi.getTimerCount()).toBe(0)
    })

    test('for a check of the result that hangs, whose result is withheld', async () => {
      const { ctx } = await setup()
      ctx.on('tools/post-execute', never)
      const caller = new AbortController()
      const outcome = ctx.tools.execute(call('work'), { signal: caller.signal })
      await vi.advanceTimersByTimeAsync(1)
      caller.abort()
      await vi.advanceTimersByTimeAsync(2_000)
      expect((await outcome).error?.code).toBe('TOOL_POLICY_FAILED')
      expect(vi.getTimerCount()).toBe(0)
    })

    test('but for a body, however slow it is to stop, and its own error stands', async () => {
      const { ctx } = await boot()
      const execute = (_args: unknown, exec: { signal: AbortSignal }) =>
        new Promise<string>((_resolve, reject) => {
          const slow = () => setTimeout(() => reject(Object.assign(new Error('half done'), { code: 'HALF' })), 10_000)
          exec.signal.addEventListener('abort', slow)
        })
      ctx.tools.register(raw('work', { execute: execute as never }))
      ctx.on('tools/execute', (_exec, next) => next())
      const caller = new AbortController()
      const outcome = ctx.tools.execute(call('work'), { signal: caller.signal })
      await vi.advanceTimersByTimeAsync(1)
      caller.abort()
      await vi.advanceTimersByTimeAsync(10_000)
      expect((await outcome).error?.code).toBe('HALF')
    })
  })

  test('while the log is being stored: the tool does not start any more', async () => {
    const { ctx, agent, ran } = await setup()
    const caller = new AbortController()
    ctx.on('session/flush', async () => caller.abort())
    const wrapped = vi.fn((_exec, next) => next())
    ctx.on('tools/execute', wrapped)
    const result = await ctx.tools.execute(call('work'), { agent, signal: caller.signal })
    expect(result.error?.code).toBe('ABORTED_BEFORE_DISPATCH')
    expect(wrapped).not.toHaveBeenCalled()
    expect(ran).not.toHaveBeenCalled()
  })

  test('while a wrapper waits between attempts: is no failure of the wrapper', async () => {
    const { ctx } = await boot()
    const caller = new AbortController()
    ctx.tools.register(raw('work', { execute: () => 'ran' }))
    let attempts = 0
    ctx.on('tools/execute', async (exec, next) => {
      for (; attempts < 1; attempts++) await next()
      caller.abort()
      exec.signal.throwIfAborted()
      return next()
    })
    const result = await ctx.tools.execute(call('work'), { signal: caller.signal })
    expect(result.error?.code).toBe('ABORTED')
    expect((await ctx.tools.execute(call('work'), { signal: caller.signal })).error?.code).toBe(
      'ABORTED_BEFORE_DISPATCH',
    )
  })

  test("during the run: a success is replaced, a tool's own error is kept", async () => {
    const { ctx } = await boot()
    for (const [fails, code] of [
      [false, 'ABORTED'],
      [true, 'EPIPE'],
    ] as const) {
      const caller = new AbortController()
      const undo = ctx.tools.register(
        raw('work', {
          execute() {
            caller.abort()
            if (fails) throw Object.assign(new Error('broken pipe'), { code: 'EPIPE' })
            return 'done'
          },
        }),
      )
      const result = await ctx.tools.execute(call('work'), { signal: caller.signal })
      expect(result.error?.code).toBe(code)
      undo()
    }
  })
})

const textOfMessage = (message: { content: readonly { type: string }[] }) =>
  message.content.map(block => ('text' in block ? block.text : '')).join('')

describe('after the run', () => {
  test('content, value and presentation data can be replaced; a new value is rendered and checked', async () => {
    const { ctx } = await boot()
    ctx.tools.register(raw('n', { output: { type: 'integer' }, execute: () => 1 }))
    let answer: object = {}
    ctx.on('tools/post-execute', async () => ({ kind: 'accept', ...answer }) as never)
    expect(await ctx.tools.execute(call('n'))).toMatchObject({ value: 1 })
    answer = { content: [{ type: 'text', text: 'short' }], meta: { cut: true } }
    expect(await ctx.tools.execute(call('n'))).toMatchObject({
      value: 1,
      content: [{ text: 'short' }],
      meta: { cut: true },
    })
    answer = { value: 7 }
    expect(await ctx.tools.execute(call('n'))).toMatchObject({ value: 7, content: [{ text: '7' }] })
    answer = { value: 'seven' }
    expect((await ctx.tools.execute(call('n'))).error?.code).toBe('INVALID_TOOL_OUTPUT')
  })

  test('blocking shows the feedback alone: value, presentation data, contexts and conclusion of the call are gone', async () => {
    const { ctx } = await boot()
    const { toolResult } = await import('../src/index.ts')
    ctx.tools.register(
      raw('work', {
        execute(_args, exec) {
          exec.deferContext(note('from the tool'))
          exec.concludeTurn()
          return toolResult({ value: 'secret', meta: { secret: 1 } })
        },
      }),
    )
    const plain = await ctx.tools.execute(call('work'))
    expect(plain).toMatchObject({ value: 'secret', concludesTurn: true })
    expect(plain.contexts.map(textOfMessage)).toEqual(['from the tool'])
    ctx.on('tools/post-execute', async () => ({
      kind: 'block',
      feedback: 'try again',
      contexts: [note('from policy')],
    }))
    const blocked = await ctx.tools.execute(call('work'))
    expect(blocked).toMatchObject({
      isError: true,
      content: [{ type: 'text', text: 'try again' }],
      error: { code: 'TOOL_BLOCKED', message: 'try again' },
      concludesTurn: false,
    })
    expect(blocked.contexts.map(textOfMessage)).toEqual(['from policy'])
    expect(blocked).not.toHaveProperty('value')
    expect(blocked).not.toHaveProperty('meta')
  })

  test('contexts of the call come before those of policy', async () => {
    const { ctx } = await boot()
    ctx.tools.register(raw('work', { execute: (_args, exec) => exec.deferContext(note('tool')) }))
    ctx.on('tools/post-execute', async () => ({ kind: 'accept', contexts: [note('policy')] }))
    const result = await ctx.tools.execute(call('work'))
    expect(result.contexts.map(textOfMessage)).toEqual(['tool', 'policy'])
  })

  test('a failed call does not conclude the turn', async () => {
    const { ctx } = await boot()
    ctx.tools.register(
      raw('work', {
        execute(_args, exec) {
          exec.concludeTurn()
          throw new Error('no')
        },
      }),
    )
    expect((await ctx.tools.execute(call('work'))).concludesTurn).toBe(false)
  })

  test('a check that fails withholds the result', async () => {
    const { ctx, records } = await setup()
    let answer: () => unknown = () => {
      throw new Error('scanner down')
    }
    ctx.on('tools/post-execute', (async () => answer()) as never)
    expect(textOf(await ctx.tools.execute(call('work')))).toBe(
      'Error: the call ended, but its result is withheld: a check failed: scanner down',
    )
    answer = () => undefined
    expect(textOf(await ctx.tools.execute(call('work')))).toMatch(/tools\/post-execute answered with no decision/)
    expect(records).toHaveLength(2)
  })

  test('observers get the frozen result, and a throwing one harms nobody', async () => {
    const { ctx, results, records } = await setup()
    ctx.on(
      'tools/result',
      () => {
        throw new Error('observer')
      },
      { prepend: true },
    )
    const result = await ctx.tools.execute(call('work'))
    expect(results).toHaveBeenCalledWith(expect.objectContaining({ name: 'work' }), result)
    expect(Object.isFrozen(result) && Object.isFrozen(result.content[0])).toBe(true)
    expect(records.map(record => record.text).join()).toMatch(/listener of tools\/result failed.*observer/)
  })

  test('what a tool calls after its call has ended is reported and changes nothing', async () => {
    const { ctx, records } = await boot()
    let late: (() => void) | undefined
    ctx.tools.register(
      raw('work', {
        execute(_args, exec) {
          late = () => {
            exec.concludeTurn()
            exec.deferContext(note('late'))
            exec.progress('late')
          }
        },
      }),
    )
    const result = await ctx.tools.execute(call('work'))
    late?.()
    expect(result).toMatchObject({ concludesTurn: false, contexts: [] })
    expect(records.map(record => record.text)).toEqual([
      'tool "work" called concludeTurn after its call had ended',
      'tool "work" called deferContext after its call had ended',
    ])
  })
})
