/** What listeners of the loop may do to it, and what they cannot. */

import { call, fail, say } from '@cambium/testkit'
import { defineTool } from '@cambium/tools'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { aside, ask, bootSpine, reasons, type Spine, transcript, types, user } from './boot.ts'

let spine: Spine
afterEach(() => spine?.dispose())

const never = () => new Promise<never>(() => {})

describe('a listener that forgets its answer', () => {
  const events = {
    'agent/pre-step': 'a decision',
    'system-prompt/assemble': 'sections and tools',
    'agent/request': 'a provider and a model',
    'agent/request-error': 'a decision',
  } as const

  const silent = { 'in time': (async () => {}) as never, 'at once': (() => {}) as never }
  const cases = Object.entries(events).flatMap(([event, what]) =>
    Object.entries(silent).map(([when, listener]) => [event, when, what, listener] as const),
  )

  it.each(cases)(
    'of %s, %s, ends the turn once, by its name, and the message is not lost',
    async (event, _when, what, listener) => {
      spine = await bootSpine([event === 'agent/request-error' ? fail('SERVER') : say('ok'), say('to B')])
      const agent = await spine.agent()
      const off = spine.ctx.on(event as 'agent/pre-step', listener)
      await ask(agent, 'A')
      expect(reasons(agent.session)).toEqual([
        {
          kind: 'error',
          error: {
            code: 'AGENT_NO_ANSWER',
            message: `a listener of ${event} answered without ${what}`,
            fix: expect.stringContaining('return next()'),
          },
        },
      ])
      off()
      await ask(agent, 'B')
      const read = transcript(spine.model.requests.at(-1)!.messages)
      expect(read.filter(line => line.startsWith('user'))).toEqual(['user: A', 'user: B'])
    },
  )
})

it('a listener that need not wait may answer at once', async () => {
  spine = await bootSpine([say('ok')])
  const agent = await spine.agent()
  spine.ctx.on('agent/pre-step', (({ messages }: { messages: unknown }) => ({ kind: 'enter', messages })) as never)
  spine.ctx.on('agent/request', (({ config }: { config: unknown }) => config) as never)
  await ask(agent, 'A')
  expect(reasons(agent.session)).toEqual([{ kind: 'completed' }])
})

describe('a listener that does not end', () => {
  beforeEach(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] }))
  afterEach(() => void vi.useRealTimers())

  it.each([
    'agent/session-start',
    'agent/pre-step',
    'system-prompt/assemble',
    'agent/request',
    'agent/request-error',
    'agent/turn-stopping',
  ] as const)('of %s cannot keep a cancelled turn running', async event => {
    spine = await bootSpine([event === 'agent/request-error' ? fail('SERVER') : say('ok')])
    const agent = await spine.agent()
    const reached = new Promise<void>(resolve => {
      spine.ctx.on(event as 'agent/pre-step', () => {
        resolve()
        return never()
      })
    })
    agent.followup(user('go'))
    await reached
    agent.cancel({ by: 'user' })
    await vi.advanceTimersByTimeAsync(10_000)
    await agent.whenIdle()
    expect(reasons(agent.session)).toEqual([{ kind: 'aborted', by: 'user' }])
    expect(spine.logs()).toContain(`a listener of ${event} did not end`)
  })

  it('of session-start is told once and does not hold up the next turn', async () => {
    spine = await bootSpine([say('ok')])
    const agent = await spine.agent()
    let told = 0
    const reached = new Promise<void>(resolve => {
      spine.ctx.on('agent/session-start', () => {
        told++
        resolve()
        return never()
      })
    })
    agent.followup(user('go'))
    await reached
    agent.cancel({ by: 'user' })
    await vi.advanceTimersByTimeAsync(10_000)
    await ask(agent, 'again')
    expect(reasons(agent.session)).toEqual([{ kind: 'aborted', by: 'user' }, { kind: 'completed' }])
    expect(told).toBe(1)
  })

  it('but ends soon is waited for, since it may be at work in the session', async () => {
    spine = await bootSpine()
    const agent = await spine.agent()
    let finish = () => {}
    const reached = new Promise<void>(resolve => {
      spine.ctx.on('agent/pre-step', async (_input, next) => {
        await new Promise<void>(ready => {
          finish = ready
          resolve()
        })
        return next()
      })
    })
    agent.followup(user('go'))
    await reached
    agent.cancel({ by: 'user' })
    await vi.advanceTimersByTimeAsync(1_000)
    expect(agent.status).toBe('running')
    finish()
    await agent.whenIdle()
    expect(spine.logs()).not.toContain('did not end')
    expect(vi.getTimerCount()).toBe(0)
  })
})

