import { type ModelServerOptions, startModelServer } from '@cambium/testkit'
import { describe, expect, it } from 'vitest'
import { ask, hello } from './http-client.ts'

const user = { role: 'user', content: 'go' }
const made = (id: string, name = 'read', args = '{}') => ({ id, type: 'function', function: { name, arguments: args } })
const calls = (...tool_calls: object[]) => ({ role: 'assistant', content: '', tool_calls })
const result = (tool_call_id: string, content: unknown = 'done') => ({ role: 'tool', tool_call_id, content })
const said = (...messages: object[]) => hello({ messages })
const tool = (parameters?: unknown, name = 'read') => ({
  type: 'function',
  function: { name, description: 'd', parameters },
})
const offering = (...tools: unknown[]) => hello({ tools })
const property = (schema: unknown) => offering(tool({ type: 'object', properties: { p: schema } }))

async function answerTo(body: unknown, options: ModelServerOptions = {}) {
  const server = await startModelServer({ otherwise: 'ok', ...options })
  try {
    const { status, body: text } = await ask(server.url, body)
    return { status, error: status === 200 ? undefined : JSON.parse(text).error, problem: server.requests[0]?.problem }
  } finally {
    await server.close()
  }
}

describe('the strict provider takes', () => {
  it.each([
    ['a question', said(user)],
    [
      'parts',
      said({
        role: 'user',
        content: [
          { type: 'text', text: 'see' },
          { type: 'image_url', image_url: { url: 'data:image/png;base64,iVBORw0KGgo=' } },
        ],
      }),
    ],
    [
      'paired parallel calls, results in any order',
      said(user, calls(made('a'), made('b')), result('b'), result('a'), user),
    ],
    [
      'calls without content',
      said(user, { ...calls(made('a')), content: null }, result('a'), { role: 'assistant', content: 'ok' }),
    ],
    ['replayed reasoning', said(user, { ...calls(made('a')), reasoning_content: '' }, result('a'))],
    [
      'a tool with a schema',
      offering(
        tool({
          type: 'object',
          properties: { p: { type: ['string', 'null'] }, l: { type: 'array', items: { $ref: '#/$defs/x' } } },
          required: ['p'],
          $defs: { x: { enum: ['A', 1] } },
          additionalProperties: false,
        }),
      ),
    ],
    ['a schema that recurs', property({ $ref: '#' })],
    ['a tool without parameters', offering(tool())],
    ['a chosen tool', hello({ tools: [tool()], tool_choice: { type: 'function', function: { name: 'read' } } })],
  ])('%s', async (_, body) => {
    expect(await answerTo(body)).toEqual({ status: 200, error: undefined, problem: undefined })
  })
})

