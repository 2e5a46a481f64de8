/** Compaction over HTTP, with a provider that refuses what is not in order or too long. */

import type { Agent } from '@cambium/agent'
import { afterEach, describe, expect, it } from 'vitest'
import { type Compacting, type CompactingOptions, compacting, ends, isSummary, look, readable, say, words } from './compacting.ts'

let tree: Compacting | undefined
afterEach(async () => {
  await tree?.close()
  tree = undefined
})

async function start(options: CompactingOptions): Promise<Agent> {
  tree = await compacting(options)
  return tree.agent()
}

const WINDOW = 8_000
const text = (request: { text: string }) => request.text

describe('what is old gives way first', () => {
  it('old results of tools are shortened, and no model is asked', async () => {
    const agent = await start({
      window: WINDOW,
      contextWindow: WINDOW,
      replies: [
        { toolCalls: [look(1_500)] },
        'one',
        { toolCalls: [look(1_500)] },
        'two',
        { toolCalls: [look(1_500)] },
        'three',
        { toolCalls: [look(900)] },
        'four',
      ],
    })
    await say(agent, 'first', 'second', 'third', 'fourth')
    console.log(ends(agent.session), tree!.server.requests.map(r => r.text.length))
    expect(ends(agent.session).map(({ tier, fits }) => [tier, fits])).toEqual([['results', true]])
    expect(tree!.server.requests.filter(isSummary)).toEqual([])
    tree!.server.expectDone()
    void readable
    void text
    void words
  })
})
