import { call, say } from '@cambium/testkit'
import { defineTool } from '@cambium/tools'
import { afterEach, describe, expect, it } from 'vitest'
import { ask, bootSpine, next, reasons, type Spine, transcript, types, user } from './boot.ts'

let spine: Spine
afterEach(() => spine?.dispose())

describe('cancelling', () => {
  it('an answer keeps what was visible, without its calls, and the next turn shows it to the model', async () => {
    spine = await bootSpine([{ text: ['Let me ', 'see'], hang: true }, say('ok')])
    const agent = await spine.agent()
    agent.followup(user('go'))
    await next(spine.ctx, 'session/event', 'assistant/chunk')
    await next(spine.ctx, 'session/event', 'assistant/chunk')
    agent.cancel({ by: 'user' })
    await agent.whenIdle()
    expect(agent.session.last('assistant/message')?.data).toMatchObject({ interrupted: true })
    expect(reasons(agent.session)).toEqual([{ kind: 'aborted', by: 'user' }])
    await ask(agent, 'again')
    expect(transcript(spine.model.requests[1]!.messages)[0]).toBe('user: go')
    expect(transcript(spine.model.requests[1]!.messages)[1]).toMatch(/^assistant: Let me/)
  })

  it('running tools waits for them, and every call has its pair in the log', async () => {
    spine = await bootSpine([{ calls: [{ name: 'slow' }, { name: 'slow' }] }])
    spine.ctx.tools.register(
      defineTool({
        name: 'slow',
        description: 'Waits until it is told to stop',
        parameters: {},
        execute: (_args, exec) =>
          new Promise<string>(resolve => exec.signal.addEventListener('abort', () => resolve('stopped'))),
      }),
    )
    const agent = await spine.agent()
    agent.followup(user('go'))
    await next(spine.ctx, 'session/event', 'tool/call')
    agent.cancel({ by: 'user', reason: 'enough' })
    await agent.whenIdle()
    const log = types(agent.session)
    expect(log.filter(type => type === 'tool/call')).toHaveLength(2)
    expect(log.filter(type => type === 'tool/result')).toHaveLength(2)
    expect(log.slice(-2)).toEqual(['step/end', 'turn/end'])
    expect(reasons(agent.session)).toEqual([{ kind: 'aborted', by: 'user', reason: 'enough' }])
    expect(spine.model.requests).toHaveLength(1)
  })

  it('withdraws what is queued, on the record, unless it is told to keep it', async () => {
    spine = await bootSpine([{ hang: true }, { hang: true }, say('kept')])
    const agent = await spine.agent()
    agent.followup(user('one'))
    const queued = agent.followup(user('two'))
    await spine.model.asked(1)
    agent.cancel({ by: 'user' })
    await agent.whenIdle()
    expect(agent.session.last('inbox/changed')?.data.withdrawn).toEqual([queued])
    agent.followup(user('three'))
    agent.followup(user('four'))
    await spine.model.asked(2)
    agent.cancel({ by: 'user' }, { keepInbox: true })
    await agent.whenIdle()
    expect(transcript(spine.model.requests.at(-1)!.messages).at(-1)).toBe('user: four')
  })

  it('takes what is steered afterwards into a turn of its own', async () => {
    spine = await bootSpine([{ hang: true }, say('ok')])
    const agent = await spine.agent()
    agent.followup(user('one'))
    await spine.model.asked(1)
    agent.cancel({ by: 'user' })
    agent.steer(user('two'))
    await agent.whenIdle()
    expect(reasons(agent.session)).toEqual([{ kind: 'aborted', by: 'user' }, { kind: 'completed' }])
  })

  it('an idle agent only clears its inbox, and it goes on working', async () => {
    spine = await bootSpine([say('ok')])
    const agent = await spine.agent()
    agent.inject(user('context'))
    agent.cancel({ by: 'user' })
    expect(agent.pending()).toEqual([])
    await ask(agent, 'go')
    expect(transcript(spine.model.requests[0]!.messages)).toEqual(['user: go'])
  })

  it('by a limit ends the turn with that limit', async () => {
    spine = await bootSpine([{ hang: true }])
    const agent = await spine.agent()
    agent.followup(user('go'))
    await spine.model.asked(1)
    agent.cancel({ by: 'limit', reason: 'out of time' })
    await agent.whenIdle()
    expect(reasons(agent.session)).toEqual([{ kind: 'limit', reason: 'out of time' }])
  })
})

describe('ending', () => {
  it('an agent in mid-turn leaves a closed log and no trace in the tree', async () => {
    spine = await bootSpine([call('hang')])
    spine.ctx.tools.register(
      defineTool({
        name: 'hang',
        description: 'Waits',
        parameters: {},
        execute: (_args, exec) =>
          new Promise<string>(resolve => exec.signal.addEventListener('abort', () => resolve('stopped'))),
      }),
    )
    const before = JSON.stringify(spine.ctx.fiber.getEffects())
    const agent = await spine.agent()
    agent.ctx.on('session/event', () => {})
    agent.followup(user('go'))
    await next(spine.ctx, 'session/event', 'tool/call')
    await agent.handle.dispose()
    expect(agent.session.last('turn/end')?.data.reason).toEqual({ kind: 'aborted', by: 'disposed' })
    expect(spine.ctx.agents.list()).toEqual([])
    expect(spine.ctx.sessions.list()).toEqual([])
    expect(JSON.stringify(spine.ctx.fiber.getEffects())).toBe(before)
  })

  it('the loop in mid-turn cancels it, and a new loop takes the queue up', async () => {
    spine = await bootSpine([{ hang: true }, say('by the new loop')])
    const agent = await spine.agent()
    agent.followup(user('one'))
    agent.followup(user('two'))
    await spine.model.asked(1)
    await spine.restart('loop')
    await agent.whenIdle()
    expect(reasons(agent.session)).toEqual([
      { kind: 'aborted', by: 'hook', reason: 'the loop was unloaded' },
      { kind: 'completed' },
    ])
  })
})
