import type { ResultBlock } from '@cambium/llm'
import { expect, test } from 'vitest'
import { toolResult } from '../src/index.ts'
import { boot, call, raw } from './boot.ts'
import { DOT } from './dot.ts'

const image = (data: string, mediaType = 'image/png'): ResultBlock => ({ type: 'image', mediaType, data })
const text = (value: string): ResultBlock => ({ type: 'text', text: value })
/** 3000 × 2 pixels. */
const WIDE =
  'iVBORw0KGgoAAAANSUhEUgAAC7gAAAACCAIAAABHIQbHAAAAL0lEQVR42u3QAQ0AAAgDoOc0sbHeQ9lIQDILAAAAAAAAAAD3KQAAAAAAAAAA4IMC23uOZ4ZVv1wAAAAASUVORK5CYII='

test('an image of a result has the type of its bytes, and one that is too large is scaled', async () => {
  const { ctx } = await boot()
  const content = [text('two pictures'), image(DOT, 'image/jpeg'), image(`data:image/png;base64,${WIDE}`)]
  ctx.tools.register(raw('look', { execute: () => toolResult({ content }) }))
  const result = await ctx.tools.execute(call('look'))
  expect(result.isError).toBe(false)
  expect(result.content.slice(0, 2)).toEqual([text('two pictures'), image(DOT)])
  const scaled = result.content[2] as Extract<ResultBlock, { type: 'image' }>
  expect(Buffer.from(scaled.data, 'base64').readUInt32BE(16)).toBe(2000)
})

test('a bad image is a text that says why, and the rest of the result is kept', async () => {
  const { ctx } = await boot()
  const page = Buffer.from('<html>not found</html>').toString('base64')
  const content = [image(page), text('and a text'), image(DOT), image(DOT.slice(0, 60))]
  ctx.tools.register(raw('look', { execute: () => toolResult({ value: { n: 1 }, content, meta: { m: 2 } }) }))
  expect(await ctx.tools.execute(call('look'))).toMatchObject({
    isError: false,
    value: { n: 1 },
    meta: { m: 2 },
    content: [
      text(
        '[An image of this result cannot be shown: the image is a page of HTML and no image; check the address it came from: this is often an error page.]',
      ),
      text('and a text'),
      image(DOT),
      { type: 'text', text: expect.stringContaining('the image is a damaged PNG: it is cut off') },
    ],
  })
})

test('images that listeners put in are looked at too, and those that have passed are the same blocks afterwards', async () => {
  const { ctx } = await boot()
  ctx.tools.register(raw('look', { execute: () => toolResult({ content: [image(DOT)] }) }))
  const seen: (readonly ResultBlock[])[] = []
  ctx.on('tools/execute', async (_exec, next) => {
    const result = await next()
    seen.push(result.content)
    return { ...result, content: [...result.content, image('AAAA')] }
  })
  ctx.on('tools/post-execute', async (_exec, result, next) => {
    seen.push(result.content)
    const decision = await next()
    return decision.kind === 'accept'
      ? { ...decision, content: [...result.content, image(DOT, 'image/gif')] }
      : decision
  })
  const { content } = await ctx.tools.execute(call('look'))
  expect(content).toEqual([image(DOT), { type: 'text', text: expect.stringContaining('cannot be shown') }, image(DOT)])
  expect(content[0]).toBe(seen[0]![0])
  expect(content[0]).toBe(seen[1]![0])
})

test('a call that is cancelled while its image is scaled is cancelled', async () => {
  const { ctx } = await boot()
  const stop = new AbortController()
  ctx.tools.register(
    raw('look', {
      execute: () => {
        // The door loads before it looks: the cancel comes while it is at work.
        setImmediate(() => stop.abort())
        return toolResult({ content: [image(WIDE)] })
      },
    }),
  )
  const result = await ctx.tools.execute(call('look'), { signal: stop.signal })
  expect(result.error?.code).toBe('ABORTED')
})
