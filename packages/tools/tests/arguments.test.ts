import type { JsonObject } from '@cambium/core'
import { describe, expect, test } from 'vitest'
import { defineTool } from '../src/index.ts'
import { boot, call, raw, textOf } from './boot.ts'

const todo = defineTool({
  name: 'todo',
  description: 'd',
  parameters: {
    file_path: { type: 'string', required: true, minLength: 1 },
    limit: { type: 'integer', minimum: 1, maximum: 9 },
    ratio: { type: 'number' },
    mode: { type: 'string', enum: ['fast', 'slow'] },
    id: { type: 'string', pattern: '^[a-z]+$', maxLength: 4 },
    flag: { type: 'boolean' },
    list: {
      type: 'array',
      minItems: 1,
      maxItems: 2,
      items: {
        type: 'object',
        additionalProperties: false,
        properties: { content: { type: 'string', required: true }, done: { type: 'boolean' } },
      },
    },
    target: {
      oneOf: [
        {
          type: 'object',
          properties: {
            kind: { type: 'string', const: 'file', required: true },
            path: { type: 'string', required: true },
          },
        },
        {
          type: 'object',
          properties: {
            kind: { type: 'string', const: 'url', required: true },
            url: { type: 'string', required: true },
          },
        },
      ],
    },
  },
  execute: () => 'ran',
})

const f = { file_path: 'f' }

test.each<[string, unknown, string]>([
  ['fits', { ...f, limit: 2, list: [{ content: 'a' }], target: { kind: 'url', url: 'u' } }, 'ran'],
  ['extra keys are ignored', { ...f, other: 1 }, 'ran'],
  ['null stands for left out', { ...f, limit: null }, 'ran'],
  ['wrong type', { ...f, limit: 'ten' }, '"limit" must be an integer, got "ten"'],
  ['a quoted number', { ...f, limit: '5' }, '"limit" must be an integer, got "5" (write 5 without quotes)'],
  ['a quoted boolean', { ...f, flag: 'true' }, '"flag" must be a boolean, got "true" (write true without quotes)'],
  ['a fraction', { ...f, limit: 1.5 }, '"limit" must be an integer, got 1.5'],
  ['too small', { ...f, limit: 0 }, '"limit" must be at least 1, got 0'],
  ['too big', { ...f, limit: 10 }, '"limit" must be at most 9, got 10'],
  ['missing', {}, '"file_path" is required'],
  ['misspelt', { filepath: 'f' }, '"file_path" is required (you gave "filepath")'],
  ['null for a required one', { file_path: null }, '"file_path" must be a string, got null'],
  ['empty', { file_path: '' }, '"file_path" must not be empty'],
  ['not of the list', { ...f, mode: 'quick' }, '"mode" must be one of "fast", "slow", got "quick"'],
  ['pattern', { ...f, id: 'A1' }, '"id" must match ^[a-z]+$, got "A1"'],
  ['too long', { ...f, id: 'abcde' }, '"id" must have at most 4 characters, got 5'],
  [
    'JSON text in a string',
    { ...f, list: '[]' },
    '"list" must be an array, got "[]" (write the value itself, not JSON text in a string)',
  ],
  ['too few', { ...f, list: [] }, '"list" must have at least 1 item, got 0'],
  ['nested', { ...f, list: [{ content: 1 }] }, '"list[0].content" must be a string, got 1'],
  [
    'unknown where it matters',
    { ...f, list: [{ content: 'a', doen: true }] },
    '"list[0].doen" is not a known parameter, did you mean "done"?',
  ],
  [
    'unknown, nothing near',
    { ...f, list: [{ content: 'a', priority: 1 }] },
    '"list[0].priority" is not a known parameter, known: content, done',
  ],
  [
    'no form',
    { ...f, target: { kind: 'url', path: 'p' } },
    '"target" fits none of the 2 allowed forms; of the nearest, "target.url" is required',
  ],
  [
    'several at once',
    { limit: 'x', flag: 1 },
    '"file_path" is required; "limit" must be an integer, got "x"; "flag" must be a boolean, got 1',
  ],
  ['not an object', '[1]', 'the arguments must be an object, got [1]'],
  [
    'doubly encoded',
    JSON.stringify('{"file_path":"f"}'),
    'the arguments must be an object, got "{\\"file_path\\":\\"f\\"}" (write the value itself, not JSON text in a string)',
  ],
])('%s', async (_, args, expected) => {
  const { ctx } = await boot()
  ctx.tools.register(todo)
  const result = await ctx.tools.execute(call('todo', args))
  expect(textOf(result)).toBe(expected === 'ran' ? 'ran' : `Error: invalid arguments: ${expected}`)
  expect(result.error?.code).toBe(expected === 'ran' ? undefined : 'INVALID_ARGUMENTS')
})

