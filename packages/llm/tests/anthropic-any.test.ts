import { createHash } from 'node:crypto'
import {
  type AssistantBlock,
  createUserMessage,
  type Message,
  newMessageId,
  type ResultBlock,
  type ToolSchema,
} from '@cambium/llm'
import { type ModelServer, startModelServer } from '@cambium/testkit'
import fc from 'fast-check'
import { afterEach, expect, it } from 'vitest'
import {
  ask,
  assistant,
  type Block,
  begin,
  bodies,
  called,
  claudeAt,
  close,
  delta,
  events,
  finish,
  open,
  PNG,
  result,
  stop,
} from './anthropic.ts'
import { answer } from './llm.ts'

let server: ModelServer
afterEach(() => server?.close())

const text = fc.oneof(
  fc.constantFrom('', ' ', '\n\t', 'plain', 'ends in space ', '\ud800', 'a\udc00b', '台🎉', '\u0000'),
  fc.string({ unit: 'binary', maxLength: 12 }),
)
const id = fc.constantFrom('a', 'b', 'functions.read:0', 'ü', '', 'toolu_1', 'x'.repeat(200))
const args = fc.oneof(
  fc.constantFrom('', '{}', '{"a":', '[]', 'null', '{ "a" : 1.0 }', '"\\ud800"', '{"k":"\\ud800"}'),
  fc.json(),
)
const name = fc.constantFrom('read', 'write', 'mcp.server/tool', 'n'.repeat(200), '')
const image = fc.constantFrom({ type: 'image', mediaType: 'image/png', data: PNG } as const)

/** As the strict server signs. */
const signature = (thinking: string) => createHash('sha256').update(`testkit thinking ${thinking}`).digest('base64')

const reasoning: fc.Arbitrary<AssistantBlock> = fc.oneof(
  fc.record({ type: fc.constant('reasoning' as const), text }),
  fc
    .constantFrom('', 'I think', 'long ago')
    .map(
      said => ({ type: 'reasoning', text: said, replay: { type: 'thinking', signature: signature(said) } }) as const,
    ),
  fc.record({
    type: fc.constant('reasoning' as const),
    text,
    replay: fc.constantFrom({ reasoning_details: [] }, 'x', null),
  }),
)
const said: fc.Arbitrary<AssistantBlock> = fc.oneof(
  { weight: 2, arbitrary: fc.record({ type: fc.constant('text' as const), text }) },
  { weight: 2, arbitrary: fc.tuple(id, args, name).map(([a, b, c]) => called(a, b, c)) },
  { weight: 2, arbitrary: reasoning },
)
const items: fc.Arbitrary<readonly ResultBlock[]> = fc.array(
  fc.oneof(fc.record({ type: fc.constant('text' as const), text }), image),
  { maxLength: 3 },
)
const message: fc.Arbitrary<Message> = fc.oneof(
  {
    weight: 3,
    arbitrary: fc
      .tuple(fc.array(said, { maxLength: 5 }), fc.constantFrom('test', 'other'))
      .map(([blocks, by]) => assistant(blocks, by)),
  },
  { weight: 3, arbitrary: fc.tuple(id, items, fc.boolean()).map(([a, b, c]) => result(a, b, c)) },
  { weight: 2, arbitrary: text.map(content => createUserMessage({ content, source: { kind: 'user' } })) },
  fc
    .tuple(text, image)
    .map(([content, picture]) =>
      createUserMessage({ content: [picture, { type: 'text', text: content }], source: { kind: 'user' } }),
    ),
  text.map(
    (content): Message => ({
      id: newMessageId(),
      role: 'system',
      content: [{ type: 'text', text: content }],
      source: { kind: 'plugin', plugin: 'test' },
    }),
  ),
)
const tool: fc.Arbitrary<ToolSchema> = fc.record({
  name,
  description: text,
  parameters: fc.constantFrom(
    {},
    { type: 'object', properties: { 'odd name': { type: 'string' }, ok: {} }, required: ['odd name'] },
    { anyOf: [{ type: 'object', properties: { a: { type: 'string' } } }] },
    { type: 'object', properties: { list: { type: 'array' } }, additionalProperties: false },
  ),
})
const request = fc.record(
  {
    messages: fc.array(message, { maxLength: 14 }),
    model: fc.constantFrom('claude-sonnet-4-5', 'claude-opus-4-1', 'claude-opus-4-8', 'claude-sonnet-5-5', 'unknown'),
    effort: fc.constantFrom('low', 'max', 'none'),
    tools: fc.array(tool, { maxLength: 3 }),
    system: text,
    maxTokens: fc.integer({ min: 1, max: 200_000 }),
    temperature: fc.constantFrom(0, 0.7, 1),
    stop: fc.array(text, { maxLength: 2 }),
  },
  { requiredKeys: ['messages', 'model'] },
)

it('the strict provider refuses no history, whatever is in it', async () => {
  server = await startModelServer({ otherwise: 'ok' })
  const root = await claudeAt(server.url)
  await fc.assert(
    fc.asyncProperty(request, async asked => {
      const got = await ask(root, asked)
      const { problem, body } = server.requests.at(-1)!
      expect(problem, JSON.stringify(body)).toBeUndefined()
      expect(got.text).toBe('ok')
    }),
    { numRuns: 250 },
  )
  // Nor was one said twice.
  expect(new Set(server.requests.map(({ problem }) => problem))).toEqual(new Set([undefined]))
})

