import * as anthropic from '@cambium/llm/anthropic'
import * as openai from '@cambium/llm/openai'
import * as responses from '@cambium/llm/responses'
import { type ModelProtocol, startModelServer } from '@cambium/testkit'
import fc from 'fast-check'
import { beforeEach, describe, expect, it } from 'vitest'
import { answer, clearEnvironment, tree } from './llm.ts'
import {
  cutAt,
  type Expected,
  outcome,
  PROTOCOLS,
  Replayer,
  recordedStreams,
  singleBytes,
  wildStream,
  withCrlf,
} from './streams.ts'

const streams = recordedStreams()

/** The same blocks from the same bytes, however the network cuts them. */
async function expectAnyhow(replayer: Replayer, protocol: ModelProtocol, bytes: Buffer, expected: object) {
  const result = async (pieces: readonly Buffer[]) => outcome(await replayer.answer(protocol, pieces))
  const crlf = withCrlf(bytes)
  expect(await result([bytes])).toMatchObject(expected)
  const whole = await result([bytes])
  expect(await result([crlf])).toEqual(whole)
  expect(await result(singleBytes(bytes))).toEqual(whole)
  const body = fc.constantFrom(bytes, crlf)
  const offsets = fc.array(fc.nat(crlf.length), { maxLength: 12 })
  await fc.assert(
    fc.asyncProperty(body, offsets, async (sent, cuts) => {
      expect(await result(cutAt(sent, cuts))).toEqual(whole)
    }),
    { numRuns: 4 },
  )
}

describe('a recorded stream comes to the blocks that it means', () => {
  let replayer: Replayer
  beforeEach(async () => {
    replayer = await Replayer.create()
  })

  it.each(streams)('$name: whole, byte by byte, with CRLF, and cut anywhere', async ({ protocol, bytes, expected }) => {
    expect(outcome(await replayer.answer(protocol, [bytes]))).toEqual(expected)
    await expectAnyhow(replayer, protocol, bytes, expected)
  })
})

it('recorded streams come to the same blocks through the plugins and a network', async () => {
  let body: Buffer = Buffer.alloc(0)
  let split: number | undefined
  const server = await startModelServer({ otherwise: () => ({ raw: body, ...(split ? { split } : {}) }) })
  clearEnvironment()
  const root = await tree()
  const at = (provider: string) => ({ providers: { [provider]: { baseURL: server.url } } })
  await root.plugin(openai, at('chat') as openai.Config)
  await root.plugin(anthropic, at('messages') as anthropic.Config)
  await root.plugin(responses, at('responses') as responses.Config)
  for (const { protocol, name, bytes, expected } of streams) {
    body = bytes
    expect(outcome(await answer(root, { provider: protocol, model: 'any' })), name).toEqual(expected)
  }
  split = 3
  for (const protocol of PROTOCOLS) {
    const { bytes, expected } = streams.find(stream => stream.name === `${protocol}/text`) ?? streams[0]!
    body = bytes
    expect(outcome(await answer(root, { provider: protocol, model: 'any' }))).toEqual(expected)
  }
  server.expectDone()
  await server.close()
})

const call = (id: string, name: string, args: string) => ({ type: 'tool-call', id, name, arguments: args })
const text = (said: string) => ({ type: 'text', text: said })
const usage = (inputTokens: number, outputTokens: number, cacheReadTokens = 0, reasoningTokens = 0) => ({
  inputTokens,
  outputTokens,
  cacheReadTokens,
  cacheWriteTokens: 0,
  reasoningTokens,
})

const WILD: readonly (readonly [file: string, ModelProtocol, readonly (Partial<Expected> | object)[]])[] = [
  [
    'deepseek-reasoning-text',
    'chat',
    [
      {
        reason: 'stop',
        blocks: [
          { type: 'reasoning', text: expect.stringMatching(/^We need to count.{560,}$/s) },
          text('The word "strawberry" contains three "r"s.'),
        ],
        usage: usage(18, 219, 0, 205),
      },
    ],
  ],
  [
    'deepseek-reasoning-toolcall',
    'chat',
    [
      {
        reason: 'tool-calls',
        blocks: [
          { type: 'reasoning', text: expect.stringMatching(/^The user is asking for the weather.{100,}$/s) },
          call('call_00_ioIn7yN9p1ZOMNpDLwd4MgAF', 'weather', '{"location": "San Francisco"}'),
        ],
        usage: usage(19, 83, 320, 39),
      },
    ],
  ],
  [
    'mistral-incremental-toolcall',
    'chat',
    [
      {
        reason: 'tool-calls',
        blocks: [call('chatcmpl-tool-9f149c74c42f265b', 'webSearchTool', '{"query": "current Berlin weather"}')],
        usage: usage(43, 14, 128),
      },
    ],
  ],
  [
    'anthropic-thinking',
    'messages',
    [
      {
        reason: 'stop',
        blocks: [
          {
            type: 'reasoning',
            text: 'The previous result was 925. Now I need to divide that by 5.\n\n925 ÷ 5 = 185',
            replay: expect.objectContaining({ signature: expect.stringMatching(/^EvQBCkYI.*B$/) }),
          },
          text('925 ÷ 5 = 185'),
        ],
      },
    ],
  ],
  [
    'anthropic-tooluse',
    'messages',
    [
      {
        reason: 'tool-calls',
        blocks: [call('toolu_019Zvehfe1XQWweT1pm7okyt', 'weather', '{"location": "San Francisco"}')],
        usage: usage(843, 28),
      },
    ],
  ],
  [
    'responses-reasoning-toolcall',
    'responses',
    [
      {
        reason: 'tool-calls',
        blocks: [
          {
            type: 'reasoning',
            text: expect.stringMatching(/^\*\*Calculating step-by-step.*final product\.$/s),
            // What the item ends with, not what it was announced with.
            replay: { item: { encrypted_content: expect.stringMatching(/^gAAAAABpPDIVOKrs/) } },
          },
          call('call_AB6AaRZ1FYZB2RwS6A5vbdqn', 'calculator', '{"a":12,"b":7,"op":"add"}'),
        ],
        usage: usage(134, 28),
      },
      {
        reason: 'tool-calls',
        blocks: [call('call_Q6pW65MUgW9vF59BmItYGos3', 'calculator', '{"a":19,"b":3,"op":"multiply"}')],
        usage: usage(221, 26),
      },
      {
        reason: 'tool-calls',
        blocks: [call('call_Zl5vIMnD7dVAjgU6FkhmiCZh', 'calculator', '{"a":57,"b":10,"op":"multiply"}')],
        usage: usage(260, 26),
      },
      { reason: 'stop', blocks: [text('The final result is **570**.')], usage: usage(299, 12) },
    ],
  ],
  ['responses-error-midstream', 'responses', [{ reason: 'error', blocks: [], failure: 'QUOTA' }]],
]

describe('a stream of a real provider comes to the blocks that it means', () => {
  const there = wildStream(WILD[0]![0]) !== undefined
  if (!there) console.warn('streams.test.ts: no streams of real providers lie beside this checkout; those are skipped')

  it.skipIf(!there).each(WILD)(
    '%s: whole, byte by byte, with CRLF, and cut anywhere',
    async (file, protocol, expected) => {
      const replayer = await Replayer.create()
      // A recording may hold several answers, one behind the other.
      const answers = wildStream(file)!
        .toString('utf8')
        .split(/(?<=\n)(?=event: response\.created\n)/)
      expect(answers.length).toBe(expected.length)
      for (const [index, body] of answers.entries()) {
        await expectAnyhow(replayer, protocol, Buffer.from(body), expected[index]!)
      }
    },
  )
})
