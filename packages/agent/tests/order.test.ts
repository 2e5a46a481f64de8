/** What is stored, shown and run in which order, when things go well and when they do not. */

import { LlmAdapter, type LlmRequest, type StreamChunk } from '@cambium/llm'
import { call, say } from '@cambium/testkit'
import { defineTool } from '@cambium/tools'
import { afterEach, describe, expect, it } from 'vitest'
import { aside, ask, bootSpine, next, reasons, type Spine, transcript, types, user } from './boot.ts'

let spine: Spine
afterEach(() => spine?.dispose())

const tool = (name: string, execute: Parameters<typeof defineTool>[0]['execute']) =>
  defineTool({ name, description: name, parameters: {}, isConcurrencySafe: () => true, execute })

/** Streams what a test tells it and then nothing more, until it is cancelled. */
class Streaming extends LlmAdapter {
  readonly chunks: readonly StreamChunk[]
  constructor(chunks: readonly StreamChunk[]) {
    super()
    this.chunks = chunks
  }
  override models() {
    return []
  }
  override async *stream({ signal }: LlmRequest): AsyncGenerator<StreamChunk> {
    yield* this.chunks
    await new Promise((_, reject) => signal?.addEventListener('abort', () => reject(signal.reason)))
  }
}

describe('the log', () => {
  it('is stored before the model is asked, with everything that it is asked with', async () => {
    spine = await bootSpine([call('t'), say('ok')])
    spine.ctx.tools.register(tool('t', () => 'ran'))
    const stored: number[] = []
    spine.ctx.on('session/flush', session => void stored.push(session.seq))
    const asked: number[] = []
    const agent = await spine.agent()
    spine.ctx.on('llm/stream', (_request, next) => {
      asked.push(stored.at(-1)!)
      expect(stored.at(-1)).toBe(agent.session.seq)
      return next()
    })
    await ask(agent, 'go')
    expect(asked).toHaveLength(2)
    expect(reasons(agent.session)).toEqual([{ kind: 'completed' }])
  })

  it('that cannot be stored keeps the model from being asked', async () => {
    spine = await bootSpine([say('never')])
    const agent = await spine.agent()
    const off = spine.ctx.on('session/flush', async () => {
      throw new Error('disk full')
    })
    await ask(agent, 'go')
    off()
    expect(spine.model.requests).toEqual([])
    expect(reasons(agent.session)).toMatchObject([{ kind: 'error', error: { message: 'disk full' } }])
  })

  it('being stored while the turn is cancelled: the model is not asked any more', async () => {
    spine = await bootSpine([say('never')])
    const agent = await spine.agent()
    spine.ctx.on('session/flush', async () => agent.cancel({ by: 'user' }))
    let asked = 0
    spine.ctx.on('llm/stream', (_request, next) => {
      asked++
      return next()
    })
    await ask(agent, 'go')
    expect(asked).toBe(0)
    expect(reasons(agent.session)).toEqual([{ kind: 'aborted', by: 'user' }])
  })
})

describe('context that tools give', () => {
  it('comes after all results of the answer, on the record of the inbox, in the order of the calls', async () => {
    spine = await bootSpine([{ calls: [{ name: 'a' }, { name: 'b' }] }, say('ok')])
    for (const name of ['a', 'b']) {
      spine.ctx.tools.register(
        tool(name, (_args, exec) => {
          exec.deferContext(aside(`${name} says`))
          return `${name} ran`
        }),
      )
    }
    const agent = await spine.agent()
    await ask(agent, 'go')
    expect(transcript(spine.model.requests[1]!.messages).slice(2)).toEqual([
      'user: result a ran',
      'user: result b ran',
      'user: a says',
      'user: b says',
    ])
    const log = types(agent.session)
    expect(log.lastIndexOf('tool/result')).toBeLessThan(log.lastIndexOf('inbox/changed'))
  })

  it('of a call that concludes the turn is read by the next one', async () => {
    spine = await bootSpine([call('a'), say('ok')])
    spine.ctx.tools.register(
      tool('a', (_args, exec) => {
        exec.concludeTurn()
        exec.deferContext(aside('for later'))
        return 'done'
      }),
    )
    const agent = await spine.agent()
    await ask(agent, 'go')
    expect(spine.model.requests).toHaveLength(1)
    await ask(agent, 'on')
    expect(transcript(spine.model.requests[1]!.messages).slice(-2)).toEqual(['user: for later', 'user: on'])
  })
})

it('a call has an id that the session has not had, also after its first bearer was summed up', async () => {
  spine = await bootSpine([call('t', {}, 'one'), say('ok'), call('t', {}, 'one'), say('ok')])
  spine.ctx.tools.register(tool('t', () => 'ran'))
  const agent = await spine.agent()
  await ask(agent, 'go')
  const [first, ...rest] = agent.session.surface()
  agent.session.append('context/replaced', { from: first!.seq, to: rest.at(-1)!.seq, message: aside('all of it') })
  await ask(agent, 'again')
  const log = agent.session.events()
  const called = log.flatMap(event => (event.type === 'tool/call' ? [event.data.callId] : []))
  expect(new Set(called).size).toBe(2)
  expect(transcript(spine.model.requests.at(-1)!.messages)).toEqual([
    'user: all of it',
    'user: again',
    'assistant: call t {}',
    'user: result ran',
  ])
})

