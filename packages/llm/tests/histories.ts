/** Random logs and tools, as wrong as logs, other providers and authors of tools can make them. */

import type { JsonObject } from '@cambium/core'
import {
  type AssistantBlock,
  CallId,
  createUserMessage,
  type ImageBlock,
  type Message,
  MessageId,
  type MessageSource,
  type ResultBlock,
  type ToolSchema,
  type UserBlock,
} from '@cambium/llm'
import fc from 'fast-check'

const PNG = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='

const text = fc.oneof(
  { weight: 3, arbitrary: fc.constantFrom('hello', 'Looking.', 'ends in space \n', '台 and 😀') },
  { weight: 2, arbitrary: fc.constantFrom('', ' ', '\n\t', '\ud83d', 'a\udc00b', '\u0000\u0007', 'x'.repeat(3_000)) },
  fc.string({ unit: 'binary', maxLength: 20 }),
)

export const toolNames = [
  'read',
  'ls',
  'mcp.server/tool',
  'two words',
  'n'.repeat(200),
  'n'.repeat(201),
  'wërkzeug',
  '工具',
  '\ud83d',
  '',
]
const callIds = ['a', 'b', 'call_1', 'toolu_1', 'grep:3', 'x'.repeat(200), 'x'.repeat(201), 'ü 1', '\udc00', '']

const id = fc.constantFrom(...callIds).map(CallId)
const name = fc.constantFrom(...toolNames)
const args = fc.oneof(
  fc.constantFrom('{}', '', ' ', '{"path":"a"}', '{"path":', '[1]', 'null', '"x"', '{"a":1,"a":2}', '{"a":1e999}'),
  fc.constantFrom('{"a":"\\ud83d"}', '{"a":"\ud83d"}', '{"__proto__":{"a":1}}', '{ "a" : 1.0 }', '{"a":"台😀"}', 'NaN'),
  fc.json(),
)

/** What every protocol leaves in a block, and what none does. */
const foreign = fc.constantFrom(
  { type: 'thinking', signature: 'Zm9yZWlnbg==' },
  { type: 'redacted_thinking', data: 'Zm9yZWlnbg==' },
  { protocol: 'responses', item: { id: 'rs_1', summary: [], encrypted_content: 'Zm9yZWlnbg==' } },
  { reasoning_details: [{ type: 'reasoning.text', text: 'x', signature: 'y' }] },
  { extra_content: { google: { thought_signature: 'x' } } },
  'a text',
  17,
  null,
  [],
)

const image: fc.Arbitrary<ImageBlock> = fc
  .tuple(
    fc.constantFrom('image/png', 'image/png', 'image/png', 'image/jpeg', 'image/svg+xml', ''),
    fc.constantFrom(PNG, PNG, PNG, 'AAAA', '', '%%%', PNG.slice(0, 40)),
  )
  .map(([mediaType, data]) => ({ type: 'image', mediaType, data }))

const plain: fc.Arbitrary<ResultBlock> = fc.oneof(
  { weight: 4, arbitrary: text.map(value => ({ type: 'text', text: value }) as const) },
  image,
)
const result: fc.Arbitrary<UserBlock> = fc
  .tuple(id, fc.array(plain, { maxLength: 3 }), fc.boolean())
  .map(([toolCallId, content, failed]) => ({
    type: 'tool-result',
    toolCallId,
    content,
    ...(failed ? { isError: true as const } : {}),
  }))

const spoken: fc.Arbitrary<AssistantBlock> = fc.oneof(
  text.map(value => ({ type: 'text', text: value }) as const),
  fc.tuple(id, name, args).map(([callId, called, said]) => ({
    type: 'tool-call' as const,
    id: callId,
    name: called,
    arguments: said,
  })),
  text.map(value => ({ type: 'reasoning', text: value }) as const),
)
const marked = fc
  .tuple(spoken, fc.option(foreign, { nil: undefined }))
  .map(
    ([block, replay]): AssistantBlock =>
      block.type === 'text' || replay === undefined ? block : ({ ...block, replay } as AssistantBlock),
  )

let ids = 0
const message = (role: Message['role'], content: unknown, source: MessageSource): Message =>
  ({ id: MessageId(`m${++ids}`), role, content, source }) as Message

const others = fc.constantFrom('deepseek', 'anthropic', 'openai', 'openai-responses', 'gone')

