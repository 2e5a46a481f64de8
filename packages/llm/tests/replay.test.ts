import { writeFileSync } from 'node:fs'
import { createUserMessage, type StreamChunk, textOf } from '@cambium/llm'
import { ReplayAdapter, recordedAnswers, recordedSummaries } from '@cambium/llm/replay'
import { bootTree, tempWorkspace } from '@cambium/testkit'
import { describe, expect, it } from 'vitest'

const AT = { turn: 1, step: 1 }
const header = { type: 'request/header', data: { config: { provider: 'acme', model: 'large', effort: 'low' } } }
const USAGE = { inputTokens: 9, outputTokens: 2, cacheReadTokens: 0, cacheWriteTokens: 0, reasoningTokens: 0 }
const answer = (content: object[], more: object = {}) => ({
  type: 'assistant/message',
  data: { ...AT, message: { id: 'm', role: 'assistant', content }, finish: 'stop', ...more },
})
const text = (value: string) => ({ type: 'text', text: value })
const CALL = { type: 'tool-call', id: 'c1', name: 'read', arguments: '{"file_path":"a"}' }
const REQUEST = {
  provider: 'replay',
  model: 'large',
  messages: [createUserMessage({ content: 'hi', source: { kind: 'user' } })],
}

async function all(stream: AsyncIterable<StreamChunk>): Promise<StreamChunk[]> {
  const chunks: StreamChunk[] = []
  for await (const chunk of stream) chunks.push(chunk)
  return chunks
}

