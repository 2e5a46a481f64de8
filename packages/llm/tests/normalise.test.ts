import type { JsonObject } from '@cambium/core'
import {
  type AssistantBlock,
  type Message,
  normaliseMessages,
  normaliseRequest,
  type ToolSchema,
  type UserBlock,
} from '@cambium/llm'
import { type ModelServer, startModelServer } from '@cambium/testkit'
import fc from 'fast-check'
import { afterAll, describe, expect, it } from 'vitest'
import { answer, connected, user } from './llm.ts'

let count = 0
const says = (...content: AssistantBlock[]): Message => ({
  id: `m${++count}`,
  role: 'assistant',
  content,
  source: { kind: 'model', provider: 'test', model: 'm' },
})
const gives = (...content: UserBlock[]): Message => ({
  id: `m${++count}`,
  role: 'user',
  content,
  source: { kind: 'user' },
})
const call = (id: string, name = 'read', args = '{}'): AssistantBlock => ({
  type: 'tool-call',
  id,
  name,
  arguments: args,
})
const result = (id: string, text = 'ok'): UserBlock => ({
  type: 'tool-result',
  toolCallId: id,
  content: [{ type: 'text', text }],
})
const text = (value: string) => ({ type: 'text' as const, text: value })

/** A history as a line: `A` text, `c:id` call, `r:id=text` result, `u` user text. */
function outline(messages: readonly Message[]): string {
  const block = (item: UserBlock | AssistantBlock): string => {
    if (item.type === 'tool-call') return `c:${item.id}`
    if (item.type === 'tool-result') {
      const said = item.content.map(inner => (inner.type === 'text' ? inner.text : 'image')).join()
      return `r:${item.toolCallId}=${said.length > 12 ? '…' : said}${item.isError ? '!' : ''}`
    }
    return item.type === 'text' ? item.text : item.type
  }
  return messages.map(({ role, content }) => `${role[0]}[${content.map(block).join(' ')}]`).join(' ')
}
const normal = (...messages: Message[]) => outline(normaliseMessages(messages).messages)

describe('calls and results', () => {
  it('that are missing a result get one that says so, right behind their message', () => {
    expect(normal(user('go'), says(call('a'), call('b')), gives(result('b')), user('more'))).toBe(
      'u[go] a[c:a c:b] u[r:a=…!] u[r:b=ok] u[more]',
    )
    expect(normal(user('go'), says(text('x'), call('a')))).toBe('u[go] a[x c:a] u[r:a=…!]')
  })

  it('are in the order of the calls, before what else was said', () => {
    expect(
      normal(says(call('a'), call('b')), user('steer'), gives(result('b', '2'), text('and'), result('a', '1'))),
    ).toBe('a[c:a c:b] u[r:a=1] u[r:b=2] u[steer] u[and]')
  })

  it('are one to one: results without a call, before it, or a second time are dropped', () => {
    expect(
      normal(
        gives(result('a', 'early')),
        says(call('a')),
        gives(result('a', '1')),
        gives(result('a', '2')),
        gives(result('z')),
      ),
    ).toBe('a[c:a] u[r:a=1]')
  })

  it('with repeated ids keep their own results under ids of their own', () => {
    expect(
      normal(
        says(call('g:3'), call('g:3')),
        gives(result('g:3', '1')),
        gives(result('g:3', '2')),
        says(call('g:3')),
        gives(result('g:3', '3')),
      ),
    ).toBe('a[c:g:3 c:g:3-2] u[r:g:3=1] u[r:g:3-2=2] a[c:g:3-3] u[r:g:3-3=3]')
  })

  it('of a later call of the same id do not answer the earlier one', () => {
    expect(normal(says(call('a')), user('again'), says(call('a')), gives(result('a', '2')))).toBe(
      'a[c:a] u[r:a=…!] u[again] a[c:a-2] u[r:a-2=2]',
    )
  })

  it('may have empty ids', () => {
    expect(normal(says(call(''), call('')), gives(result('', '1'), result('', '2')))).toBe(
      'a[c:call c:call-2] u[r:call=1] u[r:call-2=2]',
    )
  })
})

