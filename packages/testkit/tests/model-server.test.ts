import { existsSync, readFileSync } from 'node:fs'
import { request as httpRequest } from 'node:http'
import { fileURLToPath } from 'node:url'
import {
  type ModelServer,
  type ModelServerOptions,
  OVERFLOW_WORDINGS,
  replyBytes,
  startModelServer,
} from '@cambium/testkit'
import { afterEach, describe, expect, it } from 'vitest'
import { ask, call, callParts, chunksOf, fold, hello } from './http-client.ts'

const open: ModelServer[] = []
async function serve(options: ModelServerOptions | ModelServerOptions['replies']) {
  const server = await startModelServer(Array.isArray(options) ? { replies: options } : (options as ModelServerOptions))
  open.push(server)
  return server
}
afterEach(async () => {
  for (const server of open.splice(0)) await server.close()
})

const get = (url: string) =>
  new Promise<string>((resolve, reject) => {
    httpRequest(url, { agent: false }, response => {
      let body = ''
      response.setEncoding('utf8')
      response.on('data', text => {
        body += text
      })
      response.on('end', () => resolve(body))
    })
      .on('error', reject)
      .end()
  })

describe('a reply', () => {
  it('streams reasoning, text and parallel tool calls as deltas and ends with [DONE]', async () => {
    const server = await serve([
      {
        reasoning: 'I should look at both files first.',
        text: 'Looking.',
        toolCalls: [
          { name: 'read', arguments: { file_path: 'a.txt' }, sizes: [1, 3] },
          { id: 'mine', name: 'read', arguments: '{"file_path":"b.txt"}' },
        ],
      },
    ])
    const { status, body, headers } = await ask(server.url, hello())
    expect(status).toBe(200)
    expect(headers['content-type']).toMatch('text/event-stream')
    expect(body.endsWith('data: [DONE]\n\n')).toBe(true)
    expect(fold(body)).toEqual({
      text: 'Looking.',
      reasoning: 'I should look at both files first.',
      calls: [
        { id: 'call_1', name: 'read', arguments: '{"file_path":"a.txt"}' },
        { id: 'mine', name: 'read', arguments: '{"file_path":"b.txt"}' },
      ],
      finish: 'tool_calls',
    })
    const sizes = callParts(body).flatMap(part => (part.index === 0 ? [part.function.arguments.length] : []))
    expect(sizes.slice(0, 4)).toEqual([0, 1, 3, 3])
    server.expectDone()
  })

  it('comes whole to a request that does not stream', async () => {
    const server = await serve([
      { text: 'Hi', usage: { input: 10, output: 2, cached: 4, reasoning: 1 } },
      { toolCalls: [{ name: 'ls' }] },
    ])
    const first = JSON.parse((await ask(server.url, hello({ stream: false }))).body)
    expect(first).toMatchObject({
      object: 'chat.completion',
      model: 'test-model',
      choices: [{ message: { role: 'assistant', content: 'Hi' }, finish_reason: 'stop' }],
      usage: {
        prompt_tokens: 10,
        completion_tokens: 2,
        total_tokens: 12,
        prompt_tokens_details: { cached_tokens: 4 },
        completion_tokens_details: { reasoning_tokens: 1 },
      },
    })
    const second = JSON.parse((await ask(server.url, hello({ stream: false }))).body)
    expect(second.choices[0].message).toEqual({
      role: 'assistant',
      content: null,
      tool_calls: [{ id: 'call_1', type: 'function', function: { name: 'ls', arguments: '{}' } }],
    })
  })

  it('tells usage in a chunk of its own only to a request that asks for it', async () => {
    const server = await serve([
      { text: 'a', usage: { input: 3, output: 1 }, times: 2 },
      { text: 'a', usageIn: 'finish-chunk' },
    ])
    const silent = chunksOf((await ask(server.url, hello())).body)
    expect(silent.filter(chunk => chunk.usage)).toEqual([])
    const told = chunksOf((await ask(server.url, hello({ stream_options: { include_usage: true } }))).body)
    expect(told.at(-1)).toMatchObject({ choices: [], usage: { prompt_tokens: 3, total_tokens: 4 } })
    const joined = chunksOf((await ask(server.url, hello())).body).at(-1)
    expect(joined?.choices[0]?.finish_reason).toBe('stop')
    expect(joined?.usage).toMatchObject({ completion_tokens: 1 })
  })

  it('can be made from the request, also when that takes a while', async () => {
    let decide = (_: string) => {}
    const decided = new Promise<string>(resolve => {
      decide = resolve
    })
    const server = await serve([
      request => `you said ${String(request.body.messages[0]?.content)}`,
      async () => ({ text: await decided }),
    ])
    expect(fold((await ask(server.url, hello())).body).text).toBe('you said hello')
    const late = ask(server.url, hello())
    await server.request(1)
    decide('now')
    expect(fold((await late).body).text).toBe('now')
  })

  it('goes to the first request that its `when` fits, whatever the order of arrival', async () => {
    const server = await serve([
      { text: 'for the child', when: 'child task' },
      { text: 'for a pattern', when: /pattern \d/ },
      { text: 'for anyone' },
    ])
    const say = async (content: string) =>
      fold((await ask(server.url, hello({ messages: [{ role: 'user', content }] }))).body).text
    expect(await say('something else')).toBe('for anyone')
    expect(await say('pattern 7')).toBe('for a pattern')
    expect(await say('the child task')).toBe('for the child')
    server.expectDone()
  })

  it('repeats a text as that many deltas, gathered into few writes when asked', async () => {
    const server = await serve([{ text: 'word ', repeat: 5_000, gatherBytes: 65_536 }])
    const { body, reads } = await ask(server.url, hello())
    expect(fold(body).text).toBe('word '.repeat(5_000))
    expect(chunksOf(body).length).toBe(5_000 + 2)
    expect(reads.length).toBeLessThan(200)
  })

  it('lets fragments of parallel calls take turns', async () => {
    const part = { name: 'read', arguments: '{"a":1}', sizes: [4] }
    const server = await serve([{ toolCalls: [part, part], interleave: true }])
    const { body } = await ask(server.url, hello())
    const order = callParts(body).map(part => part.index)
    expect(order).toEqual([0, 1, 0, 1, 0, 1])
    expect(fold(body).calls.map(made => made.arguments)).toEqual(['{"a":1}', '{"a":1}'])
  })

  it('sends deltas that the script spells out as they stand', async () => {
    const deltas = [{ tool_calls: [{ function: { arguments: '{}' } }] }, { content: null, reasoning: 'r' }]
    const server = await serve([{ deltas, finish: 'weird' }])
    const chunks = chunksOf((await ask(server.url, hello())).body)
    expect(chunks.slice(1, 3).map(chunk => chunk.choices[0]?.delta)).toEqual(deltas)
    expect(chunks[3]?.choices[0]?.finish_reason).toBe('weird')
  })

  it('sends a raw body as it stands, so that a recorded stream can be served', async () => {
    const server = await serve([
      { raw: '<html>bad gateway</html>', status: 502, headers: { 'content-type': 'text/html' } },
    ])
    const { status, headers, body } = await ask(server.url, hello())
    expect([status, headers['content-type'], body]).toEqual([502, 'text/html', '<html>bad gateway</html>'])
  })

  it('can be waited for in the middle', async () => {
    let release = () => {}
    const until = new Promise<void>(resolve => {
      release = resolve
    })
    const server = await serve([{ text: 'abcdef', pieceChars: 1, pause: { after: 3, until } }])
    const { answer, until: seen } = call(server.url, hello())
    expect(fold(await seen(body => body.includes('"c"'))).text).toBe('abc')
    release()
    expect(fold((await answer).body).text).toBe('abcdef')
  })
})

