import { expect, expectTypeOf, test } from 'vitest'
import { defineTool, toolResult } from '../src/index.ts'
import { boot, call, raw, textOf } from './boot.ts'
import { DOT } from './dot.ts'

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
})

test('a parameter map becomes the JSON Schema that a model is shown', async () => {
  const { ctx } = await boot()
  ctx.tools.register(
    defineTool({
      name: 'search',
      description: 'Searches.',
      additionalProperties: false,
      parameters: {
        pattern: { type: 'string', required: true, description: 'What to look for.' },
        limit: { type: 'integer', minimum: 1, default: 5 },
        where: { type: 'object', properties: { dir: { type: 'string', required: true } } },
        extra: { type: 'json', description: 'Anything.' },
        sort: {
          oneOf: [
            { type: 'string', enum: ['name'] },
            { type: 'array', items: { type: 'string' } },
          ],
        },
      },
      execute() {},
    }),
  )
  expect(ctx.tools.schemas()).toEqual([
    {
      name: 'search',
      description: 'Searches.',
      parameters: {
        type: 'object',
        properties: {
          pattern: { type: 'string', description: 'What to look for.' },
          limit: { type: 'integer', minimum: 1, default: 5 },
          where: { type: 'object', properties: { dir: { type: 'string' } }, required: ['dir'] },
          extra: { description: 'Anything.' },
          sort: {
            oneOf: [
              { type: 'string', enum: ['name'] },
              { type: 'array', items: { type: 'string' } },
            ],
          },
        },
        required: ['pattern'],
        additionalProperties: false,
      },
    },
  ])
})

test('the tool gets defaults and no nulls of optional parameters; policy sees what the model wrote', async () => {
  const { ctx } = await boot()
  const seen: unknown[] = []
  ctx.on('tools/pre-execute', (exec, next) => {
    seen.push(exec.arguments)
    return next()
  })
  ctx.tools.register(
    defineTool({
      name: 'greet',
      description: 'Greets.',
      parameters: {
        who: { type: 'string', required: true },
        times: { type: 'integer', default: 1 },
        style: { type: 'object', properties: { loud: { type: 'boolean', default: false }, end: { type: 'string' } } },
        all: { type: 'array', items: { type: 'object', properties: { n: { type: 'integer', default: 7 } } } },
        maybe: { oneOf: [{ type: 'null' }, { type: 'string' }] },
      },
      execute: args => ({ ...args, frozen: Object.isFrozen(args) && Object.isFrozen(args.style) }),
    }),
  )
  const given = { who: 'a', times: null, style: { end: null }, all: [{}, { n: 1 }], maybe: null, more: true }
  const result = await ctx.tools.execute(call('greet', given))
  expect(result.value).toEqual({
    who: 'a',
    times: 1,
    style: { loud: false },
    all: [{ n: 7 }, { n: 1 }],
    maybe: null,
    more: true,
    frozen: true,
  })
  expect(seen).toEqual([given])
})

