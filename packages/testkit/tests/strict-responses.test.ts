import { type ModelServerOptions, type Reply, startModelServer } from '@cambium/testkit'
import { describe, expect, it } from 'vitest'
import { askResponses, helloResponses } from './http-client.ts'

type Item = Record<string, unknown>

const user = { role: 'user', content: [{ type: 'input_text', text: 'go' }] }
const says = (text = 'a', more: object = {}) => ({
  type: 'message',
  role: 'assistant',
  content: [{ type: 'output_text', text }],
  ...more,
})
const made = (call_id: string, more: object = {}) => ({
  type: 'function_call',
  call_id,
  name: 'read',
  arguments: '{}',
  ...more,
})
const result = (call_id: string, output: unknown = 'ok') => ({ type: 'function_call_output', call_id, output })
const tool = (more: object = {}) => ({
  type: 'function',
  name: 'read',
  description: 'd',
  parameters: { type: 'object' },
  strict: false,
  ...more,
})
const said = (...input: unknown[]) => helloResponses({ input })
const offering = (...tools: unknown[]) => helloResponses({ tools })
const strictly = (parameters: unknown) => offering(tool({ strict: undefined, parameters }))

async function answerTo(body: unknown, options: ModelServerOptions = {}) {
  const server = await startModelServer({ otherwise: 'ok', ...options })
  try {
    const { status, body: sent } = await askResponses(server.url, body)
    return { status, ...(status === 200 ? {} : JSON.parse(sent).error) }
  } finally {
    await server.close()
  }
}

/** The items that the server itself answers with. */
async function answered(reply: Reply, more: object = {}): Promise<Item[]> {
  const server = await startModelServer({ replies: [reply] })
  try {
    return JSON.parse((await askResponses(server.url, helloResponses({ stream: false, ...more }))).body).output
  } finally {
    await server.close()
  }
}

const thoughtful: Reply = { reasoning: 'hm', toolCalls: [{ id: 'a', name: 'read' }] }

describe('the strict provider of Responses takes', () => {
  it.each<[string, unknown]>([
    ['a question', helloResponses()],
    ['a question as a text', helloResponses({ input: 'hello' })],
    [
      'calls and outputs, apart',
      said(user, made('a'), made('b'), result('b'), user, result('a', [{ type: 'input_text', text: 'x' }])),
    ],
    [
      'an image',
      said({ role: 'user', content: [{ type: 'input_image', image_url: 'data:image/png;base64,iVBORw0KGgo=' }] }),
    ],
    ['an answer in the history', said(user, says('a', { id: 'msg_1', status: 'completed' }), user)],
    ['a lax tool', offering(tool({ parameters: { type: 'object', properties: { a: { type: 'string' } } } }))],
    [
      'a strict tool',
      strictly({ type: 'object', properties: { a: { type: 'string' } }, required: ['a'], additionalProperties: false }),
    ],
    ['limits and reasoning', helloResponses({ max_output_tokens: 16, reasoning: { effort: 'low', summary: 'auto' } })],
    ['a temperature where the model has one', helloResponses({ model: 'gpt-4.1', temperature: 0, include: [] })],
  ])('%s', async (_, body) => {
    expect(await answerTo(body)).toEqual({ status: 200 })
  })

  it('its own reasoning in front of what it led to, with ids and without', async () => {
    for (const reply of [thoughtful, { ...thoughtful, redacted: true }, { ...thoughtful, reasoning: '' }]) {
      const items = await answered(reply)
      expect(await answerTo(said(user, ...items, result('a')))).toEqual({ status: 200 })
      const bare = items.map(({ id: _, ...item }) => item)
      expect(await answerTo(said(user, ...bare, result('a')))).toEqual({ status: 200 })
    }
  })

  it('a stored item by its id alone, from the server that stored it', async () => {
    const server = await startModelServer({ replies: [thoughtful, 'ok'] })
    const first = await askResponses(server.url, helloResponses({ stream: false, store: true, include: [] }))
    const items: Item[] = JSON.parse(first.body).output
    const references = items.map(({ id }) => ({ type: 'item_reference', id }))
    const told = said(user, references[0], items[1], result('a'))
    expect((await askResponses(server.url, { ...told, store: true })).status).toBe(200)
    const refused = await askResponses(server.url, told)
    expect(JSON.parse(refused.body).error.message).toMatch(
      /not found. Items are not persisted when `store` is set to false/,
    )
    await server.close()
  })
})

