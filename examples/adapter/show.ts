/** Shows both adapters at work: a sum, a login, and an agent with a tool. The tree ends with it. */

import type {} from '@cambium/agent'
import type { Context } from '@cambium/core'
import { BlockAssembler, createUserMessage, textOf } from '@cambium/llm'
import type {} from '@cambium/loader'
import type {} from '@cambium/store/credentials'
import { defineTool } from '@cambium/tools'
import * as murmur from './murmur.ts'
import { type MurmurReply, startMurmurServer } from './murmur-server.ts'

export const name = 'show'
export const inject = ['llm', 'agents', 'tools', 'auth']

const said = (content: string) => createUserMessage({ content, source: { kind: 'user' } })

export function apply(ctx: Context) {
  ctx.tools.register(
    defineTool({
      name: 'weather',
      description: 'How the weather is in a city.',
      parameters: { city: { type: 'string', required: true } },
      readOnly: true,
      execute: ({ city }) => `rain in ${city}`,
    }),
  )
  ctx.app.main(async signal => {
    for (const sum of ['What is 12 * 7?', 'What is love?']) console.log(`> ${sum}\n${await answer(ctx, sum, signal)}`)
    const server = await startMurmurServer(replies(), access => access === 'hush-1')
    try {
      // A row says the same with `config`; here the address is known only now.
      await ctx.plugin(murmur, new murmur.Config({ providers: { murmur: { baseURL: server.url } } }))
      const io = { say: console.log, ask: async () => 'hush', signal }
      await ctx.auth.login('murmur', io)
      await talk(ctx, signal)
      await ctx.auth.logout('murmur')
    } finally {
      await server.close()
    }
    return 0
  })
}

/** One request without an agent: what it says, or why it failed. */
async function answer(ctx: Context, question: string, signal: AbortSignal): Promise<string> {
  const blocks = new BlockAssembler()
  const request = { provider: 'abacus', model: 'beads', messages: [said(question)], signal }
  for await (const chunk of ctx.llm.stream(request)) blocks.push(chunk)
  const { failure } = blocks.finish!
  return failure ? `${failure.code}: ${failure.message}; ${failure.fix}` : textOf({ content: blocks.blocks() })
}

async function talk(ctx: Context, signal: AbortSignal) {
  const { agent, dispose } = await ctx.agents.create({ model: 'murmur/soft' })
  signal.addEventListener('abort', () => agent.cancel({ by: 'user' }), { once: true })
  ctx.on('tools/result', ({ name, arguments: args }) => console.log(`  ${name} ${JSON.stringify(args)}`))
  console.log('> How is the weather in Bergen?')
  agent.followup(said('How is the weather in Bergen?'))
  await agent.whenIdle()
  const last = agent.session.last('assistant/message')
  if (last) console.log(textOf(last.data.message))
  await dispose()
}

const replies = (): MurmurReply[] => [
  [
    { think: 'I had better look.', seal: 'wax' },
    { call: { id: 'c1', name: 'weather', input: '{"city":"Bergen"}' } },
    { end: 'calls', spent: { read: 90, kept: 0, wrote: 20, thought: 8 } },
  ],
  [{ say: 'It rains' }, { say: ' in Bergen.' }, { end: 'said', spent: { read: 120, kept: 90, wrote: 6, thought: 0 } }],
]
