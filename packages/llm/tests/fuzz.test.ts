import { FAILURE_CODES } from '@cambium/llm'
import fc from 'fast-check'
import { beforeEach, describe, expect, it } from 'vitest'
import type { Answer } from './llm.ts'
import { contains, eventsIn } from './oracle.ts'
import { PROTOCOLS, type RecordedStream, Replayer, recordedStreams } from './streams.ts'

/** More of them find more: `FUZZ_RUNS=20000`. */
const RUNS = Number(process.env['FUZZ_RUNS'] ?? 400)

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

function isObject(text: string): boolean {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null && !Array.isArray(value)
  } catch {
    return false
  }
}

function expectCoded({ reason, failure }: Answer) {
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

  it.each(['chat/calls-interleaved', 'messages/thinking-between-calls', 'responses/calls-interleaved'])(
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

/** Replaces one value of one event's JSON, wherever it lies. */
function wrongType(which: number, where: number, value: string): Damage {
  return bytes => {
    const lines = bytes.toString('utf8').split('\n')
    const data = lines.flatMap((line, index) => (/^data: ?[{[]/.test(line) ? [index] : []))
    if (!data.length) return bytes
    const line = data[at(which, data.length)]!
    let json: unknown
    try {
      json = JSON.parse(lines[line]!.slice(5))
    } catch {
      return bytes
    }
    const paths: [Record<string, unknown>, string][] = []
    const look = (node: unknown) => {
      if (typeof node !== 'object' || node === null) return
      for (const key of Object.keys(node)) {
        paths.push([node as Record<string, unknown>, key])
        look((node as Record<string, unknown>)[key])
      }
    }
    look(json)
    const [node, key] = paths[at(where, paths.length)]!
    node[key] = '\u0001'
    lines[line] = `data: ${JSON.stringify(json).replace('"\\u0001"', value)}`
    return Buffer.from(lines.join('\n'))
  }
}

const named = (name: string, damage: Damage): Named => ({ name, damage })
const damages: fc.Arbitrary<Named> = fc.oneof(
  {
    weight: 4,
    arbitrary: fc
      .tuple(seed(), seed(), fc.constantFrom(...WRONG))
      .map(([a, b, value]) => named(`${value} at ${a}/${b}`, wrongType(a, b, value))),
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

describe('a damaged stream is a whole answer or a coded failure, and runs no call that it does not contain', () => {
  it.each(PROTOCOLS)('of %s', async protocol => {
    const own = streams.filter(stream => stream.protocol === protocol)
    const plan = fc.record({
      stream: fc.constantFrom(...own.map(stream => stream.name)),
      damage: fc.array(damages, { minLength: 1, maxLength: 3 }),
    })
    await fc.assert(
      fc.asyncProperty(plan, async ({ stream, damage }) => {
        const { bytes } = own.find(one => one.name === stream)!
        const damaged = damage.reduce((sofar, one) => one.damage(sofar), bytes)
        const result = await replayer.answer(protocol, [damaged])
        expectCoded(result)
        const events = eventsIn(damaged)
        for (const { name, arguments: args } of runnable(result)) {
          expect(name).not.toBe('')
          if (!contains(protocol, events, name, args)) {
            expect.fail(`runs ${name}(${args}), which is not in\n${damaged.toString('utf8')}`)
          }
        }
      }),
      { numRuns: RUNS },
    )
  })
})
