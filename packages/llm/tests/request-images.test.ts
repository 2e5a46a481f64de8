import type { LogRecord } from '@cambium/core'
import {
  type ContentBlock,
  createToolResultMessage,
  createUserMessage,
  type ImageBlock,
  type ImageRules,
  LlmAdapter,
  LlmError,
  type LlmRequest,
  type Message,
  normaliseRequest,
  type StreamChunk,
  textOf,
} from '@cambium/llm'
import * as responses from '@cambium/llm/responses'
import { startModelServer } from '@cambium/testkit'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { adapted, answer, ask, collect, connected, tree, user } from './llm.ts'
import { gif, jpeg, png, webp } from './pictures.ts'

const image = (data: Buffer | string, mediaType = 'image/png'): ImageBlock => ({
  type: 'image',
  mediaType,
  data: typeof data === 'string' ? data : data.toString('base64'),
})
/** A picture that is told from the others by its size. */
const picture = (width: number) => image(png(width, 1))
const widthOf = ({ data }: { data: string }) => Buffer.from(data.slice(0, 44), 'base64').readUInt32BE(16)

const shows = (...content: ImageBlock[]): Message => createUserMessage({ content, source: { kind: 'user' } })
let calls = 0
/** A tool's call and the pictures that it gave. */
function looks(...content: ImageBlock[]): Message[] {
  const callId = `look-${++calls}`
  return [
    {
      id: `a${calls}`,
      role: 'assistant',
      content: [{ type: 'tool-call', id: callId, name: 'look', arguments: '{}' }],
      source: { kind: 'model', provider: 'test', model: 'm' },
    },
    createToolResultMessage({ callId, content }),
  ]
}

/** What goes out: the width of each picture, and `-` where one was. */
function outgoing(messages: readonly Message[], imageRules: ImageRules = {}) {
  const normal = normaliseRequest(ask({ messages }), { imageRules })
  const blocks = normal.request.messages.flatMap(message =>
    (message.content as readonly ContentBlock[]).flatMap((block): readonly ContentBlock[] =>
      block.type === 'tool-result' ? block.content : [block],
    ),
  )
  const shown = blocks.flatMap(block => {
    if (block.type === 'image') return [String(widthOf(block))]
    return block.type === 'text' && block.text.startsWith('[An image') ? ['-'] : []
  })
  return { ...normal, shown: shown.join(' '), messages: normal.request.messages }
}

/** What the first block of the only message became. */
function became(block: ImageBlock) {
  return normaliseRequest(ask({ messages: [shows(block)] })).request.messages[0]!.content[0]!
}

