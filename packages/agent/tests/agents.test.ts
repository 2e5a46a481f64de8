import { SessionId } from '@cambium/session'
import { call, say } from '@cambium/testkit'
import { defineTool } from '@cambium/tools'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { ask, bootSpine, next, type Spine, transcript, user } from './boot.ts'

let spine: Spine
afterEach(() => spine?.dispose())

const tool = (name: string) => defineTool({ name, description: name, parameters: {}, execute: () => `${name} ran` })

describe('an agent', () => {
  it('has the id of its session, and is found by it until it ends', async () => {
    spine = await bootSpine()
    const agent = await spine.agent({ id: SessionId('mine'), cwd: '/' })
    expect(agent.session.id).toBe('mine')
    expect(agent.session.header.cwd).toBe('/')
    expect(spine.ctx.agents.get(SessionId('mine'))?.id).toBe('mine')
    await agent.handle.dispose()
    expect(spine.ctx.agents.get(SessionId('mine'))).toBeUndefined()
  })

  it('is refused with the reason when its model cannot be had', async () => {
    spine = await bootSpine()
    await expect(spine.agent({ model: 'fike/model' })).rejects.toThrow(/fake/)
    expect(spine.ctx.sessions.list()).toEqual([])
  })

  it('that a listener vetoes leaves nothing behind', async () => {
    spine = await bootSpine()
    const off = spine.ctx.on('session/created', () => {
      throw new Error('not today')
    })
    const effects = JSON.stringify(spine.ctx.fiber.getEffects())
    await expect(spine.agent({ id: SessionId('mine') })).rejects.toThrow('not today')
    expect(spine.ctx.sessions.list()).toEqual([])
    expect(JSON.stringify(spine.ctx.fiber.getEffects())).toBe(effects)
    off()
    await spine.agent({ id: SessionId('mine') })
  })

  it('that its setup refuses leaves nothing behind', async () => {
    spine = await bootSpine()
    const setup = () => Promise.reject(new Error('no'))
    await expect(spine.agent({ id: SessionId('mine'), setup })).rejects.toThrow('no')
    expect(spine.ctx.sessions.list()).toEqual([])
  })

  it('is told of when it comes and when it goes, once each, one that was refused not at all', async () => {
    spine = await bootSpine()
    const told: string[] = []
    spine.ctx.on('agent/created', agent => void told.push(`created ${agent.id}`))
    spine.ctx.on('agent/disposed', agent => void told.push(`disposed ${agent.id}`))
    spine.ctx.on('session/created', ({ id }) => {
      if (id === 'vetoed') throw new Error('no')
    })
    const agent = await spine.agent({ id: SessionId('mine') })
    await Promise.all([agent.handle.dispose(), agent.handle.dispose()])
    await spine.agent({ id: SessionId('vetoed') }).catch(() => {})
    const setup = () => {
      throw new Error('no')
    }
    await spine.agent({ id: SessionId('refused'), setup }).catch(() => {})
    expect(told).toEqual(['created mine', 'disposed mine'])
  })

  it('of an id exists once, whoever asks at the same time; a stale handle does not end its successor', async () => {
    spine = await bootSpine()
    const id = SessionId('one')
    const made = await Promise.allSettled([1, 2, 3].map(() => spine.ctx.agents.create({ id })))
    expect(made.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected', 'rejected'])
    const first = made.find(result => result.status === 'fulfilled')!.value
    await first.dispose()
    const second = await spine.ctx.agents.create({ id })
    await first.dispose()
    expect(spine.ctx.agents.get(id)).toBe(second.agent)
  })

  it('whose maker goes while it is being set up is not left behind', async () => {
    spine = await bootSpine()
    let finish = () => {}
    let made: Promise<unknown> | undefined
    const fiber = spine.ctx.plugin({
      name: 'owner',
      inject: ['agents'],
      apply(ctx) {
        const setup = () => new Promise<void>(resolve => (finish = resolve))
        made = ctx.agents.create({ setup })
      },
    })
    await fiber
    await vi.waitFor(() => expect(spine.ctx.sessions.list()).toHaveLength(1))
    await fiber.dispose()
    finish()
    await expect(made).rejects.toThrow()
    expect(spine.ctx.agents.list()).toEqual([])
    expect(spine.ctx.sessions.list()).toEqual([])
  })

  it('ends with the plugin that made it', async () => {
    spine = await bootSpine()
    const fiber = spine.ctx.plugin({
      name: 'owner',
      inject: ['agents'],
      async apply(ctx) {
        await ctx.agents.create({ id: SessionId('owned') })
      },
    })
    await fiber
    expect(spine.ctx.agents.list()).toHaveLength(1)
    await fiber.dispose()
    expect(spine.ctx.agents.list()).toEqual([])
  })

  it('ends in order with the plugin that keeps it, in mid-turn too, and its owner holds nothing of it any more', async () => {
    spine = await bootSpine([{ hang: true }, say('by the next one')])
    const effects = () =>
      spine.ctx.fiber
        .getEffects()
        .map(({ label }) => label)
        .sort()
    const before = effects()
    const told: string[] = []
    const off = spine.ctx.on('agent/disposed', ({ session }) => {
      told.push(JSON.stringify(session.last('turn/end')?.data.reason))
    })
    const agent = await spine.agent()
    agent.followup(user('a'))
    await spine.model.asked(1)
    await spine.restart('agent')
    off()
    expect(told).toEqual([expect.stringContaining('"aborted"')])
    expect(agent.session.open.turn).toBe(0)
    expect(spine.ctx.agents.list()).toEqual([])
    expect(spine.ctx.sessions.list()).toEqual([])
    expect(effects()).toEqual(before)
    await ask(await spine.agent(), 'b')
    expect(spine.model.requests).toHaveLength(2)
  })

  it('tells its state, and is idle only when nothing is queued', async () => {
    spine = await bootSpine([say('1'), say('2')])
    const agent = await spine.agent()
    const states: string[] = []
    spine.ctx.on('agent/status', (_agent, status) => states.push(status))
    agent.followup(user('a'))
    agent.followup(user('b'))
    await agent.whenIdle()
    expect(states).toEqual(['running', 'idle'])
    expect(spine.model.requests).toHaveLength(2)
  })

  it('is prepared by session-start before its first request, once', async () => {
    spine = await bootSpine([say('1'), say('2')])
    const agent = await spine.agent()
    const sources: string[] = []
    spine.ctx.on('agent/session-start', async ({ agent, source }) => {
      sources.push(source)
      agent.inject(user('remember this'))
    })
    await ask(agent, 'a')
    await ask(agent, 'b')
    expect(sources).toEqual(['startup'])
    expect(transcript(spine.model.requests[0]!.messages)).toEqual(['user: a', 'user: remember this'])
  })

  it('changes its model from the next request on, and the log says who chose', async () => {
    spine = await bootSpine([say('1'), say('2')])
    const agent = await spine.agent()
    await ask(agent, 'a')
    await agent.selectModel('fake/other')
    await ask(agent, 'b')
    expect(spine.model.requests.map(request => request.model)).toEqual(['model', 'other'])
    expect(agent.session.last('agent/model')?.data).toEqual({
      selection: 'fake/other',
      provider: 'fake',
      model: 'other',
    })
    await expect(agent.selectModel('nowhere/x')).rejects.toThrow()
  })
})

describe('what is registered through an agent', () => {
  it("is that agent's alone and leaves with it", async () => {
    spine = await bootSpine([say('1'), say('2')])
    spine.ctx.tools.register(tool('shared'))
    const one = await spine.agent()
    const two = await spine.agent()
    one.ctx.tools.register(tool('private'))
    await ask(one, 'x')
    await ask(two, 'x')
    const shown = spine.model.requests.map(request => request.tools?.map(schema => schema.name))
    expect(shown).toEqual([['private', 'shared'], ['shared']])
    await one.handle.dispose()
    expect(spine.ctx.tools.get('private', two)).toBeUndefined()
  })

  it("hears its own events and its children's, never a sibling's", async () => {
    spine = await bootSpine([say('1'), say('2'), say('3')])
    const parent = await spine.agent()
    const child = await spine.agent({ parent })
    const other = await spine.agent()
    const heard: string[] = []
    parent.ctx.on('session/event', (session, event) => {
      if (event.type === 'turn/start') heard.push(session.id)
    })
    for (const agent of [other, child, parent]) await ask(agent, 'x')
    expect(heard).toEqual([child.id, parent.id])
    expect(child.session.header).toMatchObject({ origin: 'subagent', depth: 1 })
  })

  it('hears of its children when they come and when they go', async () => {
    spine = await bootSpine()
    const parent = await spine.agent()
    const other = await spine.agent()
    const told: string[] = []
    const name = (id: string) => (id === parent.id ? 'parent' : 'child')
    for (const [who, { ctx }] of Object.entries({ parent, other })) {
      ctx.on('agent/created', ({ id }) => void told.push(`${who}: ${name(id)} created`))
      ctx.on('agent/disposed', ({ id }) => void told.push(`${who}: ${name(id)} disposed`))
    }
    const child = await spine.agent({ parent })
    await child.handle.dispose()
    expect(told).toEqual(['parent: child created', 'parent: child disposed'])
  })

  it('of a parent is inherited by its children, restrictions too', async () => {
    spine = await bootSpine([call('b'), say('done')])
    spine.ctx.tools.register(tool('a'))
    spine.ctx.tools.register(tool('b'))
    const parent = await spine.agent()
    parent.ctx.tools.restrict({ allow: ['a'] })
    const child = await spine.agent({ parent })
    await ask(child, 'x')
    expect(spine.model.requests[0]!.tools?.map(schema => schema.name)).toEqual(['a'])
    expect(transcript(spine.model.requests[1]!.messages).at(-1)).toMatch(/^user: result .*b/)
    expect(child.session.last('tool/result')?.data.error?.code).toBe('UNKNOWN_TOOL')
  })
})

describe('the system prompt', () => {
  it('has its sections in order, the nearest of a name winning, and the same bytes in every step', async () => {
    spine = await bootSpine([call('t'), say('2')])
    spine.ctx.tools.register(tool('t'))
    const { systemPrompt } = spine.ctx
    systemPrompt.section({ name: 'late', order: 200, text: 'late in {{cwd}}' })
    systemPrompt.section({ name: 'early', order: 50, text: () => 'early {{not a variable}}' })
    const agent = await spine.agent({ cwd: '/' })
    agent.ctx.systemPrompt.section({ name: 'late', order: 200, text: 'mine in {{cwd}}' })
    await ask(agent, 'x')
    const [first, second] = spine.model.requests
    expect(first!.system).toMatch(/^You are under test\.[\s\S]*early \{\{not a variable\}\}\n\nmine in \/$/)
    expect(second!.system).toBe(first!.system)
    expect(JSON.stringify(second!.tools)).toBe(JSON.stringify(first!.tools))
  })

  it('leaves out a section that throws or takes too long, says so, and the turn goes on', async () => {
    spine = await bootSpine([say('ok')], '', { sectionMs: 30 })
    const { systemPrompt } = spine.ctx
    systemPrompt.section({ name: 'broken', order: 1, text: () => Promise.reject(new Error('no file')) })
    systemPrompt.section({ name: 'unknown', order: 2, text: 'hello {{nobody}}' })
    systemPrompt.section({ name: 'slow', order: 3, text: () => new Promise(() => {}) })
    const agent = await spine.agent()
    await ask(agent, 'x')
    expect(spine.model.requests[0]!.system).not.toContain('hello')
    expect(spine.logs()).toMatch(/section "broken" was left out: no file/)
    expect(spine.logs()).toMatch(/nothing gives {{nobody}} a value/)
    expect(spine.logs()).toMatch(/section "slow" was left out: no end within 30 ms/)
  })

  it('is evaluated once a turn', async () => {
    spine = await bootSpine([call('t'), say('2'), say('3')])
    spine.ctx.tools.register(tool('t'))
    let count = 0
    spine.ctx.systemPrompt.section({ name: 'counted', order: 1, text: () => `evaluated ${++count}` })
    const agent = await spine.agent()
    await ask(agent, 'x')
    await ask(agent, 'y')
    expect(spine.model.requests.map(request => /evaluated (\d)/.exec(request.system ?? '')?.[1])).toEqual([
      '1',
      '1',
      '2',
    ])
  })

  it('can be transformed as a whole by an expert', async () => {
    spine = await bootSpine([say('ok')])
    spine.ctx.on('system-prompt/assemble', async (_input, next) => {
      const assembly = await next()
      return { ...assembly, sections: [{ name: 'all', text: 'only this' }] }
    })
    await ask(await spine.agent(), 'x')
    expect(spine.model.requests[0]!.system).toBe('only this')
  })
})

describe('commands', () => {
  it('run by their name with what follows it; an unknown one names the nearest', async () => {
    spine = await bootSpine()
    const agent = await spine.agent()
    spine.ctx.commands.register({ name: 'greet', description: 'Says hello', run: ({ args }) => `hello ${args}` })
    expect(await spine.ctx.commands.run('/greet  you ', agent)).toEqual({ text: 'hello you' })
    expect(await spine.ctx.commands.run('no command', agent)).toBeUndefined()
    await expect(spine.ctx.commands.run('/gret', agent)).rejects.toThrow(/\/greet/)
  })
})

describe('a request', () => {
  it('can be given another model or other limits by a listener', async () => {
    spine = await bootSpine([say('ok')])
    spine.ctx.on('agent/request', async (_input, next) => ({ ...(await next()), maxTokens: 5 }))
    const agent = await spine.agent()
    await ask(agent, 'x')
    expect(spine.model.requests[0]!.maxTokens).toBe(5)
    expect(agent.session.last('request/header')?.data.config.maxTokens).toBe(5)
  })

  it('is answered live: a viewer who comes late finds the part that was missed', async () => {
    let release = () => {}
    const pause = new Promise<void>(resolve => {
      release = resolve
    })
    spine = await bootSpine([{ text: ['half ', 'an answer'], pause }])
    const agent = await spine.agent()
    agent.followup(user('x'))
    await next(spine.ctx, 'session/event', 'assistant/chunk')
    await next(spine.ctx, 'session/event', 'assistant/chunk')
    expect(agent.session.partial?.content[0]).toMatchObject({ type: 'text' })
    release()
    await agent.whenIdle()
    expect(agent.session.partial).toBeUndefined()
  })
})