test('a wrong parameter is refused where it is written', () => {
  const define = (parameters: never) => () => defineTool({ name: 'bad', description: 'd', parameters, execute() {} })
  expect(define({ a: { type: 'int' } } as never)).toThrow(
    'TOOL_INVALID: tool "bad": parameters.a has the unknown type "int"',
  )
  expect(define({ a: { type: 'array', items: { type: 'string', pattern: '(' } } } as never)).toThrow(
    /parameters\.a\.items has a pattern that is no regular expression: \(/,
  )
  expect(define({ a: { oneOf: [{ type: 'null' }] } } as never)).toThrow(/parameters\.a has a oneOf with fewer than two/)
  expect(define({ a: 'string' } as never)).toThrow(/parameters\.a must be an object such as/)
})

test('the classifier and the presenter get typed arguments, and are spared invalid ones', async () => {
  const { ctx } = await boot()
  ctx.tools.register(
    defineTool({
      name: 'look',
      description: 'Looks.',
      parameters: { path: { type: 'string', required: true }, deep: { type: 'boolean', default: true } },
      isConcurrencySafe: args => args.deep,
      presentCall: args => `look at ${args.path.toUpperCase()}`,
      execute: () => 'ok',
    }),
  )
  const tool = ctx.tools.get('look')!
  expect(tool.isConcurrencySafe?.({ path: 'a' })).toBe(true)
  expect(tool.isConcurrencySafe?.({ path: 1 })).toBe(false)
  expect(tool.presentCall?.({ path: 'a' })).toBe('look at A')
  expect(tool.presentCall?.({})).toBe('look')
})

test('values become text: strings as they are, other JSON indented, nothing as a placeholder', async () => {
  const { ctx } = await boot()
  const cases: [unknown, string][] = [
    ['plain', 'plain'],
    [{ a: [1, null] }, '{\n  "a": [\n    1,\n    null\n  ]\n}'],
    [null, 'null'],
    [0, '0'],
    [undefined, '(no output)'],
    ['', '(no output)'],
    [' \n', '(no output)'],
    [toolResult({ content: [] }), '(no output)'],
    [toolResult({ value: 'v', content: 'shown' }), 'shown'],
    [toolResult({ value: 'v' }), 'v'],
    // Looks like content, but nothing is guessed from a shape.
    [
      { content: [{ type: 'text', text: 'x' }] },
      '{\n  "content": [\n    {\n      "type": "text",\n      "text": "x"\n    }\n  ]\n}',
    ],
  ]
  for (const [index, [output, text]] of cases.entries()) {
    ctx.tools.register(raw(`t${index}`, { execute: () => output as never }))
    const result = await ctx.tools.execute(call(`t${index}`))
    expect([result.isError, textOf(result)]).toEqual([false, text])
  }
})

test('value, content, presentation data and failure each have their place in a result', async () => {
  const { ctx } = await boot()
  const image = { type: 'image', mediaType: 'image/png', data: DOT } as const
  ctx.tools.register(
    raw('ok', { execute: () => toolResult({ value: { n: 1 }, content: [image], meta: { lines: 3 } }) }),
  )
  ctx.tools.register(raw('no', { execute: () => toolResult({ value: 'not today', meta: { m: 1 }, isError: true }) }))
  const good = await ctx.tools.execute(call('ok'))
  expect(good).toMatchObject({ isError: false, value: { n: 1 }, content: [image], meta: { lines: 3 } })
  const bad = await ctx.tools.execute(call('no'))
  expect(bad).toMatchObject({
    isError: true,
    content: [{ type: 'text', text: 'not today' }],
    error: { code: 'TOOL_FAILED', message: 'not today' },
    meta: { m: 1 },
  })
  expect(bad).not.toHaveProperty('value')
  expect([good, good.content, good.value, good.meta].every(Object.isFrozen)).toBe(true)
})

test('text that no provider takes is made fit: line ends, control characters, halves of characters', async () => {
  const { ctx } = await boot()
  const dirty = 'a\0b\u001b[31mred\u001b[0m\tx\r\ny\rz\u009b \ud83d!\udc00 😀\n'
  ctx.tools.register(raw('dirty', { execute: () => dirty }))
  ctx.tools.register(
    raw('throws', {
      execute() {
        throw new Error('bad \ud800 \u0007')
      },
    }),
  )
  expect(textOf(await ctx.tools.execute(call('dirty')))).toBe(
    'a\\x00b\\x1b[31mred\\x1b[0m\tx\ny\nz\\x9b \ufffd!\ufffd 😀\n',
  )
  expect(textOf(await ctx.tools.execute(call('throws')))).toBe('Error: bad \ufffd \\x07')
})

test('a value that is no JSON, or breaks the output schema, is a fault of the tool that the model is told', async () => {
  const { ctx } = await boot()
  ctx.tools.register(raw('date', { execute: () => ({ at: new Date() }) as never }))
  ctx.tools.register(
    defineTool({
      name: 'count',
      description: 'd',
      parameters: { give: { type: 'json' } },
      output: { type: 'object', properties: { n: { type: 'integer', required: true } } },
      execute: args => args.give as never,
    }),
  )
  const date = await ctx.tools.execute(call('date'))
  expect(date.error?.code).toBe('INVALID_TOOL_OUTPUT')
  expect(textOf(date)).toMatch(
    /^Error: the tool ran, but its result cannot be used: .*the result\.at is an instance of Date/,
  )
  expect(await ctx.tools.execute(call('count', { give: { n: 1 } }))).toMatchObject({ isError: false, value: { n: 1 } })
  expect(textOf(await ctx.tools.execute(call('count', { give: { n: 'x' } })))).toMatch(
    /"n" must be an integer, got "x"/,
  )
  expect(textOf(await ctx.tools.execute(call('count', {})))).toMatch(/it gave no value/)
})
