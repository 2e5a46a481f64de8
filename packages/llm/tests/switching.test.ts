import type {} from '@cambium/agent'
import { createUserMessage } from '@cambium/llm'
import {
  type BootedTree,
  bootTree,
  type ModelRequest,
  type ModelServer,
  type Reply,
  startModelServer,
  type TempWorkspace,
  tempWorkspace,
} from '@cambium/testkit'
import { type Agent, defineTool } from '@cambium/tools'
import { afterEach, beforeEach, expect, it } from 'vitest'

const ROUTES = {
  deepseek: 'deepseek/deepseek-reasoner',
  claude: 'anthropic/claude-sonnet-4-5',
  'claude-adaptive': 'anthropic/claude-opus-4-6',
  openai: 'openai/gpt-5',
  responses: 'openai-responses/gpt-5',
} as const
type Name = keyof typeof ROUTES

let home: TempWorkspace
let server: ModelServer
let replies: Reply[]
let spine: BootedTree
beforeEach(async () => {
  home = tempWorkspace()
  replies = []
  server = await startModelServer({ otherwise: () => replies.shift()!, check: wantsItsReasoning })
})
afterEach(async () => {
  await spine?.dispose()
  await server.close()
  home[Symbol.dispose]()
})

/** DeepSeek refuses a message with calls that lacks its reasoning; that OpenAI knows no such key the server knows. */
function wantsItsReasoning({ protocol, body }: ModelRequest): string | undefined {
  if (protocol !== 'chat' || !body.model.startsWith('deepseek')) return undefined
  const bare = body.messages.some(message => message.tool_calls && message.reasoning_content === undefined)
  return bare ? 'The reasoning_content in the thinking mode must be passed back to the API.' : undefined
}

async function boot() {
  const at = `{ baseURL: ${server.url}, apiKey: k }`
  spine = await bootTree(`
- name: '@cambium/llm'
- { name: '@cambium/llm/anthropic', config: { providers: { anthropic: ${at} } } }
- { name: '@cambium/llm/responses', config: { providers: { openai-responses: ${at} } } }
- { name: '@cambium/llm/openai', config: { providers: { deepseek: ${at}, openai: ${at} } } }
- name: '@cambium/session'
- { name: '@cambium/session/jsonl', config: { folder: ${JSON.stringify(home.path)} } }
- name: '@cambium/tools'
- name: '@cambium/agent'
- { name: '@cambium/agent/loop', config: { model: ${ROUTES.deepseek}, persona: You are under test. } }
`)
  spine.ctx.on('agent/request', async (_input, next) => {
    const config = await next()
    return config.provider === 'anthropic' ? { ...config, effort: 'low' } : config
  })
  spine.ctx.tools.register(
    defineTool({
      name: 'echo',
      description: 'Says it again',
      parameters: { text: { type: 'string', required: true } },
      execute: ({ text }) => text,
    }),
  )
  spine.ctx.tools.register(
    defineTool({
      name: 'hand_over',
      description: 'Lets another model go on',
      parameters: { to: { type: 'string', required: true } },
      execute: async ({ to }, { agent }) => {
        await agent!.selectModel(to)
        return `${to} goes on`
      },
    }),
  )
}

async function ask(agent: Agent, text: string) {
  agent.followup(createUserMessage({ content: text, source: { kind: 'user' } }))
  await agent.whenIdle()
}

/** The texts of reasoning in a request, in whatever form its protocol has for them. */
function thoughtsIn({ protocol, body }: ModelRequest): string[] {
  if (protocol === 'responses') {
    const items = body['input'] as { type: string; summary?: { text: string }[] }[]
    return items.flatMap(item => (item.type === 'reasoning' ? item.summary!.map(({ text }) => text) : []))
  }
  return body.messages.flatMap(message => {
    if (protocol === 'chat') return message.reasoning_content || []
    const blocks = message.content as { type: string; thinking?: string }[]
    return blocks.flatMap(({ thinking }) => thinking ?? [])
  })
}

const problems = () => server.requests.flatMap(({ problem }) => problem ?? [])
const last = () => server.requests.at(-1)!
const call = (name: string, args: object, reasoning?: string): Reply => ({
  ...(reasoning === undefined ? {} : { reasoning }),
  toolCalls: [{ name, arguments: args }],
})

/** Lets a model think, call and answer, and checks that each request holds its provider's thoughts so far, and no other's. */
class Conversation {
  agent!: Agent
  private readonly thoughts = new Map<string, string[]>()
  private turns = 0

