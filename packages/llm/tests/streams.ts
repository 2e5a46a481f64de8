/** Recorded streams, and the product's own reader fed with their bytes in any pieces, without a network. */

import { existsSync, readdirSync, readFileSync } from 'node:fs'
import type { IncomingMessage } from 'node:http'
import { Readable } from 'node:stream'
import { fileURLToPath } from 'node:url'
import type { Context } from '@cambium/core'
import type { AssistantBlock, TokenUsage } from '@cambium/llm'
import type { ModelProtocol } from '@cambium/testkit'
import { Messages } from '../src/anthropic/protocol.ts'
import { DIALECT } from '../src/openai/dialect.ts'
import { ChatCompletions } from '../src/openai/protocol.ts'
import { Responses } from '../src/responses/protocol.ts'
import { WebAdapter } from '../src/web/adapter.ts'
import { environmentCredentials } from '../src/web/credentials.ts'
import { HttpTransport } from '../src/web/http.ts'
import type { Protocol } from '../src/web/protocol.ts'
import { type Answer, answer, tree } from './llm.ts'

export const PROTOCOLS: readonly ModelProtocol[] = ['chat', 'messages', 'responses']

export interface Expected {
  readonly reason: string
  readonly blocks: readonly AssistantBlock[]
  readonly cut?: readonly { readonly id: string; readonly name: string }[]
  readonly usage?: TokenUsage
  /** The failure's code. */
  readonly failure?: string
}

export interface RecordedStream {
  readonly protocol: ModelProtocol
  readonly name: string
  readonly bytes: Buffer
  readonly expected: Expected
}

const FOLDER = fileURLToPath(new URL('./fixtures/sse/', import.meta.url))

export function recordedStreams(): RecordedStream[] {
  return PROTOCOLS.flatMap(protocol =>
    readdirSync(FOLDER + protocol)
      .filter(file => file.endsWith('.sse'))
      .map(file => {
        const name = file.slice(0, -'.sse'.length)
        const path = `${FOLDER}${protocol}/${name}`
        const expected = JSON.parse(readFileSync(`${path}.json`, 'utf8'))
        return { protocol, name: `${protocol}/${name}`, bytes: readFileSync(`${path}.sse`), expected }
      }),
  )
}

const WILD = fileURLToPath(new URL('../../../../shared/wild/sse/', import.meta.url))

/** A stream of a real provider; undefined where there are none beside this checkout. */
export function wildStream(file: string): Buffer | undefined {
  return existsSync(WILD) ? readFileSync(`${WILD}${file}.sse`) : undefined
}

/** What an answer came to, in the form of {@link Expected}. */
export function outcome({ reason, blocks, cut, usage, failure }: Answer): Expected {
  return {
    reason: reason ?? 'none',
    blocks,
    ...(cut.length ? { cut } : {}),
    ...(usage ? { usage } : {}),
    ...(failure ? { failure: failure.code } : {}),
  }
}

const PARTS: Record<ModelProtocol, () => Protocol> = {
  chat: () => new ChatCompletions(DIALECT, {}, () => {}),
  messages: () => new Messages({ authorization: 'x-api-key', cache: '5m', info: () => undefined }),
  responses: () => new Responses({}),
}

/** Answers each request with the pieces that are set, each as one read. */
class PiecesTransport extends HttpTransport {
  pieces: readonly Buffer[] = []

  override async send(): Promise<IncomingMessage> {
    const { pieces } = this
    let next = 0
    const body = new Readable({
      highWaterMark: 1,
      read() {
        // Not at once, or a read would take many pieces.
        queueMicrotask(() => this.push(pieces[next++] ?? null))
      },
    })
    return Object.assign(body, { statusCode: 200, headers: {} }) as unknown as IncomingMessage
  }
}

/** Speaks each protocol through `ctx.llm`, as provider of its name, with a body that comes in given pieces. */
export class Replayer {
  private readonly root: Context
  private readonly transport: PiecesTransport

  private constructor(root: Context, transport: PiecesTransport) {
    this.root = root
    this.transport = transport
  }

  static async create(idleMs = 10_000): Promise<Replayer> {
    const root = await tree()
    const transport = new PiecesTransport()
    for (const protocol of PROTOCOLS) {
      const entry = { provider: protocol, baseURL: 'http://127.0.0.1:9/v1', keys: [], bases: [], models: [] }
      const adapter = new WebAdapter({
        entry: { ...entry, kind: 'named' },
        settings: {},
        protocol: PARTS[protocol](),
        transport,
        limits: { connectMs: idleMs, firstEventMs: idleMs, idleMs },
        credentials: environmentCredentials,
      })
      root.llm.registerAdapter(protocol, adapter)
    }
    return new Replayer(root, transport)
  }

  answer(protocol: ModelProtocol, pieces: readonly Buffer[]): Promise<Answer> {
    this.transport.pieces = pieces
    return answer(this.root, { provider: protocol, model: 'any' })
  }
}

/** Cuts bytes behind each of these offsets. */
export function cutAt(bytes: Buffer, offsets: readonly number[]): Buffer[] {
  const ends = [...new Set(offsets)].filter(at => at > 0 && at < bytes.length).sort((a, b) => a - b)
  return [...ends, bytes.length].map((end, index) => bytes.subarray(index ? ends[index - 1] : 0, end))
}

export const singleBytes = (bytes: Buffer) => Array.from(bytes, (_, at) => bytes.subarray(at, at + 1))

export const withCrlf = (bytes: Buffer) => Buffer.from(bytes.toString('utf8').replaceAll('\n', '\r\n'))
