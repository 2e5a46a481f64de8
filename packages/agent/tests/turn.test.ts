import { call, fail, say } from '@cambium/testkit'
import { defineTool } from '@cambium/tools'
import { afterEach, describe, expect, it } from 'vitest'
import { aside, ask, bootSpine, next, reasons, type Spine, transcript, types, user } from './boot.ts'

let spine: Spine
afterEach(() => spine?.dispose())

const echo = defineTool({
  name: 'echo',
  description: 'Says it again',
  parameters: { text: { type: 'string', required: true } },
  execute: ({ text }) => text,
})

describe('a turn', () => {
  it('logs its parts in the documented order and asks the model once', async () => {
    spine = await bootSpine([say('hello')])
    const agent = await spine.agent()
    const receipt = agent.followup(user('hi'))
    await agent.whenIdle()
    expect(types(agent.session)).toEqual([
      'inbox/changed',
      'turn/start',
      'step/start',
      'user/message',
      'request/header',
      'assistant/message',
      'step/end',
      'turn/end',
    ])
    expect(agent.session.last('user/message')?.data.message.id).toBe(receipt)
    expect(spine.model.requests).toHaveLength(1)
    expect(reasons(agent.session)).toEqual([{ kind: 'completed' }])
  })

  it('takes another step for as long as tools were called, and shows the model their results', async () => {
    spine = await bootSpine([call('echo', { text: 'one' }), call('echo', { text: 'two' }), say('done')])
    spine.ctx.tools.register(echo)
    const agent = await spine.agent()
    await ask(agent, 'go')
    expect(transcript(spine.model.requests[2]!.messages)).toEqual([
      'user: go',
      'assistant: call echo {"text":"one"}',
      'user: result one',
      'assistant: call echo {"text":"two"}',
      'user: result two',
    ])
    expect(agent.session.last('turn/start')?.data.turn).toBe(1)
    expect(types(agent.session).filter(type => type === 'step/start')).toHaveLength(3)
  })

  it('is numbered for the whole session, its steps anew each time', async () => {
    spine = await bootSpine([say('a'), say('b')])
    const agent = await spine.agent()
    await ask(agent, '1')
    await ask(agent, '2')
    expect(agent.session.last('step/start')?.data).toEqual({ turn: 2, step: 1 })
  })

  it('logs what requests are made with once, and again when a tool comes', async () => {
    spine = await bootSpine([say('a'), say('b'), say('c')])
    const agent = await spine.agent()
    await ask(agent, '1')
    await ask(agent, '2')
    expect(types(agent.session).filter(type => type === 'request/header')).toHaveLength(1)
    spine.ctx.tools.register(echo)
    await ask(agent, '3')
    expect(agent.session.last('request/header')?.data.tools?.map(tool => tool.name)).toEqual(['echo'])
    expect(types(agent.session).filter(type => type === 'request/header')).toHaveLength(2)
  })

  it('logs an empty answer for its usage, and never shows it to the model', async () => {
    const usage = { inputTokens: 7 }
    spine = await bootSpine([{ calls: [{ name: 'echo', args: '{"te' }], finish: 'max-tokens', usage }, say('b')])
    const agent = await spine.agent()
    let logged: unknown
    spine.ctx.on('session/event', (_session, event) => {
      if (event.type === 'assistant/message') logged ??= event.data
    })
    await ask(agent, '1')
    expect(logged).toMatchObject({ usage, message: { content: [] } })
    expect(transcript(spine.model.requests[1]!.messages)).toEqual([
      'user: 1',
      expect.stringMatching(/^user: .*cut|limit/),
    ])
  })

  it('goes on when somebody steers while it is stopping', async () => {
    spine = await bootSpine([say('done?'), say('now it is')])
    const agent = await spine.agent()
    let once = true
    spine.ctx.on('agent/turn-stopping', ({ agent }) => {
      if (once) agent.steer(aside('not yet'))
      once = false
    })
    await ask(agent, 'go')
    expect(types(agent.session).filter(type => type === 'turn/end')).toHaveLength(1)
    expect(transcript(spine.model.requests[1]!.messages)).toEqual(['user: go', 'assistant: done?', 'user: not yet'])
  })

  it('ends after the step in which a tool concluded it, unless somebody has steered', async () => {
    spine = await bootSpine([call('finish'), call('finish'), say('after steering')])
    let steer = false
    spine.ctx.tools.register(
      defineTool({
        name: 'finish',
        description: 'Ends it',
        parameters: {},
        execute(_args, exec) {
          exec.concludeTurn()
          if (steer) exec.agent?.steer(aside('one more thing'))
          return 'ok'
        },
      }),
    )
    const agent = await spine.agent()
    await ask(agent, '1')
    expect(spine.model.requests).toHaveLength(1)
    steer = true
    await ask(agent, '2')
    expect(spine.model.requests).toHaveLength(3)
  })
})