describe('an answer that is cancelled', () => {
  const reasoning: StreamChunk[] = [
    { type: 'block-start', index: 0, blockType: 'reasoning' },
    { type: 'reasoning-delta', index: 0, text: 'let me think' },
  ]
  const wholeCall: StreamChunk[] = [
    { type: 'block-start', index: 1, blockType: 'tool-call' },
    { type: 'tool-call-delta', index: 1, id: 'c', name: 't', argumentsDelta: '{}' },
    { type: 'block-end', index: 1, block: { type: 'tool-call', id: 'c', name: 't', arguments: '{}' } },
  ]
  const usage: StreamChunk = {
    type: 'usage',
    usage: { inputTokens: 5, outputTokens: 0, cacheReadTokens: 0, cacheWriteTokens: 0, reasoningTokens: 0 },
  }

  async function cancelAfter(...chunks: StreamChunk[]) {
    spine = await bootSpine([])
    const ran: string[] = []
    spine.ctx.tools.register(tool('t', () => `${ran.push('t')}`))
    spine.ctx.llm.registerAdapter('streaming', new Streaming(chunks))
    const agent = await spine.agent({ model: 'streaming/m' })
    agent.followup(user('go'))
    for (const _ of chunks) await next(spine.ctx, 'session/event', 'assistant/chunk')
    agent.cancel({ by: 'user' })
    await agent.whenIdle()
    expect(reasons(agent.session)).toEqual([{ kind: 'aborted', by: 'user' }])
    return { agent, ran }
  }

  it('within its calls keeps what was read and none of the calls, also those that were whole', async () => {
    const { agent, ran } = await cancelAfter(...reasoning, ...wholeCall)
    expect(agent.session.last('assistant/message')?.data.message.content).toEqual([
      { type: 'reasoning', text: 'let me think' },
    ])
    expect(types(agent.session)).not.toContain('tool/call')
    expect(ran).toEqual([])
  })

  it('with its last chunk keeps what was read, and its calls do not run', async () => {
    spine = await bootSpine([{ text: 'I will', calls: [{ name: 't' }] }])
    const ran: string[] = []
    spine.ctx.tools.register(tool('t', () => `${ran.push('t')}`))
    const agent = await spine.agent()
    spine.ctx.on('session/event', (_session, event) => {
      if (event.type === 'assistant/chunk' && event.data.chunk.type === 'finish') agent.cancel({ by: 'user' })
    })
    await ask(agent, 'go')
    expect(agent.session.last('assistant/message')?.data).toMatchObject({
      message: { content: [{ type: 'text', text: 'I will' }] },
      interrupted: true,
    })
    expect(ran).toEqual([])
    expect(types(agent.session)).not.toContain('tool/call')
  })

  it('before anything could be read is no message, but what it cost is on the record', async () => {
    const { agent } = await cancelAfter(usage, ...wholeCall)
    expect(types(agent.session)).not.toContain('assistant/message')
    expect(agent.session.last('request/failed')?.data).toMatchObject({
      attempt: 1,
      failure: { code: 'ABORTED' },
      usage: { inputTokens: 5 },
    })
  })
})

describe('input around a cancel', () => {
  it('that is steered afterwards goes with the next cancel', async () => {
    spine = await bootSpine([{ hang: true }])
    const agent = await spine.agent()
    agent.followup(user('one'))
    await spine.model.asked(1)
    agent.cancel({ by: 'user' })
    agent.steer(user('two'))
    agent.cancel({ by: 'limit', reason: 'too late to count' })
    await agent.whenIdle()
    expect(reasons(agent.session)).toEqual([{ kind: 'aborted', by: 'user' }])
    expect(agent.pending()).toEqual([])
  })

  it('is steered into one turn again once the agent is idle', async () => {
    spine = await bootSpine([{ hang: true }, say('both')])
    const agent = await spine.agent()
    agent.followup(user('one'))
    await spine.model.asked(1)
    agent.cancel({ by: 'user' })
    await agent.whenIdle()
    agent.steer(user('two'))
    agent.steer(user('three'))
    await agent.whenIdle()
    expect(transcript(spine.model.requests[1]!.messages).slice(-2)).toEqual(['user: two', 'user: three'])
  })

  it('that arrives while the agent ends is logged and does not run', async () => {
    spine = await bootSpine([{ hang: true }])
    const agent = await spine.agent()
    agent.followup(user('one'))
    await spine.model.asked(1)
    const ended = agent.handle.dispose()
    const id = agent.followup(user('two'))
    await ended
    expect(spine.model.requests).toHaveLength(1)
    expect(agent.session.last('inbox/changed')?.data.inserted?.[0]?.message.id).toBe(id)
    expect(reasons(agent.session)).toEqual([{ kind: 'aborted', by: 'disposed' }])
  })
})