it('a conversation that goes on has the same bytes in front, marks of the cache apart', async () => {
  server = await startModelServer({ otherwise: 'ok' })
  const root = await claudeAt(server.url)
  const turn = fc.array(fc.tuple(args, items), { maxLength: 3 })
  await fc.assert(
    fc.asyncProperty(fc.array(turn, { minLength: 1, maxLength: 4 }), async turns => {
      const messages: Message[] = [createUserMessage({ content: 'go', source: { kind: 'user' } })]
      let before: string[] = []
      for (const [at, calls] of turns.entries()) {
        await ask(root, { messages, tools: [] })
        const now = bodies(server)
          .at(-1)!
          .messages.map(item => JSON.stringify(item).replaceAll(MARK, ''))
        expect(now.slice(0, before.length)).toEqual(before)
        before = now
        messages.push(
          assistant(calls.length ? calls.map(([a], n) => called(`${at}-${n}`, a)) : [{ type: 'text', text: 'so' }]),
        )
        for (const [n, [, content]] of calls.entries()) messages.push(result(`${at}-${n}`, content))
        if (!calls.length) messages.push(createUserMessage({ content: 'next', source: { kind: 'user' } }))
      }
    }),
    { numRuns: 40 },
  )
})

const MARK = ',"cache_control":{"type":"ephemeral"}'

const FULL: readonly Block[] = [
  begin(),
  open(0, { type: 'thinking', thinking: '', signature: '' }),
  delta(0, { type: 'thinking_delta', thinking: 'Ich denke 台🎉' }),
  delta(0, { type: 'signature_delta', signature: 'c2ln' }),
  close(0),
  { type: 'ping' },
  open(1, { type: 'text', text: '' }),
  delta(1, { type: 'text_delta', text: 'I look at 台' }),
  close(1),
  open(2, { type: 'tool_use', id: 'toolu_1', name: 'read', input: {} }),
  delta(2, { type: 'input_json_delta', partial_json: '{"path":"🎉' }),
  delta(2, { type: 'input_json_delta', partial_json: '"}' }),
  close(2),
  finish('tool_use'),
  stop,
]

it('an answer that is cut or spoilt anywhere ends in a code, and in no call that was not meant', async () => {
  const bytes = Buffer.from(events(...FULL))
  // Whatever comes behind the reason to stop is not needed.
  const said = bytes.indexOf('"stop_reason":"tool_use"')
  const spoilt = fc.record({
    at: fc.nat(bytes.length - 1),
    how: fc.constantFrom('cut', 'byte', 'hole'),
    byte: fc.nat(255),
    size: fc.integer({ min: 1, max: 40 }),
    split: fc.integer({ min: 1, max: 64 }),
  })
  server = await startModelServer({
    otherwise: ({ headers }) => ({ raw: Buffer.from(String(headers['x-raw']), 'base64') }),
  })
  await fc.assert(
    fc.asyncProperty(spoilt, async ({ at, how, byte, size }) => {
      const copy = Buffer.from(bytes)
      copy[at] = byte
      const raw =
        how === 'cut'
          ? bytes.subarray(0, at)
          : how === 'byte'
            ? copy
            : Buffer.concat([bytes.subarray(0, at), bytes.subarray(at + size)])
      const root = await claudeAt(server.url, { headers: { 'x-raw': raw.toString('base64') } }, { idleMs: 200 })
      const got = await answer(root)
      await root.fiber.dispose()
      expect(got.chunks.at(-1)?.type).toBe('finish')
      if (got.failure)
        expect(got.failure.code).toMatch(/^(STREAM_CLOSED|MALFORMED_RESPONSE|EMPTY_RESPONSE|SERVER|INVALID_REQUEST)$/)
      if (how === 'cut' && at < said) expect(got.failure?.code).toMatch(/^(STREAM_CLOSED|MALFORMED_RESPONSE)$/)
      // A changed byte may change a value, never where it belongs.
      for (const call of got.calls) expect([call.arguments, got.reasoning + got.text].join()).not.toMatch(/"type"/)
      if (how === 'cut' && got.failure) expect(got.reason).toBe('error')
    }),
    { numRuns: 120 },
  )
})

it('an answer is put together as it is told, whatever its pieces', async () => {
  server = await startModelServer({ otherwise: ({ body }) => ({ raw: events(...FULL), split: Number(body['top_k']) }) })
  const root = await claudeAt(server.url)
  for (const split of [1, 2, 3, 5, 11, 64, 4096]) {
    const got = await ask(root, { messages: [], providerOptions: { top_k: split } })
    expect(got.blocks).toEqual([
      { type: 'reasoning', text: 'Ich denke 台🎉', replay: { type: 'thinking', signature: 'c2ln' } },
      { type: 'text', text: 'I look at 台' },
      { type: 'tool-call', id: 'toolu_1', name: 'read', arguments: '{"path":"🎉"}' },
    ])
  }
})