describe('input', () => {
  it('is admitted in order of arrival, what was injected before the prompt first', async () => {
    spine = await bootSpine([say('ok')])
    const agent = await spine.agent()
    agent.inject(aside('context'))
    await agent.whenIdle()
    expect(spine.model.requests).toHaveLength(0)
    agent.followup(user('prompt'))
    agent.steer(user('and this'))
    await agent.whenIdle()
    expect(transcript(spine.model.requests[0]!.messages)).toEqual(['user: context', 'user: prompt', 'user: and this'])
  })

  it('that is queued gets a turn each, that is steered joins the next step', async () => {
    spine = await bootSpine([call('echo', { text: 'x' }), say('one'), say('two')])
    spine.ctx.tools.register(echo)
    const agent = await spine.agent()
    agent.followup(user('first'))
    agent.followup(user('second'))
    await next(spine.ctx, 'session/event', 'tool/call')
    agent.steer(user('quick'))
    await agent.whenIdle()
    expect(transcript(spine.model.requests[1]!.messages).at(-1)).toBe('user: quick')
    expect(agent.session.last('turn/end')?.data.turn).toBe(2)
    expect(agent.pending()).toEqual([])
  })

  it('behind a turn that failed still gets its turn', async () => {
    spine = await bootSpine([fail('SERVER', 'down'), say('fine')])
    const agent = await spine.agent()
    agent.followup(user('A'))
    agent.followup(user('B'))
    await agent.whenIdle()
    expect(reasons(agent.session)).toEqual([
      { kind: 'error', error: { code: 'SERVER', message: 'down' } },
      { kind: 'completed' },
    ])
    expect(transcript(spine.model.requests[1]!.messages)).toEqual(['user: A', 'user: B'])
  })

  it('of a rejected step stays pending, and what is queued behind it runs', async () => {
    spine = await bootSpine([say('to B'), say('to A')])
    const agent = await spine.agent()
    let reject = true
    spine.ctx.on('agent/pre-step', async (input, next) => {
      const text = transcript(input.messages).join()
      return reject && text.includes('A') ? { kind: 'reject', reason: 'no A today' } : next()
    })
    const message = user('A')
    agent.followup(message)
    agent.followup(user('B'))
    await agent.whenIdle()
    expect(reasons(agent.session)).toEqual([{ kind: 'blocked', reason: 'no A today' }, { kind: 'completed' }])
    expect(agent.pending().map(pending => pending.id)).toEqual([message.id])
    reject = false
    agent.followup(message)
    await agent.whenIdle()
    expect(agent.pending()).toEqual([])
    expect(transcript(spine.model.requests[1]!.messages).at(-1)).toBe('user: A')
  })

  it('survives a listener that throws before the step, and runs with the next message', async () => {
    spine = await bootSpine([say('ok'), say('ok')])
    const agent = await spine.agent()
    let broken = true
    spine.ctx.on('agent/pre-step', async (_input, next) => {
      if (broken) throw new Error('broken listener')
      return next()
    })
    await ask(agent, 'A')
    expect(reasons(agent.session)).toEqual([{ kind: 'error', error: { code: 'UNKNOWN', message: 'broken listener' } }])
    broken = false
    await ask(agent, 'B')
    expect(spine.model.requests.map(request => transcript(request.messages).at(-1))).toEqual(['user: A', 'user: B'])
  })

  it('is told to the log when it arrives, and its receipt is the id it keeps', async () => {
    spine = await bootSpine()
    const agent = await spine.agent()
    const id = agent.inject(aside('later'))
    expect(agent.session.last('inbox/changed')?.data.inserted?.[0]).toMatchObject({
      target: 'next-step',
      message: { id },
    })
  })
})