describe('content', () => {
  it('that is blank is left out, with the message when nothing else is in it', () => {
    expect(
      normal(
        user('  '),
        says(text('\n')),
        says({ type: 'reasoning', text: 'hm' }),
        gives(text(''), text('x')),
        says(text(' '), call('a')),
      ),
    ).toBe('u[x] a[c:a] u[r:a=…!]')
  })

  it('of an empty result says that there was none', () => {
    const empty: UserBlock = { type: 'tool-result', toolCallId: 'a', content: [] }
    expect(normal(says(call('a')), gives(empty))).toBe('a[c:a] u[r:a=(no output)]')
    expect(normal(says(call('a')), gives(result('a', ' ')))).toBe('a[c:a] u[r:a=(no output)]')
  })

  it('is valid Unicode, in arguments too', () => {
    const { messages } = normaliseMessages([
      user('bad \ud800 end'),
      says(call('a', 'read', '{"p":"\\ud83d"}'), call('b', 'read', '{"p":"\udc00"}')),
    ])
    expect(JSON.stringify(messages)).not.toMatch(/\\\\?ud[89a-f]/i)
    expect(JSON.stringify(messages)).toContain('bad \ufffd end')
  })

  it('of arguments is a JSON object, with what the model wrote in it', () => {
    const args = (written: string) => {
      const { messages } = normaliseMessages([says(call('a', 'read', written))])
      const block = messages[0]?.content[0] as { arguments: string }
      return block.arguments
    }
    expect(args('{"a": 1}')).toBe('{"a": 1}')
    expect(args(' ')).toBe('{}')
    expect(args('{"a":')).toBe('{"_invalid_arguments":"{\\"a\\":"}')
    expect(args('[1]')).toBe('{"_invalid_arguments":"[1]"}')
    const deep = `{"a":${'['.repeat(50_000)}"\\ud800"${']'.repeat(50_000)}}`
    expect(args(deep)).toBe(JSON.stringify({ _invalid_arguments: deep.slice(0, 4_000) }))
  })

  it('that is fine comes back as the very same objects, request after request', () => {
    const history = [user('go'), says(call('a')), gives(result('a')), says(text('done'))]
    const { messages } = normaliseMessages(history)
    expect(messages.every((message, at) => message === history[at])).toBe(true)
    const broken = [user('go'), says(call('a'), call('a')), gives(result('a'), result('a'), text('x')), says(call('b'))]
    const [first, second] = [normaliseMessages(broken), normaliseMessages(broken)]
    expect(first.messages.every((message, at) => message === second.messages[at])).toBe(true)
  })

  it('comes out the same whether a history grew, turned back, or is new', () => {
    const id = fc.constantFrom('a', 'b', '')
    const blocks = fc.array(id, { maxLength: 3 })
    const message = fc.oneof(
      blocks.map(ids => () => says(...ids.map(name => call(name)))),
      blocks.map(ids => () => gives(...ids.map(name => result(name)))),
      fc.constant(() => user('go on')),
    )
    const histories = fc.array(message, { minLength: 1, maxLength: 12 })
    fc.assert(
      fc.property(histories, histories, fc.nat(12), (start, other, at) => {
        const grown = start.map(make => make())
        const turned = [...grown.slice(0, at), ...other.map(make => make())]
        for (const history of [...grown.map((_, end) => grown.slice(0, end + 1)), turned, grown, turned]) {
          const { messages, callIds } = normaliseMessages(history)
          const fresh = normaliseMessages(structuredClone(history))
          expect(messages).toEqual(fresh.messages)
          expect(callIds).toEqual(fresh.callIds)
        }
      }),
      { numRuns: 100 },
    )
  })

  it('of the input is never changed', () => {
    const history = [says(call('a', '!', 'x'), call('a')), gives(result('a', ''), text(''))]
    const before = structuredClone(history)
    normaliseRequest({ provider: 'p', model: 'm', messages: history })
    expect(history).toEqual(before)
  })
})