describe('an image in the history', () => {
  it('goes out with the type that its bytes have', () => {
    const photo = jpeg(png(4, 4))
    expect(became(image(photo, 'image/png'))).toEqual(image(photo, 'image/jpeg'))
    expect(became(image(gif(), 'application/octet-stream'))).toEqual(image(gif(), 'image/gif'))
    expect(became(image(webp(png(4, 4)), ''))).toMatchObject({ mediaType: 'image/webp' })
  })

  it('goes out in clean base64, however it was written', () => {
    const photo = jpeg(png(8, 8))
    const clean = photo.toString('base64')
    const lines = clean.replace(/.{20}/g, '$&\n')
    for (const data of [
      lines,
      photo.toString('base64url'),
      `data:image/jpeg;base64,${clean}`,
      clean.replace(/=+$/, ''),
    ])
      expect(became(image(data, 'image/jpeg'))).toEqual(image(photo, 'image/jpeg'))
  })

  it('stays the very same block where nothing is wrong', () => {
    const message = shows(picture(3))
    expect(normaliseRequest(ask({ messages: [message] })).request.messages[0]).toBe(message)
  })

  it('that is none, or too large for every provider, is a text that says so', () => {
    expect(became(image(Buffer.from('<html>404</html>')))).toEqual({
      type: 'text',
      text: expect.stringMatching(/^\[An image was here; it cannot be shown: it is a page of HTML/),
    })
    expect(became(image('%%%'))).toMatchObject({ text: expect.stringContaining('an empty file') })
    expect(became(image(Buffer.concat([png(3, 3), Buffer.alloc(4_000_000)])))).toMatchObject({
      text: expect.stringContaining('it holds 3.8 MiB'),
    })
    const kept = normaliseRequest(ask({ messages: looks(image('AAAA'), picture(7)) })).request.messages[1]!
    expect(kept.content[0]).toMatchObject({
      content: [{ type: 'text', text: expect.stringContaining('no picture') }, { type: 'image' }],
    })
  })

  it('of a type that the provider does not read is said to be one', () => {
    const { messages } = outgoing([shows(image(gif(), 'image/gif'), picture(3))], {
      mediaTypes: ['image/png', 'image/jpeg'],
    })
    expect(messages[0]!.content).toEqual([
      { type: 'text', text: '[An image was here; this provider does not read image/gif, but png, jpeg.]' },
      picture(3),
    ])
  })
})

describe('too many images', () => {
  it('the oldest give way, several at once, and what gave way stays so until there are too many again', () => {
    const messages: Message[] = [user('look around')]
    const seen: string[] = []
    for (let width = 1; width <= 10; width++) {
      messages.push(...looks(picture(width)))
      seen.push(outgoing(messages, { maxCount: 5 }).shown)
    }
    expect(seen.slice(4)).toEqual([
      '1 2 3 4 5',
      '- - - 4 5 6',
      '- - - 4 5 6 7',
      '- - - 4 5 6 7 8',
      '- - - - - - 7 8 9',
      '- - - - - - 7 8 9 10',
    ])
  })

  it('bytes count as well', () => {
    const heavy = () => looks(image(Buffer.concat([png(2, 2), Buffer.alloc(3_000)])))
    const messages = [...heavy(), ...heavy(), ...heavy(), ...heavy()]
    expect(outgoing(messages.slice(0, 6), { maxBase64: 13_000 }).shown).toBe('2 2 2')
    expect(outgoing(messages, { maxBase64: 13_000 }).shown).toBe('- - 2 2')
  })

  it('messages that change are the same objects from request to request', () => {
    const messages = [user('look'), ...[1, 2, 3, 4, 5].flatMap(width => looks(picture(width)))]
    const first = outgoing(messages, { maxCount: 4 })
    const second = outgoing([...messages, user('well?')], { maxCount: 4 })
    expect(first.shown).toBe('- - 3 4 5')
    for (const [index, message] of first.messages.entries()) expect(second.messages[index]).toBe(message)
  })

  it('those of what a person said last stay, and give way when the person has gone on', () => {
    const asked = shows(picture(1), picture(2))
    const later = [3, 4, 5].flatMap(width => looks(picture(width)))
    expect(outgoing([asked, ...later], { maxCount: 4 }).shown).toBe('1 2 - - 5')
    const more = [...later, user('and now?'), ...looks(picture(6)), ...looks(picture(7))]
    expect(outgoing([asked, ...more], { maxCount: 4 }).shown).toBe('- - - - 5 6 7')
  })

  it('a message that alone holds too many fails in words, and the next one without images works', async () => {
    const root = await adapted(new Eyes({ maxCount: 2 }))
    const asked = shows(picture(1), picture(2), picture(3))
    const { failure } = await answer(root, { messages: [asked] })
    expect(failure).toEqual({
      code: 'UNSUPPORTED_CONTENT',
      message: 'the message holds 3 images, and a request to test at most 2',
      fix: 'send fewer images at once',
    })
    const { failure: heavy } = await answer(await adapted(new Eyes({ maxBase64: 200 })), { messages: [asked] })
    expect(heavy?.message).toMatch(/^the message holds images of 0\.0 MiB, and a request to test at most/)
    expect((await answer(root, { messages: [asked, user('the first, then')] })).text).toBe('3')
  })

  it('property: the budget holds, the prefix changes only when it must, and what gave way never comes back', () => {
    const step = fc.oneof(
      { weight: 5, arbitrary: fc.integer({ min: 1, max: 3 }).map(count => ({ kind: 'look' as const, count })) },
      fc.integer({ min: 0, max: 3 }).map(count => ({ kind: 'say' as const, count })),
    )
    fc.assert(
      fc.property(fc.array(step, { maxLength: 25 }), fc.integer({ min: 3, max: 8 }), (steps, maxCount) => {
        const messages: Message[] = [user('begin')]
        let width = 0
        let before = ''
        let changes = 0
        let said = 0
        for (const { kind, count } of steps) {
          const pictures = Array.from({ length: count }, () => picture(++width))
          messages.push(...(kind === 'look' ? looks(...pictures) : [count ? shows(...pictures) : user('go on')]))
          const { shown, problem, images } = outgoing(messages, { maxCount })
          expect(problem).toBeUndefined()
          expect(images.length).toBeLessThanOrEqual(maxCount)
          const now = shown.split(' ')
          const old = before ? before.split(' ') : []
          if (old.some((word, index) => word !== now[index])) changes++
          for (const [index, word] of old.entries()) if (word === '-') expect(now[index]).toBe('-')
          if (kind === 'say') said = count
          // What was just seen is there, unless what was said takes all the room.
          if (count && (kind === 'say' || said < maxCount)) expect(now.at(-1)).not.toBe('-')
          before = shown
        }
        expect(changes).toBeLessThanOrEqual(width)
      }),
      { numRuns: 200 },
    )
  })
})

/** Says which pictures it was shown. */
class Eyes extends LlmAdapter {
  private readonly rules: ImageRules
  readonly requests: LlmRequest[] = []

  constructor(rules: ImageRules = {}) {
    super()
    this.rules = rules
  }

  override images() {
    return this.rules
  }

  /** May throw. */
  look(_images: readonly ImageBlock[]): void {}

  async *stream(request: LlmRequest): AsyncGenerator<StreamChunk> {
    this.requests.push(request)
    const images = request.messages.flatMap(({ content }) => [...content]).filter(block => block.type === 'image')
    this.look(images)
    const text = images.map(widthOf).join(' ') || 'nothing to see'
    yield { type: 'block-start', index: 0, blockType: 'text' }
    yield { type: 'block-end', index: 0, block: { type: 'text', text } }
    yield { type: 'finish', reason: 'stop' }
  }
}

class Squeamish extends Eyes {
  override look(images: readonly ImageBlock[]) {
    if (!images.some(block => widthOf(block) === 13)) return
    throw new LlmError({ code: 'INVALID_REQUEST', message: 'test refused the request (400): Could not process image' })
  }
}

describe('an image that the provider refuses', () => {
  it('is replaced by a note, and the request is made again without it', async () => {
    const logs: LogRecord[] = []
    const root = await tree(logs)
    const adapter = new Squeamish()
    root.llm.registerAdapter('test', adapter)
    const good = shows(picture(4))
    expect((await answer(root, { messages: [good] })).text).toBe('4')
    const messages = [good, shows(picture(13))]
    expect((await answer(root, { messages })).text).toBe('4')
    expect(adapter.requests).toHaveLength(3)
    expect(logs.map(({ text }) => text)).toContain(
      'an image is left out: test refused the request (400): Could not process image',
    )
    // It is known from then on, and no request is spent on it.
    const { text } = await answer(root, { messages: [...messages, shows(picture(5))] })
    expect(text).toBe('4 5')
    expect(adapter.requests).toHaveLength(4)
    expect(JSON.stringify(adapter.requests.at(-1)!.messages)).toContain('the provider refused it')
  })

  it('is shown to another model all the same', async () => {
    const root = await adapted(new Squeamish())
    const other = new Eyes()
    root.llm.registerAdapter('other', other)
    const messages = [shows(picture(13))]
    expect((await answer(root, { messages })).text).toBe('nothing to see')
    expect((await answer(root, { messages, provider: 'other' })).text).toBe('13')
  })

  it('is not blamed for what fails without it as well, nor for another failure', async () => {
    class Never extends Eyes {
      code: 'INVALID_REQUEST' | 'SERVER' = 'INVALID_REQUEST'
      override look() {
        throw new LlmError({ code: this.code, message: 'tools[0]: image is no type of a schema' })
      }
    }
    const adapter = new Never()
    const root = await adapted(adapter)
    const messages = [shows(picture(4))]
    expect((await answer(root, { messages })).failure?.code).toBe('INVALID_REQUEST')
    expect(adapter.requests).toHaveLength(2)
    adapter.code = 'SERVER'
    expect((await answer(root, { messages })).failure?.code).toBe('SERVER')
    expect(adapter.requests).toHaveLength(3)
    adapter.look = () => {}
    expect((await answer(root, { messages })).text).toBe('4')
  })

  it('leaves a cancel at once as it was', async () => {
    class Hanging extends Eyes {
      override async *stream(): AsyncGenerator<StreamChunk> {
        await new Promise(() => {})
      }
    }
    const root = await adapted(new Hanging())
    const stop = new AbortController()
    const asked = collect(root.llm.stream(ask({ messages: [shows(picture(4))], signal: stop.signal })))
    stop.abort()
    expect((await asked).reason).toBe('aborted')
    const left = root.llm.stream(ask({ messages: [shows(picture(4))] }))[Symbol.asyncIterator]()
    void left.next()
    await expect(left.return?.()).resolves.toMatchObject({ done: true })
  })
})

describe('over HTTP', () => {
  it('real images arrive, and the strict server finds nothing to refuse', async () => {
    await using server = await startModelServer({ otherwise: 'seen' })
    const root = await connected(server.url)
    const photo = jpeg(png(30, 20))
    const messages = [shows(image(photo, 'image/png')), ...looks(image('AAAA'), picture(9)), user('well?')]
    expect((await answer(root, { messages })).text).toBe('seen')
    const { text } = server.requests[0]!
    expect(text).toContain(`data:image/jpeg;base64,${photo.toString('base64')}`)
    expect(text).toContain(`data:image/png;base64,${picture(9).data}`)
    server.expectDone()
  })

  it('a row may say how many images a server takes', async () => {
    await using server = await startModelServer({ otherwise: 'seen' })
    const root = await connected(server.url, { maxImages: 1 })
    await answer(root, { messages: [...looks(picture(1)), ...looks(picture(2))] })
    expect(server.requests[0]!.text.match(/data:image/g)).toHaveLength(1)
  })

  it('a model that answers with a picture is heard, and the picture passed over', async () => {
    const url = `data:image/png;base64,${picture(3).data}`
    const part = { type: 'image_url', image_url: { url } }
    await using server = await startModelServer({
      replies: [
        { deltas: [{ content: 'Here:' }, { images: [part] }, { content: [part] }, { content: ' done' }] },
        { deltas: [{ reasoning: 'hm' }, { content: '', images: [part] }] },
      ],
    })
    const root = await connected(server.url)
    const { text, blocks, failure } = await answer(root)
    expect({ text, failure }).toEqual({ text: 'Here: done', failure: undefined })
    expect(JSON.stringify(blocks)).not.toContain('base64')
    // Without a word it is no empty answer, which would be asked for and paid again.
    expect((await answer(root)).failure).toMatchObject({ code: 'UNSUPPORTED_CONTENT', fix: expect.any(String) })
  })

  it('a picture that Responses makes on the way is passed over too', async () => {
    const message = { id: 'msg_1', type: 'message', role: 'assistant', status: 'completed' }
    const drawn = { id: 'ig_1', type: 'image_generation_call', status: 'completed', result: picture(3).data }
    const text = { type: 'output_text', text: 'There.', annotations: [] }
    const events = [
      { type: 'response.created', response: { id: 'r', status: 'in_progress' } },
      { type: 'response.output_item.added', output_index: 0, item: { ...drawn, status: 'in_progress', result: null } },
      { type: 'response.image_generation_call.partial_image', output_index: 0, partial_image_b64: picture(3).data },
      { type: 'response.output_item.done', output_index: 0, item: drawn },
      { type: 'response.output_item.added', output_index: 1, item: { ...message, content: [] } },
      { type: 'response.output_text.delta', output_index: 1, content_index: 0, delta: 'There.' },
      { type: 'response.output_item.done', output_index: 1, item: { ...message, content: [text] } },
      {
        type: 'response.completed',
        response: { id: 'r', status: 'completed', output: [drawn, { ...message, content: [text] }] },
      },
    ]
    const raw = events.map(event => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`).join('')
    await using server = await startModelServer({ replies: [{ raw }] })
    const root = await tree()
    await root.plugin(responses, { providers: { test: { baseURL: server.url } } } as unknown as responses.Config)
    const { blocks, failure } = await answer(root)
    expect({ said: textOf({ content: blocks }), failure }).toEqual({ said: 'There.', failure: undefined })
    expect(JSON.stringify(blocks)).not.toContain(picture(3).data)
  })
})