describe('a replayed model', () => {
  it('answers each request as it once did: thoughts, calls, usage, ends and failures', async () => {
    const thought = { type: 'reasoning', text: 'hm', replay: { signature: 'x' } }
    const log = [
      header,
      answer([thought, text('a'.repeat(9_000)), CALL], { finish: 'tool-calls', usage: USAGE }),
      { type: 'tool/progress', data: 5 },
      { type: 'request/failed', data: { ...AT, attempt: 1, failure: { code: 'SERVER', message: 'down' } } },
      answer([text('Done.')]),
    ]
    await using tree = await open(log)
    const { llm } = tree.ctx
    const first = await all(llm.stream(REQUEST))
    const blocks = first.flatMap(chunk => (chunk.type === 'block-end' ? [chunk.block] : []))
    expect(blocks).toEqual([thought, text('a'.repeat(9_000)), CALL])
    expect(first.filter(({ type }) => type === 'text-delta').length).toBeGreaterThan(1)
    expect(first.slice(-2)).toEqual([
      { type: 'usage', usage: USAGE },
      { type: 'finish', reason: 'tool-calls' },
    ])
    expect(await all(llm.stream(REQUEST))).toMatchObject([
      { type: 'finish', reason: 'error', failure: { code: 'SERVER' } },
    ])
    const last = await all(llm.stream(REQUEST))
    expect(textOf({ content: last.flatMap(chunk => (chunk.type === 'block-end' ? [chunk.block] : [])) })).toBe('Done.')
    const spent = (await all(llm.stream(REQUEST))).at(-1)
    expect(spent).toMatchObject({
      failure: { code: 'INVALID_REQUEST', message: 'replay: the recording has no further answer' },
    })
  })

  it('is a provider like any other: of a tree, from a file', async () => {
    using folder = tempWorkspace({
      'log.jsonl': `${JSON.stringify(header)}\n${JSON.stringify(answer([text('Hello.')]))}\n`,
    })
    const row = (log: string) => `
- name: '@cambium/llm'
- { name: '@cambium/llm/replay', config: { provider: acme, log: ${log} } }
`
    const at = { file: folder.write('cordis.yml', ''), text: row('./log.jsonl') }
    const tree = await bootTree(at)
    expect(await tree.ctx.llm.resolve('acme')).toMatchObject({ route: { provider: 'acme', model: 'large' } })
    expect(await all(tree.ctx.llm.stream({ ...REQUEST, provider: 'acme' }))).toContainEqual({
      type: 'text-delta',
      index: 0,
      text: 'Hello.',
    })
    await tree.dispose()
    writeFileSync(`${folder.path}/log.jsonl`, '{"type":"request/header","data":{}}\nhalf a li')
    await expect(bootTree(at)).rejects.toThrow(/a line that is no JSON[\s\S]*log\.jsonl:2/)
    await expect(bootTree({ ...at, text: row('./none.jsonl') })).rejects.toThrow(/cannot be read/)
  })

  it('ends an answer that was cut off when its request is cancelled, and fails where nobody can cancel', async () => {
    const log = [header, answer([text('half')], { interrupted: true, usage: USAGE })]
    const stop = new AbortController()
    const adapter = new ReplayAdapter(log, { interrupted: () => stop.abort() })
    const chunks = await all(adapter.stream({ ...REQUEST, signal: stop.signal }))
    expect(chunks.map(({ type }) => type)).toEqual(['block-start', 'text-delta', 'usage'])
    await expect(all(new ReplayAdapter(log).stream(REQUEST))).rejects.toMatchObject({ failure: { code: 'ABORTED' } })
  })

  it('knows which answer comes next and what it was asked with, and gives summaries only to compactions', async () => {
    const summary = { id: 's', role: 'user', content: [text('[note]'), text('<summary>\nAll of it.\n</summary>')] }
    const replaced = {
      type: 'context/replaced',
      data: { from: 0, to: 1, message: { ...summary, source: { form: 'summary' } } },
    }
    const log = [header, answer([text('One.')]), replaced, answer([text('Two.')])]
    const adapter = new ReplayAdapter(log, { summaries: recordedSummaries(log) })
    expect(adapter.upcoming()).toMatchObject({ ...AT, config: header.data.config })
    expect(await all(adapter.stream({ ...REQUEST, purpose: 'compaction' }))).toContainEqual({
      type: 'block-end',
      index: 0,
      block: text('All of it.'),
    })
    await expect(all(adapter.stream({ ...REQUEST, purpose: 'title' }))).rejects.toThrow('no answer for a title')
    expect(adapter.left()).toBe(2)
  })

  it("counts what summaries cost, also one that was not had, and one that a person asked for in between is nobody's", async () => {
    const content = [text('<summary>\nAll.\n</summary>')]
    const replaced = { type: 'context/replaced', data: { message: { content, source: { form: 'summary' } } } }
    const started = { type: 'compaction/started', data: {} }
    const spent = [{ provider: 'acme', model: 'large', usage: USAGE }]
    const error = { code: 'SERVER', message: 'it was down' }
    const log = [
      ...[{ type: 'turn/start', data: {} }, started, { type: 'compaction/ended', data: { error, spent } }],
      ...[{ type: 'turn/end', data: {} }, started, replaced, { type: 'compaction/ended', data: { spent } }],
      ...[{ type: 'turn/start', data: {} }, started, replaced, { type: 'compaction/ended', data: { spent } }],
    ]
    const adapter = new ReplayAdapter(log, { summaries: recordedSummaries(log) })
    const chunks: StreamChunk[] = []
    const ask = async () => {
      for await (const chunk of adapter.stream({ ...REQUEST, purpose: 'compaction' })) chunks.push(chunk)
    }
    await expect(ask()).rejects.toThrow('it was down')
    expect(chunks.splice(0)).toEqual([{ type: 'usage', usage: USAGE }])
    await ask()
    expect(chunks).toContainEqual({ type: 'usage', usage: USAGE })
    expect(chunks).toContainEqual({ type: 'text-delta', index: 0, text: 'All.' })
    await expect(ask()).rejects.toThrow('no answer for a compaction')
  })

  it('passes over what a damaged log has broken', () => {
    const broken = [null, 5, {}, { message: 5 }, { message: { content: 'x' } }].map(data => ({
      type: 'assistant/message',
      data,
    }))
    expect(recordedAnswers([...broken, { type: 'request/header', data: { config: 7 } }])).toEqual([])
    expect(recordedSummaries([{ type: 'context/replaced', data: { message: { content: 5 } } }])).toEqual([])
  })
})

async function open(log: readonly { type: string; data: unknown }[]) {
  const tree = await bootTree(`- name: '@cambium/llm'`)
  tree.ctx.llm.registerAdapter('replay', new ReplayAdapter(log))
  return Object.assign(tree, { [Symbol.asyncDispose]: () => tree.dispose() })
}