test('null for an optional parameter of a raw schema is refused with what to do', async () => {
  const { ctx } = await boot()
  ctx.tools.register(raw('t', { parameters: { type: 'object', properties: { a: { type: 'string' } } } }))
  expect(textOf(await ctx.tools.execute(call('t', { a: null })))).toBe(
    'Error: invalid arguments: "a" must be a string, got null (leave it out instead)',
  )
})

describe('argument text', () => {
  test.each(['', '  \n', '{}'])('%j is no arguments', async text => {
    const { ctx } = await boot()
    ctx.tools.register(raw('t', { execute: args => args }))
    expect((await ctx.tools.execute({ name: 't', arguments: text })).value).toEqual({})
  })

  test.each([
    [
      '{"path": "a", "content": "hel',
      'the string that starts at position 25 is not closed or holds a bad escape: "hel',
    ],
    ['{"path": "a", "n": 1', 'the text ends at position 20 where "," or "}" is expected'],
    ['{"path": "a" "b": 1}', '"," or "}" is expected at position 13, got: "b": 1}'],
    ["{'path': 1}", 'a property name in double quotes or "}" is expected at position 1, got: \'path\': 1}'],
    ['{"a": [1, 2,]}', 'a value is expected at position 12, got: ]}'],
    ['{"a": 1}}', 'nothing more is expected at position 8, got: }'],
    ['{"a":\n  tru}', 'a value is expected at position 8 (line 2), got: tru}'],
    ['{"a": "x\ny"}', 'the string that starts at position 6 is not closed or holds a bad escape: "x\ny"}'],
    ['{"a": 01}', '"," or "}" is expected at position 7, got: 1}'],
    ['rm -rf /', 'a value is expected at position 0, got: rm -rf /'],
  ])('%s is not run, and the place is named', async (text, problem) => {
    const { ctx } = await boot()
    let ran = false
    ctx.tools.register(
      raw('t', {
        execute() {
          ran = true
        },
      }),
    )
    const result = await ctx.tools.execute({ name: 't', arguments: text })
    expect(textOf(result)).toBe(
      `Error: invalid arguments: not valid JSON: ${problem}. Nothing was run. Send the whole arguments again as one JSON object.`,
    )
    expect(ran).toBe(false)
  })
})

test('deeply nested arguments are an answer, not a crash', async () => {
  const { ctx } = await boot()
  ctx.tools.register(raw('t'))
  const deep = `{"a":${'['.repeat(50_000)}${']'.repeat(50_000)}}`
  const result = await ctx.tools.execute({ name: 't', arguments: deep })
  expect(result.error?.code).toBe('INVALID_ARGUMENTS')
  expect(textOf(result)).toMatch(/nested too deeply/)
  const endless = await ctx.tools.execute({ name: 't', arguments: '{"a":-1e999}' })
  expect(textOf(endless)).toMatch(/a number out of range/)
})

describe('raw JSON Schemas that say more than the common part', () => {
  const run = async (parameters: JsonObject, args: unknown) => {
    const { ctx, records } = await boot()
    ctx.tools.register(raw('t', { parameters }))
    const first = textOf(await ctx.tools.execute(call('t', args)))
    expect(textOf(await ctx.tools.execute(call('t', args)))).toBe(first)
    return { text: first, warnings: records.map(record => record.text) }
  }

  test('references and combinations are checked', async () => {
    const schema: JsonObject = {
      type: 'object',
      properties: { pet: { $ref: '#/$defs/pet' }, n: { multipleOf: 5 }, k: { enum: ['a', 'b'] } },
      required: ['pet'],
      additionalProperties: false,
      $defs: { pet: { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] } },
    }
    expect((await run(schema, { pet: { name: 'Rex' }, n: 10 })).text).toBe('t')
    expect((await run(schema, { pet: {}, n: 7, k: 'c', x: 1 })).text).toBe(
      'Error: invalid arguments: "x" is not a known parameter, known: pet, n, k; "pet.name" is required; ' +
        '"n" must be multiple of 5, got 7; "k" must be one of "a", "b"',
    )
  })

  test('older drafts and names for schemas are no obstacle', async () => {
    const schema: JsonObject = {
      $schema: 'http://json-schema.org/draft-07/schema#',
      $id: 'https://example.org/tool.json',
      type: 'object',
      definitions: { pair: { type: 'array', items: [{ type: 'string' }, { type: 'number' }] } },
      properties: { pair: { $ref: '#/definitions/pair' } },
    }
    expect((await run(schema, { pair: ['a', 1] })).text).toBe('t')
    expect((await run(schema, { pair: ['a', 'b'] })).text).toBe(
      'Error: invalid arguments: "pair[1]" must be number, got "b"',
    )
  })

  test('a schema that cannot be used lets arguments through, with one warning', async () => {
    const { text, warnings } = await run({ type: 'object', properties: { a: { $ref: '#/nowhere' } } }, { a: 1 })
    expect(text).toBe('t')
    expect(warnings).toHaveLength(1)
    expect(warnings[0]).toMatch(/tool "t": its JSON Schema cannot be used/)
  })
})