describe('a listener before the step', () => {
  it('may leave messages out, which are withdrawn on the record, and add its own', async () => {
    spine = await bootSpine([say('ok'), say('ok')])
    const agent = await spine.agent()
    spine.ctx.on('agent/pre-step', async ({ messages }, next) => {
      const decision = await next()
      if (decision.kind !== 'enter') return decision
      const kept = messages.filter(message => !transcript([message])[0]!.includes('secret'))
      return { kind: 'enter', messages: [aside('context'), ...kept] }
    })
    const secret = agent.inject(aside('secret'))
    await ask(agent, 'go')
    expect(transcript(spine.model.requests[0]!.messages)).toEqual(['user: context', 'user: go'])
    expect(agent.pending()).toEqual([])
    const { pendingInbox } = await import('@cambium/session')
    expect(pendingInbox(agent.session.events())).toEqual([])
    expect(agent.session.last('inbox/changed')?.data.withdrawn).toEqual([secret])
  })

  it.each([
    ['nothing', null],
    ['a message without an id', { role: 'user', content: [], source: { kind: 'user' } }],
    ['a block without its text', { ...user('x'), content: [{ type: 'text' }] }],
  ])('that puts %s in the place of a message loses none', async (_what, broken) => {
    spine = await bootSpine([say('to A'), say('to B')])
    const agent = await spine.agent()
    const off = spine.ctx.on('agent/pre-step', async () => ({ kind: 'enter', messages: [broken as never] }))
    await ask(agent, 'A')
    expect(reasons(agent.session)).toMatchObject([{ kind: 'error', error: { code: 'AGENT_NO_ANSWER' } }])
    off()
    await ask(agent, 'B')
    const read = transcript(spine.model.requests.at(-1)!.messages)
    expect(read.filter(line => line.startsWith('user'))).toEqual(['user: A', 'user: B'])
  })

  it('that lets nothing in ends the turn, once', async () => {
    spine = await bootSpine([say('never asked')])
    const agent = await spine.agent()
    spine.ctx.on('agent/pre-step', async () => ({ kind: 'enter', messages: [] }))
    await ask(agent, 'go')
    expect(reasons(agent.session)).toEqual([{ kind: 'completed' }])
    expect(types(agent.session)).not.toContain('step/start')
    expect(spine.model.requests).toEqual([])
  })

  it('that cancels every turn but keeps the queue does not go round in circles', async () => {
    spine = await bootSpine([say('ok')])
    const agent = await spine.agent()
    const off = spine.ctx.on('agent/pre-step', ({ agent }, next) => {
      agent.cancel({ by: 'limit', reason: 'no time' }, { keepInbox: true })
      return next()
    })
    await ask(agent, 'A')
    expect(reasons(agent.session)).toEqual([{ kind: 'limit', reason: 'no time' }])
    off()
    await ask(agent, 'B')
    expect(transcript(spine.model.requests[0]!.messages)).toEqual(['user: A'])
  })
})

describe('listeners', () => {
  it('around a request stand in row order, the first outermost; their additions are not frozen into the session', async () => {
    spine = await bootSpine([say('1'), say('2')])
    const order: string[] = []
    for (const name of ['outer', 'inner']) {
      spine.ctx.on('agent/request', async (_input, next) => {
        order.push(name)
        const config = await next()
        return { ...config, maxTokens: (config.maxTokens ?? 0) + 1 }
      })
    }
    const agent = await spine.agent()
    await ask(agent, 'a')
    await ask(agent, 'b')
    expect(order).toEqual(['outer', 'inner', 'outer', 'inner'])
    expect(spine.model.requests.map(request => request.maxTokens)).toEqual([2, 2])
  })

  it('of session-start are awaited one after the other, with what they inject in that order', async () => {
    spine = await bootSpine([say('ok')])
    const agent = await spine.agent()
    spine.ctx.on('agent/session-start', async ({ agent }) => {
      await Promise.resolve()
      agent.inject(aside('first'))
    })
    spine.ctx.on('agent/session-start', ({ agent }) => void agent.inject(aside('second')))
    await ask(agent, 'go')
    expect(transcript(spine.model.requests[0]!.messages)).toEqual(['user: go', 'user: first', 'user: second'])
  })

  it('of session-start that throw are reported, and the turn goes on', async () => {
    spine = await bootSpine([say('ok')])
    const agent = await spine.agent()
    spine.ctx.on('agent/session-start', () => {
      throw new Error('no luck')
    })
    await ask(agent, 'go')
    expect(reasons(agent.session)).toEqual([{ kind: 'completed' }])
    expect(spine.logs()).toContain('no luck')
  })

  it('that observe may throw and may change the agent from within without harm', async () => {
    spine = await bootSpine([call('t'), say('ok'), say('second')])
    spine.ctx.tools.register(defineTool({ name: 't', description: 't', parameters: {}, execute: () => 'ran' }))
    const agent = await spine.agent()
    for (const event of ['agent/status', 'agent/inbox', 'session/event', 'tools/result'] as const) {
      spine.ctx.on(event, () => {
        throw new Error(`broken ${event}`)
      })
    }
    let once = true
    spine.ctx.on('session/event', (_session, event) => {
      if (event.type === 'tool/result' && once) agent.steer(user('from a listener'))
      if (event.type === 'tool/result') once = false
    })
    await ask(agent, 'go')
    expect(reasons(agent.session)).toEqual([{ kind: 'completed' }])
    expect(transcript(spine.model.requests[1]!.messages).at(-1)).toBe('user: from a listener')
    expect(spine.logs()).toContain('broken agent/status')
  })
})