/** A message as nobody's provider made it. */
const strange: fc.Arbitrary<Message> = fc.oneof(
  fc
    .array(fc.oneof({ weight: 3, arbitrary: plain as fc.Arbitrary<UserBlock> }, result), { maxLength: 4 })
    .map(content => message('user', content, { kind: 'user' })),
  result.map(block => message('user', [block], { kind: 'tool', callId: 'a' })),
  text.map(value => message('system', [{ type: 'text', text: value }], { kind: 'plugin', plugin: 'p' })),
  fc
    .tuple(fc.array(marked, { maxLength: 4 }), others)
    .map(([content, provider]) => message('assistant', content, { kind: 'model', provider, model: 'other' })),
  fc
    .array(spoken, { maxLength: 4 })
    .map(content => message('assistant', content, { kind: 'plugin', plugin: 'p', form: 'relay' })),
)

/** What the provider itself has said before, whole or broken off, each call with a result, two or none. */
function remembered(pool: readonly (readonly AssistantBlock[])[], sources: readonly MessageSource[]) {
  return fc
    .record({
      content: fc.constantFrom(...pool),
      source: fc.constantFrom(...sources),
      kept: fc.nat(4),
      results: fc.array(fc.nat(2), { minLength: 3, maxLength: 3 }),
      late: fc.boolean(),
    })
    .map(({ content, source, kept, results, late }): Message[] => {
      const said = kept ? content : content.slice(0, -1)
      const given = said
        .filter(block => block.type === 'tool-call')
        .flatMap(({ id: toolCallId }, index) =>
          Array.from({ length: results[index % 3]! }, () =>
            message('user', [{ type: 'tool-result', toolCallId, content: [{ type: 'text', text: 'done' }] }], {
              kind: 'tool',
              callId: toolCallId,
            }),
          ),
        )
      const person = late ? [createUserMessage({ content: 'go on', source: { kind: 'user' } })] : []
      return [message('assistant', said, source), ...person, ...given]
    })
}

/** `pool`: answers of the provider that is asked, as it gave them; `sources`: as whose they stand in the log. */
export function logs(pool: readonly (readonly AssistantBlock[])[], sources: readonly MessageSource[]) {
  const part = fc.oneof(
    { weight: 3, arbitrary: strange.map(one => [one]) },
    { weight: 2, arbitrary: remembered(pool, sources) },
    { weight: 1, arbitrary: fc.constant([createUserMessage({ content: 'go', source: { kind: 'user' } })]) },
  )
  return fc.array(part, { maxLength: 9 }).map(parts => parts.flat())
}

// Tools -----------------------------------------------------------------------------------------------------------

const key = fc.constantFrom('path', 'a b', '$filter', 'größe', 'x'.repeat(70), '\ud83d', '__proto__', '')
const { schema } = fc.letrec<{ schema: unknown; node: Record<string, unknown> }>(tie => ({
  schema: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    fc.constantFrom<unknown>(true, false, {}, null, 'string', { type: 'string' }, { type: 'text' }, { type: [] }),
    fc.constantFrom<unknown>({ $ref: '#' }, { $ref: '#/$defs/a' }, { $ref: '#/nowhere' }, { $ref: 'https://x/y' }),
    fc.constantFrom<unknown>({ enum: [] }, { enum: ['a', 1, null], type: 'string' }, { const: 1 }, { type: 'array' }),
    tie('node'),
  ),
  node: fc.record(
    {
      type: fc.constantFrom<unknown>(
        'object',
        'array',
        'string',
        ['string', 'null'],
        ['object', 'array'],
        'integer',
        3,
      ),
      properties: fc.oneof(fc.dictionary(key, tie('schema'), { maxKeys: 3 }), fc.constantFrom<unknown>([], null, 'x')),
      required: fc.constantFrom<unknown>(['path'], ['path', 'path', 'gone'], [], 'path', [1], ['a b']),
      items: tie('schema'),
      prefixItems: fc.array(tie('schema'), { maxLength: 2 }),
      anyOf: fc.array(tie('schema'), { maxLength: 2 }),
      oneOf: fc.array(tie('schema'), { maxLength: 2 }),
      allOf: fc.array(tie('schema'), { maxLength: 2 }),
      not: tie('schema'),
      additionalProperties: tie('schema'),
      patternProperties: fc.dictionary(key, tie('schema'), { maxKeys: 1 }),
      $defs: fc.record({ a: tie('schema'), b: tie('schema') }),
      description: text,
      enum: fc.constantFrom<unknown>([1, 'a'], [], 'a'),
    },
    { requiredKeys: [] },
  ),
}))

export const tools: fc.Arbitrary<ToolSchema[]> = fc.array(
  fc.record({ name, description: text, parameters: schema as fc.Arbitrary<JsonObject> }),
  { maxLength: 4 },
)
export { text }
