import { createToolResultMessage, type LlmRequest, newMessageId } from '@cambium/llm'
import type { EventType, Session, SessionEvent } from '@cambium/session'
import { fail, say, tempWorkspace } from '@cambium/testkit'
import { afterEach, expect, test } from 'vitest'
import { ask, boot, user, type Watched } from './boot.ts'

const THROWS = { id: 'invariants', name: '@cambium/observe/invariants', config: { mode: 'throw' } }
const REPORTS = { id: 'invariants', name: '@cambium/observe/invariants' }

const trees: Watched[] = []
const started = async (...args: Parameters<typeof boot>) => {
  const tree = await boot(...args)
  trees.push(tree)
  return tree
}
afterEach(async () => {
  for (const tree of trees.splice(0)) await tree.dispose()
})

const at = { turn: 1, step: 1 }
const source = { kind: 'model', provider: 'fake', model: 'model' } as const

type Line = readonly [type: string, data: unknown]
const open: Line[] = [
  ['turn/start', { turn: 1 }],
  ['step/start', at],
]
const given = (id: string): Line => ['user/message', { message: { ...user('hello'), id } }]
const received = (id: string): Line => [
  'inbox/changed',
  { inserted: [{ target: 'next-turn', message: { ...user('hello'), id } }] },
]
const answered = (...ids: string[]): Line => [
  'assistant/message',
  {
    ...at,
    message: {
      id: newMessageId(),
      role: 'assistant',
      content: [
        { type: 'text', text: 'so' },
        ...ids.map(id => ({ type: 'tool-call', id, name: 'look', arguments: '{}' })),
      ],
      source,
    },
    finish: 'stop',
  },
]
const begun = (callId: string): Line => ['tool/call', { ...at, callId, name: 'look', arguments: '{}' }]
const settled = (callId: string, more = {}): Line => [
  'tool/result',
  { ...at, message: createToolResultMessage({ callId, content: [{ type: 'text', text: 'seen' }] }), ...more },
]

/** Anything may be written down here; what is wrong with it is what is tested. */
const write = (session: Session, [type, data]: Line) => session.append(type as EventType, data as never)

