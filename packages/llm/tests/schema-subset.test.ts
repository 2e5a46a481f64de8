/** Tool schemas for Gemini, against a server that refuses what its Schema does not know. */

import type { JsonObject, JsonValue } from '@cambium/core'
import * as openai from '@cambium/llm/openai'
import { type ModelServer, startModelServer } from '@cambium/testkit'
import fc from 'fast-check'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { answer, clearEnvironment, tree } from './llm.ts'

let server: ModelServer
afterEach(() => server?.close())

const KEYS = new Set(
  'type format title description nullable enum items maxItems minItems properties required minProperties maxProperties minLength maxLength pattern minimum maximum anyOf'.split(
    ' ',
  ),
)
const TYPES = ['string', 'number', 'integer', 'boolean', 'array', 'object']

/** @see https://ai.google.dev/api/caching#Schema */
function refusal(value: JsonValue | undefined, at: string): string | undefined {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return `${at} is no schema`
  const node = value as JsonObject
  const unknown = Object.keys(node).find(key => !KEYS.has(key))
  if (unknown) return `Unknown name "${unknown}" at '${at}'`
  if (node['type'] === undefined ? !Array.isArray(node['anyOf']) : !TYPES.includes(String(node['type']))) {
    return `${at}.type: ${JSON.stringify(node['type'])}`
  }
  if (node['type'] === 'array' && node['items'] === undefined) return `${at}.items: missing field`
  const values = node['enum'] as JsonValue[] | undefined
  if (values && (node['type'] !== 'string' || !values.every(item => typeof item === 'string'))) return `${at}.enum`
  const properties = node['properties'] as JsonObject | undefined
  if (properties && !Object.keys(properties).length) return `${at}.properties: should be non-empty`
  const required = (node['required'] ?? []) as string[]
  const stray = required.find(name => !Object.hasOwn(properties ?? {}, name))
  if (stray !== undefined) return `${at}.required: ${stray} is not defined`
  for (const [name, inner] of Object.entries(properties ?? {})) {
    const problem = refusal(inner, `${at}.${name}`)
    if (problem) return problem
  }
  for (const inner of [...((node['anyOf'] ?? []) as JsonValue[]), ...(node['items'] ? [node['items']] : [])]) {
    const problem = refusal(inner, `${at}[]`)
    if (problem) return problem
  }
  return undefined
}

async function speaking() {
  clearEnvironment()
  server = await startModelServer({
    otherwise: 'ok',
    check: ({ body }) => {
      const parameters = body.tools?.[0]?.function.parameters as JsonObject | undefined
      return parameters && refusal(parameters, 'parameters')
    },
  })
  vi.stubEnv('GEMINI_BASE_URL', server.url)
  const root = await tree()
  await root.plugin(openai, {} as openai.Config)
  return async (parameters: JsonObject) => {
    const tools = [{ name: 'tool', description: 'does', parameters }]
    const got = await answer(root, { provider: 'gemini', model: 'gemini-3.8-flash', tools })
    return { got, sent: server.requests.at(-1)!.body.tools?.[0]?.function.parameters as JsonObject | undefined }
  }
}

const of = (properties: JsonObject, more: JsonObject = {}): JsonObject => ({ type: 'object', properties, ...more })