describe('the strict provider refuses', () => {
  it.each([
    [
      'a call without a result',
      said(user, calls(made('a'), made('b')), result('a'), user),
      'tool call "b" has no result before messages[3]',
    ],
    ['a call without a result at the end', said(user, calls(made('a'))), 'tool call "a" has no result'],
    [
      'a result without a call',
      said(user, result('a')),
      'messages[1] is the result of "a", which no message before it called',
    ],
    [
      'a second result',
      said(user, calls(made('a')), result('a'), result('a')),
      'messages[3] is a second result of tool call "a"',
    ],
    ['a result without an id', said(user, { role: 'tool', content: 'x' }), 'messages[1] names no tool_call_id'],
    [
      'an id twice in a message',
      said(user, calls(made('a'), made('a')), result('a')),
      'messages[1].tool_calls[1] repeats the id "a"',
    ],
    [
      'an id of a former turn',
      said(user, calls(made('a')), result('a'), calls(made('a')), result('a')),
      'messages[3].tool_calls[0] repeats the id "a"',
    ],
    ['empty user content', said({ role: 'user', content: '' }), 'messages[0].content is empty'],
    ['blank system content', said({ role: 'system', content: ' \n' }, user), 'messages[0].content is empty'],
    [
      'a blank text part',
      said({ role: 'user', content: [{ type: 'text', text: ' ' }] }),
      'messages[0].content[0].text is empty',
    ],
    ['no parts', said({ role: 'user', content: [] }), 'messages[0].content is empty'],
    [
      'an empty answer in the history',
      said(user, { role: 'assistant', content: '', reasoning_content: 'r' }, user),
      'messages[1].content is empty',
    ],
    ['null without calls', said(user, { role: 'assistant', content: null }), 'messages[1].content is empty'],
    ['an empty result', said(user, calls(made('a')), result('a', '')), 'messages[2].content is empty'],
    [
      'an empty list of calls',
      said(user, { role: 'assistant', content: 'x', tool_calls: [] }),
      'messages[1].tool_calls is not a list with at least one call',
    ],
    [
      'a called name that no tool can have',
      said(user, calls(made('a', 'two words')), result('a')),
      'messages[1].tool_calls[0] has an invalid tool name',
    ],
    [
      'arguments that are not JSON',
      said(user, calls(made('a', 'read', '{"a":')), result('a')),
      'messages[1].tool_calls[0].function.arguments is not the JSON of an object',
    ],
    ['an unknown role', said({ role: 'critic', content: 'x' }), 'messages[0].role cannot be "critic"'],
    ['no messages', said(), 'messages is not a list with at least one message'],
    ['a lone surrogate', said({ role: 'user', content: 'a\ud83d' }), 'body.messages[0].content holds a lone surrogate'],
    [
      'an image of another kind than it says',
      said({
        role: 'user',
        content: [{ type: 'image_url', image_url: { url: 'data:image/jpeg;base64,iVBORw0KGgo=' } }],
      }),
      'messages[0].content[0].image_url is neither a web address nor a data URL of an image',
    ],
    [
      'an image that is none',
      said({ role: 'user', content: [{ type: 'image_url', image_url: { url: 'file:///x' } }] }),
      'messages[0].content[0].image_url is neither a web address nor a data URL of an image',
    ],
    ['no model', hello({ model: '' }), 'model is missing'],
    ['no room for an answer', hello({ max_tokens: 0 }), 'max_tokens is not a positive integer'],
    [
      'the old name of the output limit for a model that reasons',
      hello({ model: 'gpt-5', max_tokens: 9 }),
      "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
      'unsupported_parameter',
    ],
    [
      'a temperature for a model that reasons',
      hello({ model: 'o3-mini', temperature: 0 }),
      "Unsupported parameter: 'temperature' is not supported with this model.",
      'unsupported_parameter',
    ],
    [
      'a field that OpenAI does not know',
      hello({ model: 'gpt-4o', thinking: { type: 'enabled' } }),
      'Unrecognized request argument supplied: thinking',
    ],
    [
      'reasoning in a message to OpenAI',
      hello({ model: 'gpt-5', messages: [user, { role: 'assistant', content: 'a', reasoning_content: 'r' }, user] }),
      "Additional properties are not allowed ('reasoning_content' was unexpected) - 'messages.1'",
    ],
    ['stream options without a stream', hello({ stream: false, stream_options: {} }), 'stream_options without stream'],
    ['an empty list of tools', offering(), 'tools is not a list with at least one tool'],
    [
      'a tool name with a dot',
      offering(tool(undefined, 'a.b')),
      'tools[0].function.name "a.b" does not match ^[a-zA-Z0-9_-]{1,64}$',
    ],
    [
      'a tool name too long',
      offering(tool(undefined, 'a'.repeat(65))),
      `tools[0].function.name "${'a'.repeat(65)}" does not match ^[a-zA-Z0-9_-]{1,64}$`,
    ],
    ['two tools of one name', offering(tool(), tool()), 'tools[1].function.name "read" is not unique'],
    ['a choice among no tools', hello({ tool_choice: 'auto' }), 'tool_choice without tools'],
    [
      'a choice of a missing tool',
      hello({ tools: [tool()], tool_choice: { function: { name: 'x' } } }),
      'tool_choice names "x", which is not among tools',
    ],
    [
      'a schema of a text',
      offering(tool({ type: 'string' })),
      'tools[0].function.parameters: schema must be of type "object"',
    ],
    [
      'anyOf at the top',
      offering(tool({ type: 'object', anyOf: [{}] })),
      'tools[0].function.parameters: "anyOf" is not allowed at the top level',
    ],
    ['a property that is no schema', property(['a']), 'tools[0].function.parameters.properties.p is not a schema'],
    [
      'a type that is none',
      property({ type: 'text' }),
      'tools[0].function.parameters.properties.p.type cannot be "text"',
    ],
    [
      'an array of anything',
      property({ type: 'array' }),
      'tools[0].function.parameters.properties.p: array schema missing items',
    ],
    [
      'an enum beside its type',
      property({ type: 'null', enum: ['A'] }),
      'tools[0].function.parameters.properties.p.enum value "A" does not fit its type',
    ],
    [
      'an enum of nothing',
      property({ enum: [] }),
      'tools[0].function.parameters.properties.p.enum is not a list with at least one value',
    ],
    [
      'required that is no list',
      offering(tool({ type: 'object', required: 'p' })),
      'tools[0].function.parameters.required is not a list of names',
    ],
    [
      'a reference to nowhere',
      property({ $ref: '#/$defs/x' }),
      'tools[0].function.parameters.properties.p.$ref names "#/$defs/x", which is not there',
    ],
    [
      'a circle of references',
      property({ $ref: '#/properties/p' }),
      'tools[0].function.parameters.properties.p.$ref leads round in a circle',
    ],
    ['a body that is no JSON', '{"model":', 'the body is not well-formed JSON in UTF-8: Unexpected end of JSON input'],
    [
      'a body that is no UTF-8',
      Buffer.from([0x7b, 0xff, 0x7d]),
      'the body is not well-formed JSON in UTF-8: The encoded data was not valid for encoding utf-8',
    ],
    ['a body that is no object', '[]', 'the body is not an object'],
  ] as [string, unknown, string, string?][])('%s', async (_, body, message, code) => {
    expect(await answerTo(body)).toEqual({
      status: 400,
      error: { message, type: 'invalid_request_error', code: code ?? null },
      problem: `refused: ${message}`,
    })
  })

  it('a request above its context window, output included, with the code of that', async () => {
    const long = hello({ messages: [{ role: 'user', content: 'x'.repeat(4_000) }] })
    expect(await answerTo(long, { contextWindow: 2_000 })).toMatchObject({ status: 200 })
    expect(await answerTo({ ...long, max_tokens: 1_000 }, { contextWindow: 2_000 })).toMatchObject({
      status: 400,
      error: { code: 'context_length_exceeded' },
    })
  })

  it('two messages of a role in a row where roles have to alternate', async () => {
    expect(await answerTo(said(user, user))).toMatchObject({ status: 200 })
    expect(await answerTo(said(user, user), { alternateRoles: true })).toMatchObject({
      status: 400,
      error: { message: 'messages[1] has the role of the message before it: user' },
    })
    const results = said(user, calls(made('a'), made('b')), result('a'), result('b'), user)
    expect(await answerTo(results, { alternateRoles: true })).toMatchObject({ status: 200 })
  })

  it('what a check of the test refuses', async () => {
    const check: ModelServerOptions['check'] = ({ body }) =>
      body.messages.some(message => message.reasoning_content === 'R1') ? undefined : 'reasoning_content is missing'
    expect(await answerTo(said(user), { check })).toMatchObject({
      status: 400,
      error: { message: 'reasoning_content is missing' },
    })
    const replayed = said(user, { role: 'assistant', content: 'a', reasoning_content: 'R1' }, user)
    expect(await answerTo(replayed, { check })).toMatchObject({ status: 200 })
  })
})

it('a refusal takes no reply, and the script is not called done', async () => {
  const server = await startModelServer({ replies: ['kept'] })
  await ask(server.url, said())
  expect((await ask(server.url, said(user))).status).toBe(200)
  expect(() => server.expectDone()).toThrow('request 0: refused: messages is not a list with at least one message')
  await server.close()
})

it('without strictness every body that is JSON gets its reply', async () => {
  expect(await answerTo(said(user, result('a')), { strict: false })).toMatchObject({ status: 200 })
  expect(await answerTo('{"model":', { strict: false })).toMatchObject({ status: 400 })
})