/** What is right as far as the last line, which breaks the rule. */
const BREACHES: readonly (readonly [rule: string, what: string, history: readonly Line[]])[] = [
  ['turns-nest', 'turn 2 starts after turn 0', [['turn/start', { turn: 2 }]]],
  [
    'turns-nest',
    'turn 2 starts while turn 1 is open',
    [
      ['turn/start', { turn: 1 }],
      ['turn/start', { turn: 2 }],
    ],
  ],
  ['turns-nest', 'turn 1 ends, and no turn is open', [['turn/end', { turn: 1, reason: { kind: 'completed' } }]]],
  [
    'turns-nest',
    'turn 1 ends while its step 1 is open',
    [...open, ['turn/end', { turn: 1, reason: { kind: 'completed' } }]],
  ],
  ['steps-nest', 'step 1 of turn 1 starts, and no turn is open', [['step/start', at]]],
  ['steps-nest', 'step 2 of turn 1 starts while step 1 is open', [...open, ['step/start', { turn: 1, step: 2 }]]],
  [
    'steps-nest',
    'step 2 of turn 1 starts after step 0',
    [
      ['turn/start', { turn: 1 }],
      ['step/start', { turn: 1, step: 2 }],
    ],
  ],
  [
    'steps-nest',
    'step 1 of turn 1 ends, and no step is open',
    [
      ['turn/start', { turn: 1 }],
      ['step/end', at],
    ],
  ],
  ['one-answer', 'an answer of step 1 of turn 1 is logged, and no step is open', [answered()]],
  ['one-answer', 'step 1 of turn 1 is answered a second time', [...open, answered(), answered()]],
  [
    'one-answer',
    'attempt 1 of step 1 of turn 1 failed after the step was answered',
    [...open, answered(), ['request/failed', { ...at, attempt: 1, failure: { code: 'SERVER', message: 'no' } }]],
  ],
  ['calls-pair', 'the id of call a (look) was used before in this session', [...open, answered('a', 'a')]],
  [
    'calls-pair',
    'call b (look) is begun, and the answer of its step has no such call',
    [...open, answered('a'), begun('b')],
  ],
  ['calls-pair', 'call a (look) is begun a second time', [...open, answered('a'), begun('a'), begun('a')]],
  [
    'calls-pair',
    'call a (look) is logged with other arguments than the model wrote',
    [...open, answered('a'), ['tool/call', { ...at, callId: 'a', name: 'look', arguments: '{"x":1}' }]],
  ],
  ['calls-pair', 'call a (look) has a result and was never begun', [...open, answered('a'), settled('a')]],
  ['calls-pair', 'call a has a second result', [...open, answered('a'), begun('a'), settled('a'), settled('a')]],
  [
    'calls-pair',
    'the result of call b comes before that of call a',
    [...open, answered('a', 'b'), begun('a'), begun('b'), settled('b')],
  ],
  [
    'calls-pair',
    'a result is logged for call z, which the answer of its step does not have',
    [...open, answered('a'), settled('z')],
  ],
  [
    'calls-pair',
    'step 1 of turn 1 ends and its call a has no result',
    [...open, answered('a'), begun('a'), ['step/end', at]],
  ],
  [
    'calls-pair',
    'arguments of call a are rewritten, which is not under way',
    [...open, answered('a'), ['tool/rewritten', { callId: 'a', arguments: {}, by: 'nobody' }]],
  ],
  ['inbox-conserved', 'message m is received while it is pending', [received('m'), received('m')]],
  ['inbox-conserved', 'message m is withdrawn, and is not pending', [['inbox/changed', { withdrawn: ['m'] }]]],
  ['inbox-conserved', 'message m is admitted, and was admitted before', [...open, given('m'), given('m')]],
  [
    'inbox-conserved',
    'message m is admitted, and was withdrawn before',
    [received('m'), ['inbox/changed', { withdrawn: ['m'] }], ...open, given('m')],
  ],
  ['inbox-conserved', 'message m is received, and was admitted before', [...open, given('m'), received('m')]],
  ['input-before-answer', 'message m is admitted outside a step', [given('m')]],
  ['input-before-answer', 'message m is admitted behind the answer of step 1', [...open, answered(), given('m')]],
  [
    'pairs-kept',
    'a replacement tears a pair apart: call a goes and its result stays',
    [
      ...open,
      answered('a'),
      begun('a'),
      settled('a'),
      ['context/replaced', { from: 2, to: 2, message: user('in short') }],
    ],
  ],
  [
    'pairs-kept',
    'a replacement tears a pair apart: the result of call a goes and the call stays',
    [
      ...open,
      answered('a'),
      begun('a'),
      settled('a'),
      ['context/replaced', { from: 4, to: 4, message: user('in short') }],
    ],
  ],
  [
    'resumed-closed',
    'the session is taken up while turn 1 is open',
    [
      ['turn/start', { turn: 1 }],
      ['session/resumed', {}],
    ],
  ],
  ['compaction-pairs', 'a compaction ends, and none is under way', [['compaction/ended', {}]]],
  [
    'compaction-pairs',
    'a compaction starts while the one of event 0 is under way',
    [
      ['compaction/started', {}],
      ['compaction/started', {}],
    ],
  ],
  ['live-events', 'assistant/chunk is live and was appended to the log', [['assistant/chunk', {}]]],
]

test.each(BREACHES)('%s: %s', async (rule, what, history) => {
  const { ctx } = await started([THROWS])
  for (const type of ['assistant/chunk', 'compaction/started', 'compaction/ended']) {
    ctx.sessions.defineEvent(type as EventType)
  }
  const session = ctx.sessions.create()
  const last = history.at(-1)!
  for (const line of history.slice(0, -1)) write(session, line)
  const before = session.seq
  expect(() => write(session, last)).toThrow(
    expect.objectContaining({
      code: 'INVARIANT_BROKEN',
      problem: what,
      where: expect.stringMatching(/invariants\.test\.ts:\d+:\d+, in session /),
      fix: expect.stringContaining(rule),
    }),
  )
  // Kept out: the log is as it was, and goes on.
  expect(session.seq).toBe(before)
  expect(ctx.invariants.breaches()).toMatchObject([{ rule, problem: what, session: session.id }])
})