describe('the bytes of a reply', () => {
  const text = '台 and 😀'
  const spelt = { text, toolCalls: [{ name: 'write', arguments: { content: text } }], usage: { input: 1, output: 1 } }
  const want = {
    text,
    finish: 'tool_calls',
    calls: [{ id: 'call_1', name: 'write', arguments: JSON.stringify({ content: text }) }],
  }

  it('can come one at a time, inside characters, line ends and field names', async () => {
    for (const eol of ['\n', '\r\n'] as const) {
      const server = await serve([{ ...spelt, split: 1, eol }])
      const { body, reads } = await ask(server.url, hello())
      expect(reads.every(read => read.length === 1)).toBe(true)
      expect(reads.length).toBe(Buffer.byteLength(body))
      expect(body).toContain(`data: [DONE]${eol}${eol}`)
      expect(fold(body)).toMatchObject(want)
    }
  })

  it('can be cut at chosen offsets', async () => {
    const server = await serve([{ ...spelt, split: [5, 100, 101], gatherBytes: 1_000_000 }])
    const { reads } = await ask(server.url, hello())
    expect(reads.slice(0, 3).map(read => read.length)).toEqual([5, 95, 1])
    expect(reads.length).toBe(4)
  })

  it('are to be had without a server', () => {
    expect(fold(replyBytes(spelt).toString())).toMatchObject(want)
  })

  it('look as those of recorded providers do', ctx => {
    const folder = fileURLToPath(new URL('../../../../shared/wild/sse/', import.meta.url))
    if (!existsSync(folder)) return ctx.skip('there are no recorded streams beside this checkout')
    const ours = chunksOf(replyBytes({ ...spelt, reasoning: 'r', usageIn: 'finish-chunk' }).toString())
    for (const file of ['deepseek-reasoning-text', 'deepseek-reasoning-toolcall', 'mistral-incremental-toolcall']) {
      const theirs = chunksOf(readFileSync(`${folder}${file}.sse`, 'utf8'))
      const keys = new Set(theirs.flatMap(chunk => Object.keys(chunk)))
      for (const chunk of ours) for (const key of Object.keys(chunk)) expect(keys, file).toContain(key)
      const inside = new Set(theirs.flatMap(chunk => chunk.choices.flatMap(choice => Object.keys(choice))))
      for (const chunk of ours) for (const key of Object.keys(chunk.choices[0]!)) expect(inside, file).toContain(key)
      expect(Object.keys(theirs.at(-1)!.usage!)).toEqual(
        expect.arrayContaining(['prompt_tokens', 'completion_tokens', 'total_tokens', 'prompt_tokens_details']),
      )
    }
  })
})