describe('tools', () => {
  const tool = (name: string, parameters: JsonObject = {}): ToolSchema => ({ name, description: 'd', parameters })
  const schema = (parameters: unknown) => {
    const { request } = normaliseRequest({
      provider: 'p',
      model: 'm',
      messages: [],
      tools: [tool('t', parameters as JsonObject)],
    })
    return request.tools?.[0]?.parameters
  }

  it('have valid names that stay apart, and each name once', () => {
    const { request, toolNames } = normaliseRequest({
      provider: 'p',
      model: 'm',
      messages: [],
      tools: [tool('ok'), tool('a.b'), tool('a/b'), tool('ok'), tool('x'.repeat(80))],
    })
    const names = request.tools?.map(({ name }) => name) ?? []
    expect(names).toHaveLength(4)
    expect(new Set(names).size).toBe(4)
    for (const name of names) expect(name).toMatch(/^[a-zA-Z0-9_-]{1,64}$/)
    expect([...toolNames.values()]).toEqual(['a.b', 'a/b', 'x'.repeat(80)])
  })

  it('are left out of a request that has none', () => {
    expect(normaliseRequest({ provider: 'p', model: 'm', messages: [], tools: [] }).request).not.toHaveProperty('tools')
  })

  it('have a schema of type object, whatever theirs is', () => {
    expect(schema({})).toEqual({ type: 'object', properties: {} })
    expect(schema({ type: 'string' })).toEqual({ type: 'object', properties: {} })
    expect(schema(null)).toEqual({ type: 'object', properties: {} })
    expect(schema({ type: 'object', properties: { a: { type: 'string' } }, required: ['a'] })).toEqual({
      type: 'object',
      properties: { a: { type: 'string' } },
      required: ['a'],
    })
  })

  it('have no alternatives at the top: their properties are joined', () => {
    expect(
      schema({
        anyOf: [{ type: 'object', properties: { a: { type: 'string' } }, required: ['a'] }, { $ref: '#/$defs/b' }],
        allOf: [{ properties: { c: {} }, required: ['c'] }],
        $defs: { b: { type: 'object', properties: { b: { type: 'number' } } } },
      }),
    ).toMatchObject({
      type: 'object',
      properties: { a: { type: 'string' }, b: { type: 'number' }, c: {} },
      required: ['c'],
    })
  })

  it('lose what no provider takes: arrays without items, broken references, enums that fit no type', () => {
    expect(
      schema({
        type: 'object',
        properties: {
          list: { type: 'array' },
          far: { $ref: 'https://elsewhere/x' },
          gone: { $ref: '#/$defs/none', description: 'kept' },
          round: { $ref: '#/properties/round' },
          pick: { type: 'string', enum: ['a', 1] },
          none: { type: 'integer', enum: [] },
          odd: { type: 'wrong' },
          any: true,
          tuple: { type: ['array', 'array'], items: [{}] },
        },
        required: 'list',
      }),
    ).toEqual({
      type: 'object',
      properties: {
        list: { type: 'array', items: {} },
        far: {},
        gone: { description: 'kept' },
        round: {},
        pick: { type: 'string', enum: ['a'] },
        none: { type: 'integer' },
        odd: {},
        any: {},
        tuple: { type: ['array'], items: {} },
      },
    })
  })
})

