import { type ModelServerOptions, type Reply, startModelServer } from '@cambium/testkit'
import { describe, expect, it } from 'vitest'
import { ask, askMessages, helloMessages } from './http-client.ts'

const PNG = Buffer.from('\x89PNG\r\n\x1a\n0000', 'latin1').toString('base64')

const user = { role: 'user', content: 'go' }
const use = (id: string, name = 'read', input: unknown = {}) => ({ type: 'tool_use', id, name, input })
const result = (tool_use_id: string, more: object = {}) => ({
  type: 'tool_result',
  tool_use_id,
  content: 'ok',
  ...more,
})
const text = (value: string, more: object = {}) => ({ type: 'text', text: value, ...more })
const says = (...content: object[]) => ({ role: 'assistant', content })
const gives = (...content: object[]) => ({ role: 'user', content })
const tool = (schema: unknown = { type: 'object' }, name = 'read', more: object = {}) => ({
  name,
  description: 'd',
  input_schema: schema,
  ...more,
})
const said = (...messages: unknown[]) => helloMessages({ messages, tools: [tool()] })
const offering = (...tools: unknown[]) => helloMessages({ tools })
const image = (source: object) => gives({ type: 'image', source: { type: 'base64', ...source } })
const mark = { cache_control: { type: 'ephemeral' } }
const thinking = { type: 'enabled', budget_tokens: 2048 }

async function answerTo(body: unknown, options: ModelServerOptions = {}) {
  const server = await startModelServer({ otherwise: 'ok', ...options })
  try {
    const { status, body: sent } = await askMessages(server.url, body)
    return { status, ...(status === 200 ? {} : JSON.parse(sent).error) }
  } finally {
    await server.close()
  }
}

/** What the server says itself when it answers with this reply. */
async function answered(reply: Reply): Promise<Record<string, unknown>[]> {
  const server = await startModelServer({ replies: [reply] })
  try {
    return JSON.parse((await askMessages(server.url, helloMessages({ stream: false }))).body).content
  } finally {
    await server.close()
  }
}

describe('the strict provider of Messages takes', () => {
  it.each<[string, unknown]>([
    ['a question', helloMessages()],
    ['two messages of a role in a row', said(user, user, says(text('a')), says(text('b')), user)],
    [
      'paired calls, more text behind the results',
      said(user, says(text('a'), use('a'), use('b')), gives(result('b'), result('a'), text('and'))),
    ],
    [
      'results in blocks, empty ones and failures',
      said(
        user,
        says(use('a'), use('b')),
        gives(result('a', { content: '' }), result('b', { content: [text('no')], is_error: true })),
      ),
    ],
    ['an image', said(image({ media_type: 'image/png', data: PNG }))],
    ['a system prompt in blocks', helloMessages({ system: [text('s', mark)] })],
    [
      'four breakpoints',
      helloMessages({
        system: [text('s', mark)],
        tools: [tool(undefined, 'a', mark)],
        messages: [gives(text('a', mark), text('b', mark))],
      }),
    ],
    ['thinking within its bounds', helloMessages({ thinking, temperature: 1 })],
    [
      'adaptive thinking where the model has it',
      helloMessages({ model: 'claude-opus-4-7', thinking: { type: 'adaptive' }, output_config: { effort: 'high' } }),
    ],
    ['a chosen tool', helloMessages({ tools: [tool()], tool_choice: { type: 'tool', name: 'read' } })],
    ['the beginning of an answer', said(user, says(text('It is')))],
  ])('%s', async (_, body) => {
    expect(await answerTo(body)).toEqual({ status: 200 })
  })

  it('its own thinking, as it was, in front of what it led to', async () => {
    for (const reply of [{ reasoning: 'hm' }, { reasoning: '' }, { reasoning: 'hm', redacted: true }]) {
      const content = await answered({ ...reply, toolCalls: [{ id: 'a', name: 'read' }] })
      const messages = [user, { role: 'assistant', content }, gives(result('a'))]
      expect(await answerTo(helloMessages({ messages, tools: [tool()], thinking }))).toEqual({ status: 200 })
      // A turn that has come to its end may be told without.
      const told = [user, says(text('a')), user]
      expect(await answerTo(helloMessages({ messages: told, thinking }))).toEqual({ status: 200 })
    }
  })
})

