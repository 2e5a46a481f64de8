import { call, say, type TempWorkspace, tempWorkspace } from '@cambium/testkit'
import { defineTool } from '@cambium/tools'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { aside, ask, bootSpine, type Spine, transcript, types, user } from './boot.ts'

let home: TempWorkspace
let spine: Spine
const stored = () => `- { name: '@cambium/session/jsonl', config: { folder: ${JSON.stringify(home.path)} } }\n`

beforeEach(async () => {
  home = await tempWorkspace()
})
afterEach(async () => {
  await spine.dispose()
  await home.dispose()
})

it('a resumed agent goes on where it was: numbering, model, history and what was pending', async () => {
  spine = await bootSpine([say('one')], stored())
  const first = await spine.agent()
  await first.selectModel('fake/other')
  await ask(first, 'a')
  first.inject(aside('said while idle'))
  const { id } = first
  await spine.dispose()

  spine = await bootSpine([say('two')], stored())
  const sources: string[] = []
  spine.ctx.on('agent/session-start', ({ source }) => void sources.push(source))
  const { agent } = await spine.ctx.agents.resume(id)
  await agent.whenIdle()
  expect(spine.model.requests).toHaveLength(0)
  expect(agent.pending()).toHaveLength(1)
  await ask(agent, 'b')
  expect(spine.model.requests[0]!.model).toBe('other')
  expect(transcript(spine.model.requests[0]!.messages)).toEqual([
    'user: a',
    'assistant: one',
    'user: said while idle',
    'user: b',
  ])
  expect(agent.session.last('turn/start')?.data.turn).toBe(2)
  expect(sources).toEqual(['resume'])
})

it('a resumed agent asks for what was chosen, not for what a listener had made of it', async () => {
  spine = await bootSpine([say('one')], stored())
  spine.ctx.on('agent/request', async (_input, next) => ({ ...(await next()), maxTokens: 5 }))
  const first = await spine.agent()
  await ask(first, 'a')
  expect(first.session.last('request/header')?.data.config.maxTokens).toBe(5)
  const { id } = first
  await spine.dispose()

  spine = await bootSpine([say('two')], stored())
  const { agent } = await spine.ctx.agents.resume(id)
  await ask(agent, 'b')
  expect(spine.model.requests[0]).toMatchObject({ provider: 'fake', model: 'model' })
  expect(spine.model.requests[0]!.maxTokens).toBeUndefined()
})

it('two that resume one session at once: one gets it', async () => {
  spine = await bootSpine([say('one')], stored())
  const first = await spine.agent()
  await ask(first, 'a')
  const { id } = first
  await first.handle.dispose()
  const both = await Promise.allSettled([spine.ctx.agents.resume(id), spine.ctx.agents.resume(id)])
  expect(both.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected'])
  expect(spine.ctx.agents.list()).toHaveLength(1)
  expect(spine.ctx.agents.get(id)?.session.lastTurn).toBe(1)
})

it('what was queued behind a turn when the process ended runs after somebody speaks', async () => {
  spine = await bootSpine([{ hang: true }], stored())
  const first = await spine.agent()
  first.followup(user('a'))
  first.followup(user('b'))
  await spine.model.asked(1)
  const { id } = first
  await spine.dispose()

  spine = await bootSpine([say('to b'), say('to c')], stored())
  const { agent } = await spine.ctx.agents.resume(id)
  await ask(agent, 'c')
  expect(spine.model.requests.map(request => transcript(request.messages).at(-1))).toEqual(['user: b', 'user: c'])
})

it("a fork starts from the parent's history with an inbox of its own", async () => {
  spine = await bootSpine([say('one'), say('two')])
  const parent = await spine.agent()
  await ask(parent, 'a')
  parent.inject(aside('for the parent only'))
  const fork = spine.ctx.sessions.fork(parent.session)
  expect(fork.deriveMessages()).toHaveLength(2)
  expect(fork.lastTurn).toBe(1)
  expect(fork.header.parent?.id).toBe(parent.id)
})

it('every request can be rebuilt from the log alone', async () => {
  spine = await bootSpine([call('t'), say('two'), say('three')], stored())
  spine.ctx.tools.register(defineTool({ name: 't', description: 't', parameters: {}, execute: () => 'ran' }))
  const agent = await spine.agent()
  await ask(agent, 'a')
  await ask(agent, 'b')
  const sent = spine.model.requests.at(-1)!
  await spine.ctx.sessions.flush(agent.session)
  const log = await spine.ctx.sessionPersistence.read(agent.id)
  const upTo = log.events.filter(event => event.type === 'assistant/message').at(-1)!.seq
  const replay = spine.ctx.sessions.create(undefined, { seed: log.events.slice(0, upTo) })
  const header = replay.last('request/header')!.data
  expect(replay.deriveMessages()).toEqual(sent.messages)
  expect({ system: header.system, tools: header.tools }).toEqual({ system: sent.system, tools: sent.tools })
  expect(types(agent.session)).toEqual(log.events.map(event => event.type))
})