describe('any history', () => {
  let server: ModelServer | undefined
  afterAll(() => server?.close())

  const anyText = fc.oneof(
    fc.constantFrom('', ' ', '\n', 'x', '\ud800', 'a\udfffb'),
    fc.string({ unit: 'binary', maxLength: 6 }),
  )
  const anyId = fc.constantFrom('', 'a', 'b', 'a-2', 'g:3', '\ud800', 'i'.repeat(90))
  const anyName = fc.oneof(fc.constantFrom('read', '', 'a.b', 'n'.repeat(99)), fc.string({ maxLength: 5 }))
  const anyArguments = fc.oneof(fc.constantFrom('', ' ', '{}', '{"a":', '[1]', 'null', '{"a":"\\ud800"}'), fc.json())
  const image = fc.record({
    type: fc.constant('image' as const),
    mediaType: fc.constantFrom('image/png', 'image/jpeg', 'application/octet-stream', ''),
    data: fc.oneof(
      fc.constantFrom('', 'AAAA', 'iVBORw0KGgo=', 'iVBOR\nw0KGgo', '/9j/4AAQSkZJRg==', '_9j_4AAQ'),
      anyText,
    ),
  })
  const textBlock = fc.record({ type: fc.constant('text' as const), text: anyText })
  const userBlock: fc.Arbitrary<UserBlock> = fc.oneof(
    textBlock,
    image,
    fc.record({
      type: fc.constant('tool-result' as const),
      toolCallId: anyId,
      content: fc.array(fc.oneof(textBlock, image), { maxLength: 2 }),
    }),
  )
  const assistantBlock: fc.Arbitrary<AssistantBlock> = fc.oneof(
    textBlock,
    fc.record({ type: fc.constant('reasoning' as const), text: anyText }),
    fc.record({ type: fc.constant('tool-call' as const), id: anyId, name: anyName, arguments: anyArguments }),
  )
  const message: fc.Arbitrary<Message> = fc.oneof(
    fc.array(userBlock, { maxLength: 4 }).map(content => gives(...content)),
    fc.array(assistantBlock, { maxLength: 4 }).map(content => says(...content)),
    fc
      .array(textBlock, { maxLength: 2 })
      .map((content): Message => ({ ...gives(), role: 'system', content }) as Message),
  )
  const type = fc.constantFrom('string', 'array', 'object', 'integer', 'wrong', ['string', 'null'])
  const { schema } = fc.letrec<{ schema: unknown }>(tie => ({
    schema: fc.oneof(
      { maxDepth: 3 },
      fc.constantFrom(true, false, null, {}, { $ref: '#' }, { $ref: '#/x' }, { $ref: '#/properties/a' }),
      fc.record(
        {
          type,
          properties: fc.dictionary(fc.constantFrom('a', 'b', '\ud800'), tie('schema'), { maxKeys: 2 }),
          required: fc.constantFrom(['a'], 'a', []),
          enum: fc.constantFrom([], ['x'], [1]),
          items: tie('schema'),
          anyOf: fc.array(tie('schema'), { maxLength: 2 }),
          oneOf: fc.array(tie('schema'), { maxLength: 2 }),
          allOf: fc.array(tie('schema'), { maxLength: 2 }),
          additionalProperties: tie('schema'),
          $defs: fc.dictionary(fc.constantFrom('a'), tie('schema'), { maxKeys: 1 }),
          description: anyText,
        },
        { requiredKeys: [] },
      ),
    ),
  }))
  const tools = fc.array(
    fc.record({ name: anyName, description: anyText, parameters: schema as fc.Arbitrary<JsonObject> }),
    { maxLength: 3 },
  )

  it('becomes one that the strict provider accepts', { timeout: 60_000 }, async () => {
    server = await startModelServer({ otherwise: 'ok', alternateRoles: true })
    const root = await connected(server.url, { reasoningKey: 'reasoning_content' })
    await fc.assert(
      fc.asyncProperty(fc.array(message, { maxLength: 12 }), tools, anyText, async (messages, offered, system) => {
        const last = user('and now?')
        const got = await answer(root, { messages: [...messages, last], tools: offered, system })
        expect(got.failure).toBeUndefined()
        expect(server?.requests.at(-1)?.problem).toBeUndefined()
      }),
      { numRuns: 150 },
    )
  })
})
