import { FAILURE_CODES } from '@cambium/llm'
import type { ModelProtocol } from '@cambium/testkit'
import fc from 'fast-check'
import { beforeEach, describe, expect, it } from 'vitest'
import type { Answer } from './llm.ts'
import { contains, eventsIn } from './oracle.ts'
import { PROTOCOLS, type RecordedStream, Replayer, recordedStreams } from './streams.ts'

/** More of them find more: `FUZZ_RUNS=20000`. */
const RUNS = Number(process.env['FUZZ_RUNS'] ?? 150)

const streams = recordedStreams()

let replayer: Replayer
beforeEach(async () => {
  replayer = await Replayer.create()
})

/** What would be run of an answer: no call of a failed one, none whose arguments are no object. */
function runnable({ reason, calls }: Answer) {
  return reason === 'error' || reason === 'aborted'
    ? []
    : calls.filter(call => !call.arguments.trim() || isObject(call.arguments))
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

function isObject(text: string): boolean {
  const value = parsed(text)
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function expectCoded({ reason, failure, usage }: Answer) {
  for (const count of Object.values(usage ?? {})) expect(count === 0 || (count > 0 && count < 2 ** 53)).toBe(true)
  expect(['stop', 'tool-calls', 'max-tokens', 'refusal', 'error']).toContain(reason)
  if (reason !== 'error') return expect(failure).toBeUndefined()
  expect(FAILURE_CODES).toContain(failure?.code)
  expect(failure?.code).not.toBe('UNKNOWN')
  expect(failure?.message).toMatch(/./)
}

describe('a stream that breaks off is a coded failure, or was whole already', () => {
  async function expectCut({ protocol, bytes, expected }: RecordedStream, at: number) {
    const cut = await replayer.answer(protocol, [bytes.subarray(0, at)])
    expectCoded(cut)
    if (cut.reason !== 'error') expect({ at, blocks: cut.blocks }).toEqual({ at, blocks: expected.blocks })
    for (const call of runnable(cut)) expect(expected.blocks).toContainEqual(expect.objectContaining(call))
  }

  it.each(['chat/calls-in-one-chunk', 'messages/call-whole-at-its-start', 'responses/call-without-deltas'])(
    '%s: at every byte',
    async name => {
      const stream = streams.find(one => one.name === name)!
      for (let at = 0; at < stream.bytes.length; at++) await expectCut(stream, at)
    },
  )

  it.each(PROTOCOLS)('all of %s: at any byte', async protocol => {
    const any = fc.constantFrom(...streams.filter(stream => stream.protocol === protocol))
    const cut = any.chain(stream => fc.tuple(fc.constant(stream), fc.nat(stream.bytes.length)))
    await fc.assert(
      fc.asyncProperty(cut, ([stream, at]) => expectCut(stream, at)),
      { numRuns: RUNS },
    )
  })
})

// Corruption ------------------------------------------------------------------------------------------------------

type Damage = (bytes: Buffer) => Buffer
interface Named {
  readonly name: string
  readonly damage: Damage
}

const at = (seed: number, length: number) => Math.floor(seed * length)
const seed = () => fc.double({ min: 0, max: 0.999, noNaN: true })
const onParts =
  (separator: string, edit: (parts: string[]) => void): Damage =>
  bytes => {
    const parts = bytes.toString('latin1').split(separator)
    edit(parts)
    return Buffer.from(parts.join(separator), 'latin1')
  }

const WRONG = [
  'null',
  'true',
  '0',
  '-1',
  '1',
  '3',
  '1e308',
  '1e999',
  '12345678901234567890',
  '""',
  '"x"',
  '"1"',
  '[]',
  '{}',
  '[null]',
  '{"a":{}}',
  '[{"type":"text"}]',
]

/** What tells whose a piece is. */
const MARKS = ['index', 'output_index', 'item_id', 'id']

interface Place {
  readonly line: number
  readonly json: unknown
  readonly node: Record<string, unknown>
  readonly key: string
}

/** All values in the JSON of the events, or those of some keys. */
function placesIn(lines: readonly string[], keys?: readonly string[]): Place[] {
  const places: Place[] = []
  for (const [line, text] of lines.entries()) {
    if (!/^data: ?[{[]/.test(text)) continue
    const json = parsed(text.slice(5))
    const look = (node: unknown) => {
      if (typeof node !== 'object' || node === null) return
      for (const [key, inner] of Object.entries(node)) {
        if (!keys || keys.includes(key)) places.push({ line, json, node: node as Record<string, unknown>, key })
        look(inner)
      }
    }
    look(json)
  }
  return places
}

const linesOf = (bytes: Buffer) => bytes.toString('utf8').split('\n')

function replaced(lines: string[], { line, json, node, key }: Place, value: string): Buffer {
  const before = node[key]
  node[key] = '\u0001'
  lines[line] = `data: ${JSON.stringify(json).replace('"\\u0001"', value)}`
  node[key] = before
  return Buffer.from(lines.join('\n'))
}

/** Replaces one value, wherever it lies. */
function wrongType(where: number, value: string): Damage {
  return bytes => {
    const lines = linesOf(bytes)
    const places = placesIn(lines)
    const place = places[at(where, places.length)]
    return place ? replaced(lines, place, value) : bytes
  }
}

const named = (name: string, damage: Damage): Named => ({ name, damage })
const damages: fc.Arbitrary<Named> = fc.oneof(
  {
    weight: 4,
    arbitrary: fc
      .tuple(seed(), fc.constantFrom(...WRONG))
      .map(([place, value]) => named(`${value} at ${place}`, wrongType(place, value))),
  },
  {
    weight: 2,
    arbitrary: fc.tuple(seed(), fc.nat(7)).map(([a, bit]) =>
      named(`bit ${bit} at ${a}`, bytes => {
        const flipped = Buffer.from(bytes)
        const place = at(a, bytes.length)
        flipped[place] = flipped[place]! ^ (1 << bit)
        return flipped
      }),
    ),
  },
  ...['\n', '\n\n'].flatMap(separator => {
    const what = separator === '\n' ? 'line' : 'event'
    const one = (name: string, edit: (parts: string[], place: number) => void) =>
      seed().map(a =>
        named(
          `${what} ${name} ${a}`,
          onParts(separator, parts => edit(parts, at(a, parts.length))),
        ),
      )
    return [
      one('without', (parts, place) => void parts.splice(place, 1)),
      one('doubled', (parts, place) => void parts.splice(place, 0, parts[place]!)),
      one('late', (parts, place) => void parts.splice(place + 2, 0, ...parts.splice(place, 1))),
      one('last', (parts, place) => void parts.push(...parts.splice(place, 1))),
      one('first', (parts, place) => void parts.unshift(...parts.splice(place, 1))),
    ]
  }),
  seed().map(a => named(`cut at ${a}`, bytes => bytes.subarray(0, at(a, bytes.length)))),
)

const BLANK_AT_THE_END = named('a vertical tab before the last end of line', bytes => {
  const at = bytes.length - 2
  return Buffer.concat([bytes.subarray(0, at), Buffer.from('\v'), bytes.subarray(at + 1)])
})

const WITH_USAGE = { chat: 'chat/text-usage-chunk', messages: 'messages/usage-cache', responses: 'responses/text' }

const names = (list: readonly RecordedStream[]) => list.map(({ name }) => name)
const hasCalls = ({ expected }: RecordedStream) => expected.blocks.some(({ type }) => type === 'tool-call')

async function expectContained(protocol: ModelProtocol, damaged: Buffer) {
  const result = await replayer.answer(protocol, [damaged])
  expectCoded(result)
  const events = eventsIn(damaged)
  for (const { name, arguments: args } of runnable(result)) {
    expect(name).not.toBe('')
    if (!contains(protocol, events, name, args)) {
      expect.fail(`runs ${name}(${args}), which is not in\n${damaged.toString('utf8')}`)
    }
  }
}

describe('a damaged stream is a whole answer or a coded failure, and runs no call that it does not contain', () => {
  it.each(PROTOCOLS)('of %s', async protocol => {
    const own = streams.filter(stream => stream.protocol === protocol)
    const plan = fc.record({
      stream: fc.oneof(fc.constantFrom(...names(own)), fc.constantFrom(...names(own.filter(hasCalls)))),
      damage: fc.array(damages, { minLength: 1, maxLength: 3 }),
    })
    const examples = names(own.filter(hasCalls)).map((stream): [{ stream: string; damage: Named[] }] => [
      { stream, damage: [BLANK_AT_THE_END] },
    ])
    await fc.assert(
      fc.asyncProperty(plan, async ({ stream, damage }) => {
        const { bytes } = own.find(one => one.name === stream)!
        const damaged = damage.reduce((sofar, one) => one.damage(sofar), bytes)
        await expectContained(protocol, damaged)
      }),
      { numRuns: RUNS, examples },
    )
  })

  it.each(PROTOCOLS)('of %s, where what tells whose a piece is has gone or is wrong', async protocol => {
    for (const { bytes } of streams.filter(stream => stream.protocol === protocol && hasCalls(stream))) {
      for (const [index, place] of placesIn(linesOf(bytes), MARKS).entries()) {
        await expectContained(protocol, replaced(linesOf(bytes), place, index % 2 ? 'null' : '"1"'))
      }
    }
  })
})

it.each(PROTOCOLS)('a count of %s that is no count changes nothing else of the answer', async protocol => {
  const { bytes, expected } = streams.find(({ name }) => name === WITH_USAGE[protocol])!
  const lines = linesOf(bytes)
  const keys = [...new Set(placesIn(lines).map(({ key }) => key))].filter(key => key.includes('tokens'))
  expect(keys.length).toBeGreaterThan(2)
  for (const place of placesIn(lines, keys)) {
    for (const value of ['1e999', '1e308', '-1', '0.5', '"x"', 'null', '{}']) {
      const result = await replayer.answer(protocol, [replaced(linesOf(bytes), place, value)])
      expectCoded(result)
      expect(result.blocks).toEqual(expected.blocks)
    }
  }
})
