/** How long a step waits after what a provider says, over HTTP, in the protocols of two providers; nobody waits here. */

import { createUserMessage, type RetryNotice } from '@cambium/llm'
import { type BootedTree, bootTree, type ModelServer, type ReplyScript, startModelServer } from '@cambium/testkit'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { clearEnvironment } from './llm.ts'

let server: ModelServer
let tree: BootedTree
beforeEach(clearEnvironment)
afterEach(async () => {
  await tree?.dispose()
  await server?.close()
})

/** Asks once, and cancels when another attempt is told of. */
async function told(plugin: string, reply: ReplyScript) {
  server = await startModelServer({ otherwise: reply })
  tree = await bootTree(`
- name: '@cambium/llm'
- { name: '@cambium/llm/${plugin}', config: { providers: { test: { baseURL: ${server.url}, apiKey: k } } } }
- name: '@cambium/llm/retry'
- name: '@cambium/session'
- name: '@cambium/tools'
- name: '@cambium/agent'
- { name: '@cambium/agent/loop', config: { model: test/m } }
`)
  const { agent } = await tree.ctx.agents.create()
  let notice: RetryNotice | undefined
  tree.ctx.on('llm/retry', retry => {
    notice = retry
    agent.cancel({ by: 'user' })
  })
  agent.followup(createUserMessage({ content: 'go', source: { kind: 'user' } }))
  await agent.whenIdle()
  expect(server.requests).toHaveLength(1)
  const end = agent.session.last('turn/end')!.data.reason
  const error = end.kind === 'error' ? end.error : undefined
  return { notice, error, messages: agent.session.events().filter(event => event.type === 'assistant/message') }
}

describe.each(['openai', 'anthropic'])('%s', plugin => {
  it.each<[string, ReplyScript, string, number]>([
    ['429 with seconds', { fault: '429', retryAfter: 2 }, 'RATE_LIMIT', 2_000],
    ['429 with a date', { fault: '429', retryAfter: new Date(Date.now() + 40_000) }, 'RATE_LIMIT', 30_000],
    ['429 with a minute', { fault: '429', retryAfter: 60 }, 'RATE_LIMIT', 60_000],
    ['529', { fault: '529' }, 'SERVER', 475],
    ['an error event before the first delta', { text: 'a b c', fault: 'error-chunk', after: 0 }, 'SERVER', 475],
    [
      'an error event after some',
      { text: 'a b c d e f', pieceChars: 1, fault: 'error-chunk', after: 5 },
      'SERVER',
      475,
    ],
  ])('%s is tried again after that long at least', async (_, reply, code, leastMs) => {
    const { notice, messages } = await told(plugin, reply)
    expect(notice).toMatchObject({ failure: { code }, attempt: 2, maxAttempts: 5 })
    expect(notice!.delayMs).toBeGreaterThanOrEqual(leastMs)
    expect(notice!.delayMs).toBeLessThanOrEqual(Math.max(525, leastMs * 1.1 + 11_000))
    expect(messages).toEqual([])
  })

  it.each<[string, ReplyScript, string, RegExp]>([
    ['a wrong key', { fault: '401' }, 'AUTH', /key/],
    ['a bad request', { fault: '400' }, 'INVALID_REQUEST', /./],
    ['a wait of a day', { fault: '429', retryAfter: 86_400 }, 'RATE_LIMIT', /asks to wait 24 h/],
  ])('%s is told and not tried again', async (_, reply, code, message) => {
    const { notice, error } = await told(plugin, reply)
    expect(notice).toBeUndefined()
    expect(error).toMatchObject({ code, message: expect.stringMatching(message) })
  })
})