test('a run with retries, calls side by side, steering, a cancel and a fork breaks nothing', async () => {
  const { ctx, model } = await started(
    [THROWS],
    [
      fail('SERVER'),
      { text: 'I look', calls: [{ name: 'look' }, { name: 'look' }] },
      say('done'),
      { hang: true, text: 'cut' },
    ],
  )
  ctx.tools.register({
    name: 'look',
    description: 'looks',
    parameters: { type: 'object' },
    isConcurrencySafe: () => true,
    execute: () => 'seen',
  })
  const { agent, dispose } = await ctx.agents.create()
  agent.followup(user('look twice'))
  agent.steer(user('and hurry'))
  await agent.whenIdle()
  agent.followup(user('never mind'))
  await model.asked(4)
  agent.followup(user('too late'))
  agent.cancel({ by: 'user' })
  await agent.whenIdle()
  const fork = ctx.sessions.fork(agent.session)
  model.push(say('in the child'))
  const child = await ctx.agents.create({ seed: fork.events() })
  await ask(child.agent, 'go on')
  expect(model.requests).toHaveLength(5)
  await dispose()
  await child.dispose()
  expect(ctx.invariants.breaches()).toEqual([])
})

/** A plugin of somebody else, beside their tree. */
const AUDIT = `
import { note } from './lib/note.mjs'
export const name = 'audit'
export const inject = ['sessions', 'llm']
export function apply(ctx) {
  ctx.on('session/event', (session, event) => {
    if (event.type !== 'assistant/message') return
    if (session.header.cwd.endsWith('direct')) session.append('turn/start', { turn: 7 })
    else note(session)
  })
}
`
const NOTE = `export const note = session => {
  session.append('step/start', { turn: 7, step: 1 })
}
`

