import { parsedProblem, toJson } from '@cambium/core'
import { describe, expect, it } from 'vitest'
import { fc, it as property } from './property.ts'

describe('a JSON value', () => {
  property('is what JSON makes of it, and shares nothing with the original', [fc.jsonValue()], value => {
    const copy = toJson(value)
    expect(copy).toEqual(JSON.parse(JSON.stringify(value)))
    expect(JSON.stringify(copy)).toBe(JSON.stringify(value))
    const before = JSON.stringify(copy)
    scramble(value)
    expect(JSON.stringify(copy)).toBe(before)
  })

  property(
    'of anything either survives a round trip or is refused with its place',
    [fc.anything({ withNullPrototype: true, withSparseArray: true, withDate: true, withMap: true, withBigInt: true })],
    value => {
      let copy: unknown
      try {
        copy = toJson(value, 'it')
      } catch (error) {
        expect(error).toMatchObject({
          code: 'JSON_UNSUPPORTED',
          problem: expect.stringMatching(/^it.* which JSON cannot hold$/s),
        })
        return
      }
      expect(JSON.parse(JSON.stringify(copy))).toEqual(copy)
    },
  )
})

function scramble(value: unknown) {
  if (typeof value !== 'object' || value === null) return
  for (const inner of Object.values(value)) scramble(inner)
  if (Array.isArray(value)) value.push('scrambled')
  else Object.assign(value, { scrambled: true })
}

describe('what JSON cannot hold is refused with its place:', () => {
  class Point {
    x = 1
  }
  const cycle: Record<string, unknown> = {}
  cycle['self'] = [cycle]
  it.each([
    [undefined, 'args is undefined'],
    [{ a: [1, () => {}] }, 'args.a[1] is function'],
    [{ a: Symbol('s') }, 'args.a is symbol'],
    [1n, 'args is bigint'],
    [[Number.NaN], 'args[0] is NaN'],
    [{ a: Number.NEGATIVE_INFINITY }, 'args.a is -Infinity'],
    [new Date(0), 'args is an instance of Date'],
    [{ m: new Map() }, 'args.m is an instance of Map'],
    [[new Point()], 'args[0] is an instance of Point'],
    [new String('boxed'), 'args is an instance of String'],
    [cycle, 'args.self[0] is a cycle'],
    // biome-ignore lint/suspicious/noSparseArray: the hole is what is tried
    [[1, , 2], 'args[1] is undefined'],
  ])('%o', (value, problem) => {
    expect(() => toJson(value, 'args')).toThrow(`JSON_UNSUPPORTED: ${problem}, which JSON cannot hold`)
  })
})

it('data that nests deeper than any reader should follow is refused before a stack overflows', () => {
  const nested = (levels: number) => {
    let value: unknown = 1
    for (let i = 0; i < levels; i++) value = i % 2 ? [value] : { a: value }
    return value
  }
  expect(toJson(nested(512))).toEqual(nested(512))
  expect(parsedProblem(nested(512))).toBeUndefined()
  expect(() => toJson(nested(513))).toThrow(/^JSON_UNSUPPORTED: value\S{1,60} is more than 512 levels deep/)
  expect(() => toJson(nested(100_000))).toThrow('JSON_UNSUPPORTED')
  expect(parsedProblem(nested(513))).toBe('it is nested too deeply')
  expect(parsedProblem(nested(100_000))).toBe('it is nested too deeply')
  expect(parsedProblem(JSON.parse('{"a":[1e999]}'))).toBe('it holds a number out of range')
})

describe('a copy', () => {
  it('leaves out properties that are undefined', () => {
    expect(Object.keys(toJson({ a: undefined, b: null }) as object)).toEqual(['b'])
  })

  it('keeps a key that is called __proto__ as a key', () => {
    const copy = toJson(JSON.parse('{"__proto__":{"admin":true}}')) as Record<string, unknown>
    expect(Object.keys(copy)).toEqual(['__proto__'])
    expect(copy['admin']).toBeUndefined()
    expect(JSON.stringify(copy)).toBe('{"__proto__":{"admin":true}}')
  })

  it('has no negative zero, as JSON has none', () => {
    expect(toJson([-0])).toEqual([0])
  })

  it('may hold one thing twice, and objects without a prototype', () => {
    const shared = Object.assign(Object.create(null), { a: 1 })
    expect(toJson([shared, { shared }])).toEqual([{ a: 1 }, { shared: { a: 1 } }])
  })

  it('reads each property once', () => {
    let reads = 0
    const value = {
      get a() {
        return ++reads
      },
    }
    expect(toJson(value)).toEqual({ a: 1 })
    expect(reads).toBe(1)
  })
})
