import { expect, expectTypeOf, test } from 'vitest'
import { defineTool, toolResult } from '../src/index.ts'
import { boot, call, textOf } from './boot.ts'

test('arguments have the types that the parameters say', () => {
  defineTool({
    name: 'typed',
    description: 'd',
    parameters: {
      path: { type: 'string', required: true },
      mode: { type: 'string', enum: ['a', 'b'] },
      limit: { type: 'integer', default: 10 },
      tags: { type: 'array', items: { type: 'string' } },
      any: { type: 'json' },
      either: { oneOf: [{ type: 'string' }, { type: 'null' }] },
      nested: {
        type: 'object',
        required: true,
        properties: { on: { type: 'boolean', required: true }, kind: { const: 'x', type: 'string' } },
      },
      env: { type: 'object', additionalProperties: { type: 'string' } },
    },
    execute(args) {
      expectTypeOf(args.path).toEqualTypeOf<string>()
      expectTypeOf(args.mode).toEqualTypeOf<'a' | 'b' | undefined>()
      expectTypeOf(args.limit).toEqualTypeOf<number>()
      expectTypeOf(args.tags).toEqualTypeOf<readonly string[] | undefined>()
      expectTypeOf(args.either).toEqualTypeOf<string | null | undefined>()
      expectTypeOf(args.nested.on).toEqualTypeOf<boolean>()
      expectTypeOf(args.nested.kind).toEqualTypeOf<'x' | undefined>()
      expectTypeOf(args.env).toEqualTypeOf<{ readonly [key: string]: string } | undefined>()
      // @ts-expect-error there is no such parameter
      args.other
    },
  })
  defineTool({
    name: 'out',
    description: 'd',
    parameters: {},
    output: { type: 'object', properties: { n: { type: 'integer', required: true } } },
    execute: () => ({ n: 1 }),
  })
  defineTool({
    name: 'out2',
    description: 'd',
    parameters: {},
    output: { type: 'integer' },
    // @ts-expect-error the output is an integer
    execute: () => 'one',
  })
  // @ts-expect-error there is no such type
  expect(() => defineTool({ name: 'bad', description: 'd', parameters: { a: { type: 'int' } }, execute() {} })).toThrow(
    /TOOL_INVALID: tool "bad": parameters.a has the unknown type "int"/,
  )
})

test('a defined tool runs with its arguments and its value is the text', async () => {
  const { ctx } = await boot()
  ctx.tools.register(
    defineTool({
      name: 'greet',
      description: 'Greets.',
      parameters: { who: { type: 'string', required: true }, times: { type: 'integer', default: 1 } },
      execute: ({ who, times }) => `hello ${who} ${times}`,
    }),
  )
  expect(textOf(await ctx.tools.execute(call('greet', { who: 'world' })))).toBe('hello world 1')
  expect(textOf(await ctx.tools.execute(call('greet', { who: 'world', times: null })))).toBe('hello world 1')
  expect(textOf(await ctx.tools.execute(call('greet', { who: 'x', times: '2' })))).toBe(
    'Error: invalid arguments: "times" must be an integer, got "2" (write 2 without quotes)',
  )
  expect(toolResult({ value: 1 })).toMatchObject({ value: 1 })
})