const first = (problem: string) => `messages.0.content.0: ${problem}`

describe('the strict provider of Messages refuses', () => {
  it.each<[string, unknown, string]>([
    ['no max_tokens', helloMessages({ max_tokens: undefined }), 'max_tokens: Field required'],
    ['an unknown field', helloMessages({ stop: ['a'] }), 'stop: Extra inputs are not permitted'],
    ['no messages', said(), 'messages: at least one message is required'],
    ['an answer first', said(says(text('a')), user), 'messages: first message must use the "user" role'],
    ['another role', said({ role: 'system', content: 'a' }), 'messages: Unexpected role "system"'],
    ['empty content', said({ role: 'user', content: '' }), 'messages.0: all messages must have non-empty content'],
    ['an empty text', said(gives(text(''))), first('text content blocks must be non-empty')],
    ['a blank text', said(gives(text(' \n'))), first('text content blocks must contain non-whitespace text')],
    [
      'a use without a result',
      said(user, says(use('a'), use('b')), gives(result('a'))),
      'messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: b.',
    ],
    ['a use at the end', said(user, says(use('a'))), 'messages.1: `tool_use` ids were found without'],
    [
      'a result behind other content',
      said(user, says(use('a')), gives(text('x'), result('a'))),
      'messages.1: `tool_use` ids were found without',
    ],
    [
      'a result a message too late',
      said(user, says(use('a')), user, gives(result('a'))),
      'messages.1: `tool_use` ids were found without',
    ],
    ['an orphan result', said(gives(result('a'))), first('unexpected `tool_use_id` found in `tool_result` blocks: a.')],
    [
      'a second result',
      said(user, says(use('a')), gives(result('a'), result('a'))),
      'messages.2.content.1: each tool_use must have a single result',
    ],
    [
      'an id twice',
      said(user, says(use('a')), gives(result('a')), says(use('a')), gives(result('a'))),
      'messages.3: `tool_use` ids must be unique',
    ],
    [
      'an id with other signs',
      said(user, says(use('a:1')), gives(result('a:1'))),
      "messages.1.content.0.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'",
    ],
    [
      'a name with other signs',
      said(user, says(use('a', 'x.y')), gives(result('a'))),
      'messages.1.content.0.tool_use.name: String should match pattern',
    ],
    [
      'arguments that are no object',
      said(user, says(use('a', 'read', '{}')), gives(result('a'))),
      'messages.1.content.0.tool_use.input: Input should be a valid dictionary',
    ],
    [
      'uses without tools',
      helloMessages({ messages: [user, says(use('a')), gives(result('a'))] }),
      'Requests which include `tool_use` or `tool_result` blocks must define tools',
    ],
    [
      'a failure that says nothing',
      said(user, says(use('a')), gives(result('a', { content: '', is_error: true }))),
      'messages.2.content.0.tool_result: content cannot be empty if `is_error` is true',
    ],
    [
      'a failure with an image',
      said(user, says(use('a')), gives(result('a', { content: [{ type: 'image' }], is_error: true }))),
      'messages.2.content.0.tool_result: all content must be type "text"',
    ],
    [
      'thinking of its own making',
      said(user, says({ type: 'thinking', thinking: 'a', signature: 'b' }, text('c')), user),
      'messages.1.content.0: Invalid `signature` in `thinking` block',
    ],
    [
      'redacted thinking of its own making',
      said(user, says({ type: 'redacted_thinking', data: 'b' }, text('c')), user),
      'messages.1.content.0: Invalid `data`',
    ],
    [
      'an open turn that began without thinking',
      helloMessages({ thinking, tools: [tool()], messages: [user, says(use('a')), gives(result('a'))] }),
      'messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`',
    ],
    [
      'too little thinking',
      helloMessages({ thinking: { type: 'enabled', budget_tokens: 1000 } }),
      'thinking.enabled.budget_tokens: Input should be greater than or equal to 1024',
    ],
    [
      'more thinking than answer',
      helloMessages({ max_tokens: 2048, thinking }),
      '`max_tokens` must be greater than `thinking.budget_tokens`',
    ],
    [
      'a temperature beside thinking',
      helloMessages({ thinking, temperature: 0 }),
      '`temperature` may only be set to 1 when thinking is enabled',
    ],
    [
      'a budget where thinking is adaptive',
      helloMessages({ model: 'claude-opus-4-7', thinking }),
      '"thinking.type.enabled" is not supported for this model',
    ],
    [
      'a temperature where there is none',
      helloMessages({ model: 'claude-opus-4-7', temperature: 0.5 }),
      '`temperature` is deprecated for this model',
    ],
    [
      'the beginning of an answer where none is taken',
      helloMessages({ model: 'claude-opus-4-6', messages: [user, says(text('a'))] }),
      'This model does not support assistant message prefill',
    ],
    [
      'a beginning that ends in blanks',
      said(user, says(text('a '))),
      'messages: final assistant content cannot end with trailing whitespace',
    ],
    [
      'five breakpoints',
      helloMessages({ messages: [gives(...Array(5).fill(text('a', mark)))] }),
      'A maximum of 4 blocks with cache_control may be provided. Found 5.',
    ],
    [
      'an image of another kind',
      said(image({ media_type: 'image/jpeg', data: PNG })),
      'messages.0.content.0.image.source.base64.data: The image was specified using the image/jpeg media type',
    ],
    [
      'an image that is another file',
      said(image({ media_type: 'image/png', data: 'AAAA' })),
      'Could not process image',
    ],
    [
      'an image kind that is none',
      said(image({ media_type: 'image/svg+xml', data: PNG })),
      'messages.0.content.0.image.source.base64.media_type: Input should be',
    ],
    [
      'an image that is no base64',
      said(image({ media_type: 'image/png', data: '%%%' })),
      'messages.0.content.0.image.source.base64.data: Invalid base64 data',
    ],
    [
      'a tool name too long',
      offering(tool({ type: 'object' }, 'a'.repeat(65))),
      "tools.0.custom.name: String should match pattern '^[a-zA-Z0-9_-]{1,64}$'",
    ],
    ['two tools of one name', offering(tool(), tool()), 'tools: Tool names must be unique.'],
    [
      'a schema of no object',
      offering(tool({ type: 'string' })),
      'tools.0.custom.input_schema: schema must be of type "object"',
    ],
    [
      'a property with other signs',
      offering(tool({ type: 'object', properties: { 'a b': {} } })),
      'tools.0.custom.input_schema.properties: Property keys should match pattern',
    ],
    [
      'a choice among no tools',
      helloMessages({ tool_choice: { type: 'auto' } }),
      'tool_choice may only be specified while providing tools',
    ],
    [
      'a blank stop',
      helloMessages({ stop_sequences: ['\n'] }),
      'stop_sequences: each stop sequence must contain non-whitespace',
    ],
    ['a lone surrogate', said({ role: 'user', content: 'a\ud83d' }), 'body.messages[0].content holds a lone surrogate'],
  ])('%s', async (_, body, message) => {
    expect(await answerTo(body)).toEqual({
      status: 400,
      type: 'invalid_request_error',
      message: expect.stringContaining(message),
    })
  })

  it('thinking that was changed', async () => {
    const content = await answered({ reasoning: 'hm', text: 'a' })
    const changed = content.map(block => (block['thinking'] ? { ...block, thinking: 'ha' } : block))
    const message = 'messages.1.content.0: Invalid `signature` in `thinking` block'
    expect(await answerTo(said(user, { role: 'assistant', content: changed }, user))).toMatchObject({ message })
  })

  it('a request without its version', async () => {
    const server = await startModelServer({ otherwise: 'ok' })
    const { status, body } = await ask(`${server.url}/messages`, helloMessages())
    expect([status, JSON.parse(body).error.message]).toEqual([400, 'anthropic-version: header is required'])
    await server.close()
  })

  it('what does not fit into its window, alone or with the answer', async () => {
    const long = helloMessages({ max_tokens: 100, messages: [{ role: 'user', content: 'x'.repeat(4_000) }] })
    expect(await answerTo(long, { contextWindow: 1_200 })).toEqual({ status: 200 })
    expect((await answerTo(long, { contextWindow: 900 })).message).toMatch(
      /^prompt is too long: \d+ tokens > 900 maximum/,
    )
    expect((await answerTo({ ...long, max_tokens: 500 }, { contextWindow: 1_200 })).message).toMatch(
      /^input length and `max_tokens` exceed context limit/,
    )
  })
})