test.each([
  ['/direct', 'audit.mjs:8:56'],
  ['/elsewhere', 'lib/note.mjs:2:11'],
])('a breach names the row and the line of a plugin that appends from inside a listener (%s)', async (cwd, line) => {
  using folder = tempWorkspace({ 'audit.mjs': AUDIT, 'lib/note.mjs': NOTE })
  const file = `${folder.path}/cordis.yml`
  const rows = [{ id: 'mine', name: './audit.mjs' }, REPORTS]
  const tree = await started(rows, [say('one'), say('two')], file)
  const { agent } = await tree.ctx.agents.create({ cwd })
  await ask(agent, 'hello')
  const [first] = tree.ctx.invariants.breaches()
  expect(first).toMatchObject({ plugin: expect.stringMatching(/^audit \(row mine, /), at: `${folder.path}/${line}` })
  // Told once for a rule and a plugin, however often it happens.
  await ask(agent, 'again')
  const said = tree.logs().match(/INVARIANT_BROKEN.*\n.*\n.*/g)!
  expect(said.filter(text => text.includes(line))).toHaveLength(1)
  expect(said[0]).toContain(`where: audit (row mine, `)
})

test('a request that holds more than the log is kept from being made, and its maker is named', async () => {
  using folder = tempWorkspace({
    'aside.mjs': `
export const name = 'aside'
export const inject = ['llm', 'agents']
export function apply(ctx) {
  ctx.on('agent/pre-step', async ({ agent }, next) => {
    const { session } = agent
    const messages = [...session.deriveMessages(), { id: 'x', role: 'user', content: [{ type: 'text', text: 'psst' }], source: { kind: 'user' } }]
    for await (const chunk of ctx.llm.stream({ ...agent.config, messages, sessionId: session.id })) agent.seen = chunk
    return next()
  })
}
`,
  })
  const tree = await started([{ id: 'mine', name: './aside.mjs' }, THROWS], [], `${folder.path}/cordis.yml`)
  const { agent } = await tree.ctx.agents.create()
  await ask(agent, 'hello')
  expect(tree.model.requests).toEqual([])
  expect(agent.session.last('turn/end')?.data.reason).toMatchObject({
    kind: 'error',
    error: { code: 'INVARIANT_BROKEN' },
  })
  expect(tree.ctx.invariants.breaches()).toMatchObject([
    {
      rule: 'request-is-logged',
      problem: 'a request of the conversation is made outside a step',
      plugin: expect.stringMatching(/^aside \(row mine, /),
      at: `${folder.path}/aside.mjs:8:39`,
    },
  ])
})

/** One that is inside its step, and asks for something else than the log says. */
async function asksOtherwise(change: (request: LlmRequest) => LlmRequest): Promise<readonly string[]> {
  const tree = await started([REPORTS], [say('first'), say('real')])
  const { ctx } = tree
  const { agent } = await ctx.agents.create()
  await ask(agent, 'hello')
  ctx.tools.register({ name: 'look', description: 'looks', parameters: { type: 'object' }, execute: () => 'seen' })
  let made = false
  ctx.on('llm/stream', (request, next) => {
    if (made) return next()
    made = true
    return ctx.llm.stream(change(request))
  })
  await ask(agent, 'again')
  return ctx.invariants.breaches().map(({ problem }) => problem)
}

const psst = { id: 'x', role: 'user', content: [{ type: 'text', text: 'psst' }], source: { kind: 'user' } } as const

test.each<[string, (request: LlmRequest) => LlmRequest]>([
  ['its message 3 (user, x) is not in the log', request => ({ ...request, messages: [...request.messages, psst] })],
  ['message 2 of the log', request => ({ ...request, messages: request.messages.slice(0, -1) })],
  [
    'its message 0 (user, x) is not that of the log',
    request => ({ ...request, messages: [psst, ...request.messages.slice(1)] }),
  ],
  ['its system prompt is another', request => ({ ...request, system: 'Obey.' })],
  ['its tools are others', request => ({ ...request, tools: [] })],
  ['its model or options are others', request => ({ ...request, temperature: 1 })],
])('a request differs from the log: %s', async (what, change) => {
  expect(await asksOtherwise(change)).toEqual([expect.stringContaining(what)])
})

test('a request for another purpose is its own', async () => {
  expect(await asksOtherwise(request => ({ ...request, purpose: 'title', messages: [psst] }))).toEqual([])
})

test('a message that was received and waits nowhere is found', async () => {
  const tree = await started([REPORTS], [say('one')])
  const { ctx } = tree
  const { agent } = await ctx.agents.create()
  agent.session.append('inbox/changed', {
    inserted: [{ target: 'next-turn', message: { ...user('lost'), id: 'lost' } }],
  })
  await ask(agent, 'hello')
  expect(ctx.invariants.breaches()[0]).toMatchObject({
    rule: 'inbox-conserved',
    problem: 'message lost was received and is lost',
  })
})

test('what a damaged log lacks is not held against who goes on with it', async () => {
  const { ctx, model } = await started(
    [THROWS],
    [{ text: 'a', calls: [{ name: 'look', id: 'old' }] }, say('b'), say('c')],
  )
  ctx.tools.register({ name: 'look', description: 'looks', parameters: { type: 'object' }, execute: () => 'seen' })
  const { agent } = await ctx.agents.create()
  await ask(agent, 'hello')
  const whole = agent.session.events()
  for (const lost of whole.keys()) {
    const seed = whole.filter((_, index) => index !== lost)
    // What a reader finds in the place of a line that cannot be read is nothing at all.
    const session = ctx.sessions.create(undefined, { seed: seed as SessionEvent[] })
    if (session.open.turn) continue
    const next = await ctx.agents.create({ seed: session.events() })
    model.push(say('fine'))
    await ask(next.agent, 'go on')
    await next.dispose()
  }
  expect(ctx.invariants.breaches()).toEqual([])
})

test('it leaves with its row, and the log goes on unjudged', async () => {
  const tree = await started([THROWS])
  await tree.ctx.loader.remove('invariants')
  const session = tree.ctx.sessions.create()
  session.append('turn/start', { turn: 9 })
  expect(session.seq).toBe(1)
  expect(tree.ctx.get('invariants')).toBeUndefined()
})
