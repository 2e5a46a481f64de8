import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { LogRecord } from '@cambium/core'
import { createToolResultMessage, type LlmRequest, type Message } from '@cambium/llm'
import * as scripted from '@cambium/llm/scripted'
import { afterAll, describe, expect, it } from 'vitest'
import { type Answer, answer, tree, user } from './llm.ts'

const SCENARIO = fileURLToPath(new URL('fixtures/scenario/repair.yml', import.meta.url))
const folder = mkdtempSync(join(tmpdir(), 'scenario-'))
afterAll(() => rmSync(folder, { recursive: true }))

const tools = ['bash', 'read'].map(name => ({ name, description: '', parameters: {} }))
const result = (text: string): Message => createToolResultMessage({ callId: 'x', content: [{ type: 'text', text }] })
/** A call without its result would be given one: each result comes with its call. */
const exchange = (text: string): Message[] => [
  {
    id: `a-${text}`,
    role: 'assistant',
    content: [{ type: 'tool-call', id: 'x', name: 't', arguments: '{}' }],
    source: { kind: 'model', provider: 'p', model: 'm' },
  },
  result(text),
]

async function play(config: Partial<scripted.Config>, logs: LogRecord[] = []) {
  const root = await tree(logs)
  const fiber = root.plugin(scripted, config as scripted.Config)
  await fiber
  const next = (more: Partial<LlmRequest> = {}): Promise<Answer> =>
    answer(root, { provider: 'scripted', model: 'demo', ...more })
  return { next, fiber, root }
}

describe('a scenario', () => {
  it('answers turn by turn, looks at the request, and fills in what it saw', async () => {
    const { next } = await play({ scenario: SCENARIO })
    const go = user('please repair it')
    const first = await next({ messages: [go], tools })
    expect(first).toMatchObject({
      reasoning: 'The tests will tell.',
      text: 'I run the tests first.',
      reason: 'tool-calls',
    })
    expect(first.calls).toMatchObject([{ name: 'bash', arguments: '{"command":"npm test"}' }])
    const second = await next({ messages: [go, ...exchange('FAIL src/a.ts\nmore')], tools })
    expect(second.calls).toMatchObject([{ name: 'read', arguments: '{"file_path":"src/a.ts"}' }])
    expect(second.calls[0]?.id).not.toBe(first.calls[0]?.id)
    const third = await next({ messages: [go, ...exchange('content')], tools })
    expect(third.text).toBe('please repair it is done: content')
    expect(third.usage?.inputTokens).toBeGreaterThan(10)
    expect(third.usage?.outputTokens).toBeGreaterThan(5)
  })

  it('fails a request that it does not expect, with what it has instead', async () => {
    const { next } = await play({ scenario: SCENARIO })
    const wrong = await next({ messages: [user('hello')], tools })
    expect(wrong.failure).toMatchObject({ code: 'INVALID_REQUEST' })
    expect(wrong.failure?.message).toMatch(
      /repair\.yml:3 expects another request: the user's last message does not have "repair"; it is "hello"/,
    )
    expect((await next({ messages: [user('repair')] })).failure?.message).toMatch(
      /the tool bash is not offered, only none/,
    )
    await next({ messages: [user('repair')], tools })
    expect((await next({ messages: [user('repair'), ...exchange('all fine')], tools })).failure?.message).toMatch(
      /last tool result does not have/,
    )
  })

  it('fails a request behind its last answer', async () => {
    const { next } = await play({ turns: ['one'] })
    expect((await next()).text).toBe('one')
    expect((await next()).failure).toMatchObject({
      code: 'INVALID_REQUEST',
      message: 'scripted: the scenario has no answer after its last answer; the request ends with "hello"',
    })
  })

  it('that is left before its end says so, one that was never begun does not', async () => {
    const logs: LogRecord[] = []
    const { next, fiber } = await play({ turns: ['one', { text: 'two', times: 2 }] }, logs)
    await next()
    await fiber.dispose()
    expect(logs.map(({ level, text }) => `${level} ${text}`)).toEqual(['warn 2 answers of the scenario were not used'])
    const unused = await play({ turns: ['one'] }, logs)
    await unused.fiber.dispose()
    expect(logs).toHaveLength(1)
  })

  it('can fail, be cut, repeat, and serve other purposes', async () => {
    const { next } = await play({
      turns: [
        { text: 'a title', purpose: 'title' },
        { text: 'half', fault: { code: 'RATE_LIMIT', message: 'slow', retryAfterMs: 5 } },
        { fault: 'SERVER' },
        { text: 'cut', finish: 'max-tokens', usage: { input: 100, output: 7, cached: 60 } },
        { calls: [{ name: 'x', id: 'mine', arguments: '{"broken":' }] },
        { text: 'again', times: 2 },
      ],
    })
    expect(await next()).toMatchObject({
      text: 'half',
      failure: { code: 'RATE_LIMIT', message: 'slow', retryAfterMs: 5 },
    })
    expect((await next()).failure?.code).toBe('SERVER')
    expect((await next({ purpose: 'title' })).text).toBe('a title')
    expect((await next({ purpose: 'summary' })).failure?.message).toMatch(/no answer for a summary/)
    expect(await next()).toMatchObject({
      reason: 'max-tokens',
      usage: { inputTokens: 40, cacheReadTokens: 60, outputTokens: 7 },
    })
    expect((await next()).calls).toEqual([{ id: 'mine', name: 'x', arguments: '{"broken":' }])
    expect([(await next()).text, (await next()).text]).toEqual(['again', 'again'])
  })

  it('that takes its time can be cancelled', async () => {
    const { root } = await play({ turns: [{ text: 'slowly now', delayMs: 60_000 }] })
    const controller = new AbortController()
    const pending = answer(root, { provider: 'scripted', model: 'demo', signal: controller.signal })
    controller.abort()
    expect((await pending).reason).toBe('aborted')
  })

  it('that is not there, not YAML, or wrong fails where it is mounted, with its place', async () => {
    const write = (text: string) => {
      const path = join(folder, 'scenario.yml')
      writeFileSync(path, text)
      return path
    }
    const mount = (scenario: string) =>
      play({ scenario }).then(
        () => 'mounted',
        (error: Error) => error.message,
      )
    expect(await mount(join(folder, 'none.yml'))).toMatch(
      /LLM_SCENARIO_UNREADABLE: the scenario .*none\.yml cannot be read/,
    )
    expect(await mount(write('turns: [\n'))).toMatch(
      /LLM_SCENARIO_INVALID: the scenario is not YAML(?:.|\n)*scenario\.yml:\d+:\d+/,
    )
    expect(await mount(write('turns:\n  - text: a\n  - txt: b\n'))).toMatch(
      /a turn has no key "txt"(?:.|\n)*scenario\.yml:3(?:.|\n)*did you mean text\?/,
    )
    expect(await mount(write('turns:\n  - fault: RATELIMIT\n'))).toMatch(/fault names no failure code/)
    expect(await mount(write('turns:\n  - expect: { user: "/(/" }\n    text: x\n'))).toMatch(/is no pattern/)
    expect(await mount(write('turns: []\n'))).toMatch(/has no turns/)
    expect(await mount(write('- delayMs: 5\n'))).toMatch(/a turn says nothing/)
  })
})

describe('without a scenario', () => {
  it('every request is told that no model is connected', async () => {
    const { next } = await play({})
    for (const _ of [1, 2]) expect((await next()).text).toMatch(/No model is connected.*OPENAI_API_KEY/)
  })
})