describe('a failing request', () => {
  it('is retried inside its step when a listener says so, and only the answer is committed', async () => {
    spine = await bootSpine([
      { text: 'half an ans', finish: 'error', failure: { code: 'STREAM_CLOSED', message: 'gone' } },
      say('whole'),
    ])
    const agent = await spine.agent()
    const seen: unknown[] = []
    spine.ctx.on('agent/request-error', async ({ attempt, visible, failure }) => {
      seen.push([attempt, visible, failure.code])
      return { kind: 'retry' }
    })
    await ask(agent, 'go')
    expect(seen).toEqual([[1, true, 'STREAM_CLOSED']])
    expect(types(agent.session).filter(type => type === 'step/start')).toHaveLength(1)
    expect(agent.session.deriveMessages().map(message => transcript([message])[0])).toEqual([
      'user: go',
      'assistant: whole',
    ])
    expect(agent.session.last('request/failed')?.data).toMatchObject({ attempt: 1, failure: { code: 'STREAM_CLOSED' } })
  })

  it("ends the turn with the provider's reason when nobody repairs it, and commits nothing", async () => {
    spine = await bootSpine([
      { text: 'half', finish: 'error', failure: { code: 'AUTH', message: 'wrong key', fix: 'set another' } },
    ])
    const agent = await spine.agent()
    const errors: unknown[] = []
    spine.ctx.on('agent/error', ({ turn }) => errors.push(turn))
    await ask(agent, 'go')
    expect(reasons(agent.session)).toEqual([
      { kind: 'error', error: { code: 'AUTH', message: 'wrong key', fix: 'set another' } },
    ])
    expect(types(agent.session)).not.toContain('assistant/message')
    expect(errors).toEqual([1])
  })
})

describe('an answer that was cut off', () => {
  const cut = { calls: [{ name: 'echo', args: '{"text":"whole by chance"}' }], finish: 'max-tokens' } as const

  it('in the middle of calls never runs them: the model is told and may split the work', async () => {
    spine = await bootSpine([cut, call('echo', { text: 'small' }), say('done')])
    const ran: string[] = []
    spine.ctx.tools.register(
      defineTool({
        name: 'echo',
        description: 'Says it again',
        parameters: { text: { type: 'string', required: true } },
        execute: ({ text }) => `said ${ran.push(text)}`,
      }),
    )
    const agent = await spine.agent()
    await ask(agent, 'go')
    expect(ran).toEqual(['small'])
    expect(transcript(spine.model.requests[1]!.messages).at(-1)).toMatch(/output limit .* Split the work/)
    expect(reasons(agent.session)).toEqual([{ kind: 'completed' }])
  })

  it('three times in a row ends the turn', async () => {
    spine = await bootSpine([cut, cut, cut])
    spine.ctx.tools.register(echo)
    const agent = await spine.agent()
    await ask(agent, 'go')
    expect(reasons(agent.session)).toEqual([{ kind: 'max-tokens' }])
  })

  it('by a filter never runs its calls, and the turn ends by that', async () => {
    spine = await bootSpine([{ text: 'I cannot', calls: cut.calls, finish: 'refusal' }])
    spine.ctx.tools.register(echo)
    const agent = await spine.agent()
    await ask(agent, 'go')
    expect(types(agent.session)).not.toContain('tool/call')
    expect(agent.session.last('assistant/message')?.data).toMatchObject({
      message: { content: [{ type: 'text', text: 'I cannot' }] },
      finish: 'refusal',
    })
    expect(reasons(agent.session)).toMatchObject([{ kind: 'error', error: { code: 'REFUSED' } }])
  })

  it('in its text ends the turn so, even when somebody steers on', async () => {
    spine = await bootSpine([{ text: 'half a sent', finish: 'max-tokens' }, say('rest')])
    const agent = await spine.agent()
    let once = true
    spine.ctx.on('agent/turn-stopping', ({ agent }) => {
      if (once) agent.steer(aside('go on'))
      once = false
    })
    await ask(agent, 'go')
    expect(reasons(agent.session)).toEqual([{ kind: 'max-tokens' }])
    expect(spine.model.requests).toHaveLength(2)
  })
})