describe('a fault', () => {
  it.each([
    ['401', 'invalid_api_key'],
    ['400', null],
    ['500', null],
    ['529', null],
  ] as const)('%s answers with that status and an error body', async (fault, code) => {
    const server = await serve([{ fault, message: 'told so' }])
    const { status, body } = await ask(server.url, hello())
    expect(status).toBe(Number(fault))
    expect(JSON.parse(body).error).toMatchObject({ message: 'told so', code })
    server.expectDone()
  })

  it('429 says when to try again, in seconds or as a date', async () => {
    const server = await serve([
      { fault: '429', retryAfter: 2 },
      { fault: '429', retryAfter: new Date(0) },
    ])
    expect((await ask(server.url, hello())).headers['retry-after']).toBe('2')
    expect((await ask(server.url, hello())).headers['retry-after']).toBe('Thu, 01 Jan 1970 00:00:00 GMT')
  })

  it('unknown-model comes as 404 or 400', async () => {
    const server = await serve([{ fault: 'unknown-model' }, { fault: 'unknown-model', status: 400 }])
    const first = await ask(server.url, hello())
    expect([first.status, JSON.parse(first.body).error.code]).toEqual([404, 'model_not_found'])
    expect(first.body).toContain('`test-model`')
    expect((await ask(server.url, hello())).status).toBe(400)
  })

  it.each(Object.keys(OVERFLOW_WORDINGS) as (keyof typeof OVERFLOW_WORDINGS)[])(
    'overflow is worded as %s',
    async wording => {
      const server = await serve([{ fault: 'overflow', wording }])
      const { status, body } = await ask(server.url, hello())
      expect({ status, error: JSON.parse(body).error }).toEqual(OVERFLOW_WORDINGS[wording])
    },
  )

  it('reset breaks the connection after exactly that many deltas', async () => {
    for (const after of [0, 1, 3]) {
      const server = await serve([{ text: 'abcdef', pieceChars: 1, fault: 'reset', after }])
      const { body, broken } = await ask(server.url, hello())
      expect(broken).toBe('ECONNRESET')
      expect(fold(body)).toMatchObject({ text: 'abcdef'.slice(0, after), finish: null })
      expect(await server.requests[0]?.ended).toBe('cut')
      server.expectDone()
    }
  })

  it('reset before the headers leaves the request without an answer', async () => {
    const server = await serve([{ fault: 'reset', after: 'request' }])
    await expect(ask(server.url, hello())).rejects.toMatchObject({ code: 'ECONNRESET' })
  })

  it('stall sends no more after its deltas, and ends when the client leaves', async () => {
    const server = await serve([{ text: 'abcdef', pieceChars: 1, fault: 'stall', after: 2 }])
    const { request, until } = call(server.url, hello())
    expect(fold(await until(body => body.includes('"b"'))).text).toBe('ab')
    request.destroy()
    expect(await server.requests[0]?.ended).toBe('left')
  })

  it('stall before the headers says nothing at all', async () => {
    const server = await serve([{ fault: 'stall', after: 'request' }])
    const { request, head } = call(server.url, hello())
    const { ended } = await server.request(0)
    request.destroy()
    await expect(head).rejects.toMatchObject({ code: 'ECONNRESET' })
    expect(await ended).toBe('left')
  })

  it('stall with comments sends those only', async () => {
    const server = await serve([{ text: 'a', fault: 'stall', after: 0, commentsMs: 5 }])
    const { request, until } = call(server.url, hello())
    const body = await until(sofar => sofar.split(': keep-alive\n\n').length > 3)
    request.destroy()
    expect(fold(body)).toMatchObject({ text: '', finish: null })
  })

  it('truncate ends the body in good order without finish and [DONE]', async () => {
    const server = await serve([
      { text: 'abc', pieceChars: 1, fault: 'truncate' },
      { text: 'abc', pieceChars: 1, fault: 'truncate', after: 1 },
    ])
    for (const text of ['abc', 'a']) {
      const { body, broken } = await ask(server.url, hello())
      expect(broken).toBeUndefined()
      expect(fold(body)).toMatchObject({ text, finish: null })
      expect(body).not.toContain('[DONE]')
    }
  })

  it('malformed puts one broken chunk among good ones', async () => {
    const server = await serve([{ text: 'abc', pieceChars: 1, fault: 'malformed' }])
    const { body } = await ask(server.url, hello())
    expect(() => chunksOf(body)).toThrow(SyntaxError)
    expect(fold(body.replace(/data: .*"bro\n\n/, ''))).toMatchObject({ text: 'abc', finish: 'stop' })
  })

  it('error-chunk speaks of an error inside a 200', async () => {
    const server = await serve([{ text: 'abc', pieceChars: 1, fault: 'error-chunk', after: 2, message: 'overloaded' }])
    const { status, body } = await ask(server.url, hello())
    expect(status).toBe(200)
    expect(chunksOf(body).at(-1)).toEqual({ error: { message: 'overloaded', type: 'overloaded_error', code: null } })
    expect(body.match(/"content":"[abc]"/g)).toEqual(['"content":"a"', '"content":"b"'])
  })

  it('invalid-arguments, duplicate-ids and length spoil tool calls', async () => {
    const toolCalls = [
      { name: 'write', arguments: { a: 1 } },
      { name: 'write', arguments: { content: 'long text' } },
    ]
    const server = await serve([
      { toolCalls, fault: 'invalid-arguments' },
      { toolCalls, fault: 'duplicate-ids' },
      { toolCalls, fault: 'length' },
    ])
    const spoilt = fold((await ask(server.url, hello())).body)
    expect(spoilt.calls.map(made => made.arguments)).toEqual(['{"a":1', '{"content":"long text"'])
    const doubled = fold((await ask(server.url, hello())).body)
    expect(doubled.calls[0]?.id).toBe(doubled.calls[1]?.id)
    const cut = fold((await ask(server.url, hello())).body)
    expect(cut.finish).toBe('length')
    expect(cut.calls[0]?.arguments).toBe('{"a":1}')
    expect(() => JSON.parse(cut.calls[1]!.arguments)).toThrow(SyntaxError)
  })

  it('empty says nothing; empty-choices has chunks without a choice', async () => {
    const server = await serve([{ fault: 'empty' }, { fault: 'empty-choices' }, { fault: 'empty-choices', text: 'a' }])
    expect(fold((await ask(server.url, hello())).body)).toEqual({ text: '', reasoning: '', calls: [], finish: 'stop' })
    const silent = chunksOf((await ask(server.url, hello())).body)
    expect(silent.length).toBeGreaterThan(0)
    expect(silent.every(chunk => chunk.choices.length === 0)).toBe(true)
    const { body } = await ask(server.url, hello())
    expect(fold(body)).toMatchObject({ text: 'a', finish: 'stop' })
    expect(chunksOf(body)[0]?.choices).toEqual([])
  })

  it('of the stream spoils a whole completion too', async () => {
    const whole = hello({ stream: false })
    const server = await serve([
      { text: 'abc', fault: 'reset' },
      { text: 'abc', fault: 'truncate' },
      { text: 'abc', fault: 'error-chunk' },
    ])
    expect((await ask(server.url, whole)).broken).toBe('ECONNRESET')
    const { body } = await ask(server.url, whole)
    expect(() => JSON.parse(body)).toThrow(SyntaxError)
    expect(JSON.parse((await ask(server.url, whole)).body)).toHaveProperty('error.message')
  })
})

describe('the server', () => {
  it('keeps each request with its body, headers and time', async () => {
    const server = await serve(['a'])
    const before = Date.now()
    await ask(server.url, hello(), { 'x-test': 'yes' })
    expect(server.requests).toHaveLength(1)
    expect(server.requests[0]).toMatchObject({
      index: 0,
      path: '/v1/chat/completions',
      body: hello(),
      headers: { 'x-test': 'yes' },
    })
    expect(server.requests[0]?.time).toBeGreaterThanOrEqual(before)
    expect(await server.requests[0]?.ended).toBe('finished')
  })

  it('lists its models, and knows no other when they are given', async () => {
    const server = await serve({ models: ['small', 'large'], otherwise: 'ok' })
    expect(JSON.parse(await get(`${server.url}/models`)).data.map((model: { id: string }) => model.id)).toEqual([
      'small',
      'large',
    ])
    expect((await ask(server.url, hello())).status).toBe(404)
    expect((await ask(server.url, hello({ model: 'large' }))).status).toBe(200)
    expect(server.others).toEqual(['GET /v1/models'])
    server.expectDone()
  })

  it('refuses a wrong key', async () => {
    const server = await serve({ apiKey: 'right', otherwise: 'ok' })
    expect((await ask(server.url, hello(), { authorization: 'Bearer wrong' })).status).toBe(401)
    expect((await ask(server.url, hello(), { authorization: 'Bearer right' })).status).toBe(200)
  })

  it('answers a request too many with a 500 that says so, and does not call the script done', async () => {
    const server = await serve(['only'])
    await ask(server.url, hello())
    const { status, body } = await ask(server.url, hello())
    expect(status).toBe(500)
    expect(JSON.parse(body).error).toMatchObject({
      message: 'the script has no reply left for request 1',
      code: 'unexpected_request',
    })
    expect(() => server.expectDone()).toThrow('request 1: no reply is left for it')
  })

  it('does not call the script done while replies are left, a path was wrong or a reply failed', async () => {
    const left = await serve(['a', { text: 'b', times: 3 }])
    await ask(left.url, hello())
    await ask(left.url, hello())
    expect(() => left.expectDone()).toThrow('reply 1 is left 2 times')
    const lost = await serve([])
    await get(`${lost.url}/nowhere`)
    expect(() => lost.expectDone()).toThrow('GET /v1/nowhere: there is no such path')
    const failing = await serve([
      () => {
        throw new Error('boom')
      },
    ])
    expect((await ask(failing.url, hello())).status).toBe(500)
    expect(() => failing.expectDone()).toThrow('request 0: its reply failed: boom')
  })

  it('closes while an answer is stalled, and frees the port', async () => {
    const server = await serve([{ text: 'abc', fault: 'stall' }])
    const { answer, head } = call(server.url, hello())
    await head
    await server.close()
    expect((await answer).broken).toBe('ECONNRESET')
    expect(await server.requests[0]?.ended).toBe('cut')
    const again = await startModelServer({ port: Number(new URL(server.url).port) })
    expect(again.url).toBe(server.url)
    await again.close()
  })

  it('outlives a client that leaves while its reply is being made', async () => {
    let release = () => {}
    const gate = new Promise<void>(resolve => {
      release = resolve
    })
    const server = await serve([
      async () => {
        await gate
        return { text: 'too late', repeat: 1_000 }
      },
      'next',
    ])
    const { request, head } = call(server.url, hello())
    const { ended } = await server.request(0)
    request.destroy()
    await expect(head).rejects.toThrow()
    expect(await ended).toBe('left')
    release()
    expect(fold((await ask(server.url, hello())).body).text).toBe('next')
    server.expectDone()
  })

  it.each([
    [{ txt: 'a' }, 'a reply has no key "txt"'],
    [{ fault: 'restart' }, '"fault" of a reply cannot be "restart"'],
    [{ repeat: '3' }, '"repeat" of a reply cannot be "3"'],
    [17, 'a reply is a text or a map, not 17'],
  ])('refuses the script %j at the start', async (reply, problem) => {
    await expect(startModelServer({ replies: [reply as never] })).rejects.toMatchObject({
      code: 'MODEL_SERVER_SCRIPT',
      problem,
      where: 'reply 0',
    })
  })
})