  async turn(name: Name) {
    const route = ROUTES[name]
    const turn = ++this.turns
    const [provider] = route.split('/') as [string]
    const own = this.thoughts.get(provider) ?? []
    this.thoughts.set(provider, own)
    await this.agent.selectModel(route)
    const before = [...own]
    const [first, second] = [`${name} thinks ${turn}.1`, `${name} thinks ${turn}.2`]
    replies = [call('echo', { text: `${turn}` }, first), { reasoning: second, text: `answer ${turn}` }]
    const at = server.requests.length
    await ask(this.agent, `question ${turn}`)
    own.push(first, second)
    expect(problems()).toEqual([])
    const [one, two, ...more] = server.requests.slice(at)
    expect(more).toEqual([])
    expect(one!.body.model).toBe(route.slice(route.indexOf('/') + 1))
    // Chat completions of OpenAI neither show reasoning nor take it back.
    const goesBack = name !== 'openai'
    expect({ turn, name, thoughts: thoughtsIn(one!) }).toEqual({ turn, name, thoughts: goesBack ? before : [] })
    expect(thoughtsIn(two!)).toEqual(goesBack ? [...before, first] : [])
    for (let past = 1; past < turn; past++) expect(two!.text).toContain(`answer ${past}`)
    if (name === 'claude') expect(two!.body['thinking']).toMatchObject({ type: 'enabled' })
  }
}

it('a session goes from model to model and back, also after a resume, and each gets its own reasoning back', async () => {
  await boot()
  const talk = new Conversation()
  talk.agent = (await spine.ctx.agents.create()).agent
  const { id } = talk.agent
  const round: Name[] = ['deepseek', 'claude', 'openai', 'responses']
  for (const name of [...round, ...round, 'claude-adaptive', 'responses'] as Name[]) await talk.turn(name)
  await spine.dispose()
  await boot()
  talk.agent = (await spine.ctx.agents.resume(id)).agent
  for (const name of ['responses', 'claude', 'deepseek', 'openai'] as Name[]) await talk.turn(name)
  expect(server.requests).toHaveLength(28)
})

it('a turn goes from model to model in the middle of its calls', async () => {
  await boot()
  const { agent } = await spine.ctx.agents.create()
  const to = (name: Name, reasoning?: string) => call('hand_over', { to: ROUTES[name] }, reasoning)
  replies = [
    to('claude', 'D1'),
    to('openai'),
    to('responses'),
    to('claude-adaptive', 'R1'),
    call('echo', { text: 'x' }, 'A1'),
    to('responses', 'A2'),
    call('echo', { text: 'y' }, 'R2'),
    to('deepseek', 'R3'),
    { text: 'done' },
  ]
  await ask(agent, 'go')
  expect(problems()).toEqual([])
  expect(server.requests.map(({ protocol }) => protocol)).toEqual([
    ...['chat', 'messages', 'chat', 'responses', 'messages', 'messages', 'responses', 'responses', 'chat'],
  ])
  expect(server.requests.map(thoughtsIn)).toEqual([[], [], [], [], [], ['A1'], ['R1'], ['R1', 'R2'], ['D1']])
  // With a budget a turn cannot begin to think in its middle; the next one may.
  expect(server.requests[1]!.body['thinking']).toBeUndefined()
  await agent.selectModel(ROUTES.claude)
  replies = [call('echo', { text: 'z' }, 'A3'), { reasoning: 'A4', text: 'again' }]
  await ask(agent, 'once more')
  expect(problems()).toEqual([])
  expect(last().body['thinking']).toMatchObject({ type: 'enabled' })
  expect(thoughtsIn(last())).toEqual(['A1', 'A2', 'A3'])
})

it.each([
  ['claude', 'responses'],
  ['responses', 'claude'],
  ['deepseek', 'claude'],
  ['openai', 'deepseek'],
] as [Name, Name][])(
  'a turn of %s that a crash broke off in a call goes on with %s, and then back',
  async (from, to) => {
    await boot()
    const { agent } = await spine.ctx.agents.create()
    await agent.selectModel(ROUTES[from])
    let running = () => {}
    const runs = new Promise<void>(resolve => {
      running = resolve
    })
    spine.ctx.tools.register(
      defineTool({
        name: 'hang',
        description: 'Never ends',
        parameters: {},
        execute: (_args, { signal }) => {
          running()
          return new Promise<string>((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
        },
      }),
    )
    replies = [call('hang', {}, 'T1')]
    agent.followup(createUserMessage({ content: 'go', source: { kind: 'user' } }))
    await runs
    const { id } = agent
    await spine.dispose()

    await boot()
    const resumed = (await spine.ctx.agents.resume(id)).agent
    await resumed.selectModel(ROUTES[to])
    replies = [{ text: 'going on' }]
    await ask(resumed, 'go on')
    expect(thoughtsIn(last())).toEqual([])
    await resumed.selectModel(ROUTES[from])
    replies = [{ text: 'back' }]
    await ask(resumed, 'and you?')
    expect(problems()).toEqual([])
    expect(thoughtsIn(last())).toEqual(from === 'openai' ? [] : ['T1'])
    expect(server.requests).toHaveLength(3)
  },
)