describe('the strict provider of Responses refuses', () => {
  it.each<[string, unknown, string]>([
    ['an unknown field', helloResponses({ messages: [] }), "Unknown parameter: 'messages'."],
    ['a stop', helloResponses({ stop: ['a'] }), "Unknown parameter: 'stop'."],
    [
      'a wish for usage',
      helloResponses({ stream_options: { include_usage: true } }),
      "Unknown parameter: 'stream_options.include_usage'.",
    ],
    ['no input', said(), "Invalid 'input': it is empty."],
    [
      'a little room for an answer',
      helloResponses({ max_output_tokens: 15 }),
      "Invalid 'max_output_tokens': integer below minimum value.",
    ],
    [
      'a temperature where there is none',
      helloResponses({ model: 'gpt-5', temperature: 0.5 }),
      "Unsupported parameter: 'temperature' is not supported with this model.",
    ],
    [
      'reasoning where there is none',
      helloResponses({ model: 'gpt-4o', include: [], reasoning: { effort: 'low' } }),
      "Unsupported parameter: 'reasoning.effort'",
    ],
    [
      'encrypted reasoning where there is none',
      helloResponses({ model: 'gpt-4o' }),
      'Encrypted content is not supported with this model.',
    ],
    ['an item that is none', said({ type: 'tool_use' }), "Invalid value: 'tool_use' for 'input[0].type'."],
    ['a field that no item has', said({ ...user, name: 'x' }), "Unknown parameter: 'input[0].name'."],
    [
      'input words in an answer',
      said(user, { role: 'assistant', content: user.content }),
      "Invalid value: 'input_text'. Supported values are: 'output_text', 'refusal'.",
    ],
    ['empty content', said({ role: 'user', content: [] }), "Invalid 'input[0].content': it is empty."],
    [
      'a blank text',
      said({ role: 'user', content: [{ type: 'input_text', text: ' ' }] }),
      "Invalid 'input[0].content[0].text': it is empty.",
    ],
    [
      'an image that is none',
      said({ role: 'user', content: [{ type: 'input_image', image_url: 'data:text/plain;base64,AAAA' }] }),
      "Invalid 'input[0].content[0].image_url'.",
    ],
    [
      'an output without a call',
      said(user, result('a')),
      'No tool call found for function call output with call_id a.',
    ],
    [
      'an output before its call',
      said(user, result('a'), made('a')),
      'No tool call found for function call output with call_id a.',
    ],
    ['a call without an output', said(user, made('a'), user), 'No tool output found for function call a.'],
    [
      'a second output',
      said(user, made('a'), result('a'), result('a')),
      'Duplicate function call output found for call_id a.',
    ],
    [
      'a call id twice',
      said(user, made('a'), result('a'), made('a'), result('a')),
      'Duplicate function call found with call_id a.',
    ],
    [
      'a call id too long',
      said(user, made('a'.repeat(65)), result('a'.repeat(65))),
      "Invalid 'input[1].call_id': string too long.",
    ],
    [
      'an item id of another kind',
      said(user, made('a', { id: 'call_1' }), result('a')),
      "Invalid 'input[1].id': 'call_1'. Expected an ID that begins with 'fc'.",
    ],
    [
      'an item twice',
      said(user, says('a', { id: 'msg_1' }), says('a', { id: 'msg_1' }), user),
      'Duplicate item found with id msg_1.',
    ],
    [
      'reasoning of its own making',
      said(user, { type: 'reasoning', summary: [], encrypted_content: 'gAAA' }, says()),
      'could not be verified',
    ],
    [
      'reasoning without its content',
      said(user, { type: 'reasoning', id: 'rs_1', summary: [] }, says()),
      "Item with id 'rs_1' not found.",
    ],
    [
      'a schema that is open where it says nothing of strictness',
      strictly({ type: 'object', properties: {} }),
      "In context=(), 'additionalProperties' is required to be supplied and to be false.",
    ],
    [
      'a property that is not required',
      strictly({ type: 'object', properties: { a: {} }, additionalProperties: false }),
      "Missing 'a'.",
    ],
    [
      'a tool in the shape of chat completions',
      offering({ type: 'function', function: { name: 'a' } }),
      "Unknown parameter: 'tools[0].function'.",
    ],
    [
      'a tool name with a dot',
      offering(tool({ name: 'a.b' })),
      "Invalid 'tools[0].name': string does not match pattern.",
    ],
    [
      'a choice of a missing tool',
      helloResponses({ tools: [tool()], tool_choice: { type: 'function', name: 'x' } }),
      "Tool choice 'x' not found in 'tools' parameter.",
    ],
    ['a lone surrogate', helloResponses({ input: 'a\ud83d' }), 'body.input holds a lone surrogate'],
  ])('%s', async (_, body, message) => {
    expect(await answerTo(body)).toMatchObject({
      status: 400,
      type: 'invalid_request_error',
      message: expect.stringContaining(message),
    })
  })

  it('reasoning that what it led to does not follow, and the reverse', async () => {
    const [thought, called] = await answered(thoughtful)
    const lost = /of type 'reasoning' was provided without its required following item/
    expect((await answerTo(said(user, thought))).message).toMatch(lost)
    expect((await answerTo(said(user, thought, user))).message).toMatch(lost)
    expect((await answerTo(said(user, thought, says(), called, result('a')))).message).toMatch(lost)
    expect((await answerTo(said(user, called, result('a')))).message).toMatch(/without its required 'reasoning' item/)
    const { id: _, ...bare } = called!
    expect(await answerTo(said(user, bare, result('a')))).toEqual({ status: 200 })
  })

  it('reasoning under another id', async () => {
    const [thought, called] = await answered(thoughtful)
    const { message, code } = await answerTo(said(user, { ...thought, id: 'rs_other' }, called, result('a')))
    expect(code).toBe('invalid_encrypted_content')
    expect(message).toContain('rs_other could not be verified')
  })

  it('what does not fit into its window', async () => {
    expect(await answerTo(helloResponses({ input: 'x'.repeat(4_000) }), { contextWindow: 900 })).toMatchObject({
      code: 'context_length_exceeded',
    })
  })
})