describe('a schema for Gemini', () => {
  it.each<[string, JsonObject, JsonObject | undefined]>([
    [
      'keeps what it may',
      of(
        { a: { type: 'string', description: 'x', minLength: 1 }, b: { type: 'integer', minimum: 0 } },
        { required: ['a'] },
      ),
      of(
        { a: { type: 'string', description: 'x', minLength: 1 }, b: { type: 'integer', minimum: 0 } },
        { required: ['a'] },
      ),
    ],
    [
      'has no reference, and what stands beside one stays',
      of(
        { a: { $ref: '#/$defs/p', description: 'the first' } },
        { $defs: { p: { type: 'object', properties: { x: { type: 'number' } }, additionalProperties: false } } },
      ),
      of({ a: { type: 'object', description: 'the first', properties: { x: { type: 'number' } } } }),
    ],
    [
      'ends where it would go round in a circle',
      of(
        { tree: { $ref: '#/$defs/n' } },
        { $defs: { n: { type: 'object', properties: { v: { type: 'string' }, next: { $ref: '#/$defs/n' } } } } },
      ),
      of({ tree: { type: 'object', properties: { v: { type: 'string' }, next: { type: 'object' } } } }),
    ],
    [
      'says null by nullable',
      of({ a: { type: ['string', 'null'] }, b: { anyOf: [{ type: 'number' }, { type: 'null' }] } }),
      of({ a: { type: 'string', nullable: true }, b: { type: 'number', nullable: true } }),
    ],
    [
      'has one type a node',
      of({
        a: { type: ['string', 'number'] },
        b: { oneOf: [{ type: 'string' }, { type: 'boolean' }], description: 'x' },
      }),
      of({
        a: { anyOf: [{ type: 'string' }, { type: 'number' }] },
        b: { description: 'x', anyOf: [{ type: 'string' }, { type: 'boolean' }] },
      }),
    ],
    [
      'lists texts alone',
      of({ a: { enum: ['x', 'y'] }, b: { type: 'integer', enum: [1, 2] }, c: { const: 'z' } }),
      of({ a: { type: 'string', enum: ['x', 'y'] }, b: { type: 'integer' }, c: { type: 'string', enum: ['z'] } }),
    ],
    [
      'joins what must hold together',
      of({ a: { allOf: [of({ x: { type: 'string' } }, { required: ['x'] }), of({ y: { type: 'number' } })] } }),
      of({ a: of({ x: { type: 'string' }, y: { type: 'number' } }, { required: ['x'] }) }),
    ],
    [
      'tells the items of a tuple, and of any list',
      of({
        a: { type: 'array', prefixItems: [{ type: 'string' }, { type: 'number' }] },
        b: { type: 'array', items: { type: 'string' } },
      }),
      of({
        a: { type: 'array', items: { anyOf: [{ type: 'string' }, { type: 'number' }] } },
        b: { type: 'array', items: { type: 'string' } },
      }),
    ],
    ['is left out where there are no parameters', of({}), undefined],
  ])('%s', async (_what, given, expected) => {
    const ask = await speaking()
    const { got, sent } = await ask(given)
    expect(got.failure).toBeUndefined()
    expect(sent).toEqual(expected)
  })

  it('lets anything be anything', async () => {
    const ask = await speaking()
    const { sent } = await ask(of({ a: {}, b: { type: 'array' } }))
    const anything = (sent!['properties'] as JsonObject)['a'] as { anyOf: { type: string }[] }
    expect(anything.anyOf.map(({ type }) => type)).toEqual(['string', 'number', 'boolean', 'object', 'array'])
  })

  it('is one that it takes, whatever the tool wrote', { timeout: 20_000 }, async () => {
    const ask = await speaking()
    const name = fc.constantFrom('a', 'b', 'c')
    const leaf = fc.record({ type: fc.constantFrom(...TYPES) }, { requiredKeys: [] }) as fc.Arbitrary<JsonObject>
    const { full } = fc.letrec<{ node: JsonObject; full: JsonObject }>(tie => ({
      node: fc.oneof({ maxDepth: 3, depthSize: 'small' }, leaf, tie('full')),
      full: fc.record(
        {
          type: fc.oneof(
            fc.constantFrom<JsonValue>(...TYPES, 'null', 'nonsense'),
            fc.array(fc.constantFrom<JsonValue>(...TYPES, 'null'), { maxLength: 3 }),
          ),
          properties: fc.dictionary(name, tie('node'), { maxKeys: 3, noNullPrototype: true }),
          required: fc.array(name, { maxLength: 3 }),
          items: fc.oneof(tie('node'), fc.boolean()),
          prefixItems: fc.array(tie('node'), { maxLength: 2 }),
          anyOf: fc.array(tie('node'), { maxLength: 3 }),
          oneOf: fc.array(tie('node'), { maxLength: 2 }),
          allOf: fc.array(tie('node'), { maxLength: 2 }),
          enum: fc.array(fc.jsonValue({ maxDepth: 1 }) as fc.Arbitrary<JsonValue>, { maxLength: 3 }),
          const: fc.jsonValue({ maxDepth: 0 }) as fc.Arbitrary<JsonValue>,
          $ref: fc.constantFrom('#/$defs/a', '#/$defs/b', '#', '#/$defs/none', 'http://x/y'),
          $defs: fc.dictionary(name, tie('node'), { maxKeys: 2, noNullPrototype: true }),
          format: fc.constantFrom('date-time', 'uri', 'int32'),
          nullable: fc.boolean(),
          additionalProperties: fc.oneof(fc.boolean(), tie('node')),
          minimum: fc.integer(),
          exclusiveMinimum: fc.integer(),
          default: fc.string(),
          title: fc.string(),
          not: tie('node'),
        },
        { requiredKeys: [] },
      ) as fc.Arbitrary<JsonObject>,
    }))
    await fc.assert(
      fc.asyncProperty(full, async schema => {
        const { got } = await ask(schema)
        expect(got.failure?.message).toBeUndefined()
      }),
      { numRuns: 200 },
    )
  })
})
