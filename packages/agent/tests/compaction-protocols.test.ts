/** A compacted conversation in the words of each protocol, with thoughts that have to go back and servers that check it. */

import type { Agent } from '@cambium/agent'
import {
  type BootedTree,
  bootTree,
  type ModelProtocol,
  type ModelServer,
  type Reply,
  startModelServer,
} from '@cambium/testkit'
import { defineTool } from '@cambium/tools'
import { afterEach, expect, it } from 'vitest'
import { ask } from './boot.ts'
import { ends, isSummary, look, unpaired, words } from './compacting.ts'

let tree: BootedTree
let server: ModelServer
afterEach(async () => {
  await tree.dispose()
  await server.close()
})

const ROWS: Record<ModelProtocol, string> = {
  chat: '@cambium/llm/openai',
  messages: '@cambium/llm/anthropic',
  responses: '@cambium/llm/responses',
}
/** A model of each that thinks. */
const MODELS: Record<ModelProtocol, string> = { chat: 'm', messages: 'claude-opus-4-6', responses: 'gpt-5' }
const WINDOW = 12_000

async function boot(protocol: ModelProtocol): Promise<Agent> {
  let n = 0
  const answer = (): Reply => {
    const thinks = { pieceChars: 10_000, reasoning: `${words(300, 'hmmm')} ${++n}` }
    // Three steps a turn, the last of which calls nothing.
    if (n % 3) return { ...thinks, toolCalls: [look(90), look(100)] }
    return { ...thinks, text: words(250, 'said') }
  }
  server = await startModelServer({
    contextWindow: WINDOW,
    otherwise: request =>
      isSummary(request) ? { reasoning: 'let me see', text: '## Goal\nFind the leak.' } : answer(),
  })
  const base = protocol === 'messages' ? server.url.replace(/\/v1$/, '') : server.url
  const models = [{ id: MODELS[protocol], contextWindow: WINDOW, maxOutputTokens: 2_000 }]
  const provider = { baseURL: base, apiKey: 'test-key-of-nobody', models }
  tree = await bootTree(`
- name: '@cambium/llm'
- name: '${ROWS[protocol]}'
  config: { providers: { test: ${JSON.stringify(provider)} } }
- name: '@cambium/session'
- name: '@cambium/tools'
- name: '@cambium/agent'
- { name: '@cambium/agent/loop', config: { model: test/${MODELS[protocol]}, effort: high } }
- name: '@cambium/agent/compaction'
`)
  tree.ctx.tools.register(
    defineTool({
      name: 'look',
      description: 'Looks at something.',
      parameters: { words: { type: 'integer', required: true } },
      readOnly: true,
      execute: ({ words: count }) => `seen ${words(count)}`,
    }),
  )
  return (await tree.ctx.agents.create()).agent
}

for (const protocol of ['chat', 'messages', 'responses'] as const) {
  it(`is taken by the strict server of ${protocol}, step after step`, async () => {
    const agent = await boot(protocol)
    for (let turn = 0; turn < 10; turn++) await ask(agent, `PROMPT-${turn}`)
    expect(server.requests.flatMap(({ problem }) => problem ?? [])).toEqual([])
    const tiers = ends(agent.session).map(({ tier }) => tier)
    // First the thoughts of turns that are over, then what was said.
    expect(tiers).toEqual(expect.arrayContaining(['reasoning', 'summary']))
    expect(unpaired(agent.session.deriveMessages())).toEqual([])
    const { text } = server.requests.at(-1)!
    expect(text).toContain('Find the leak.')
    for (let turn = 0; turn < 10; turn++)
      expect(text.split(`PROMPT-${turn}"`).length + text.split(`PROMPT-${turn}\\n`).length).toBe(3)
  })
}
