/** A turn is broken off, and the session is taken up again, by another view or another process, before all of it has ended. */

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { SessionId } from '@cambium/session'
import { bundledChild, call, say, startModelServer, type TempWorkspace, tempWorkspace } from '@cambium/testkit'
import { defineTool } from '@cambium/tools'
import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { ask, bootSpine, next, reasons, type Spine, types, user } from '../boot.ts'
import { bootTree } from './tree.ts'

vi.setConfig({ testTimeout: 60_000 })

const id = SessionId('s')
let home: TempWorkspace
let spine: Spine | undefined
beforeEach(() => {
  home = tempWorkspace()
})
afterEach(async () => {
  await spine?.dispose()
  spine = undefined
  home.dispose()
})

const stored = () => `- { name: '@cambium/session/jsonl', config: { folder: ${JSON.stringify(home.path)} } }\n`
const logged = () => {
  const path = readdirSync(home.path, { recursive: true, encoding: 'utf8' }).find(name => name.endsWith('s.jsonl'))
  return readFileSync(join(home.path, path!), 'utf8')
    .split('\n')
    .filter(Boolean)
    .slice(1)
    .map(line => JSON.parse(line) as { seq: number; type: string })
}

it('a view that takes a session up while an interrupted tool still runs waits for it: one writer, one result, the true reason', async () => {
  spine = await bootSpine([call('slow'), say('again')], stored())
  const { ctx } = spine
  let end: (text: string) => void = () => {}
  let running: () => void = () => {}
  const started = new Promise<void>(resolve => {
    running = resolve
  })
  ctx.tools.register(
    defineTool({
      name: 'slow',
      description: 'Ends when it is told to, not when it is cancelled',
      parameters: {},
      execute: () =>
        new Promise<string>(resolve => {
          end = resolve
          running()
        }),
    }),
  )
  const first = await spine.agent({ id, cwd: home.path })
  first.followup(user('go'))
  await started
  first.cancel({ by: 'user', reason: 'enough' })

  // While it is live here nobody gets a second one, and whoever asks is told so at once.
  await expect(ctx.agents.resume(id)).rejects.toMatchObject({ code: 'SESSION_DUPLICATE' })
  expect(ctx.agents.get(id)).toBe(ctx.agents.list()[0])
  const leaving = first.handle.dispose()
  let resumed = false
  const second = ctx.agents.resume(id).then(
    handle => {
      resumed = true
      return handle
    },
    (error: unknown) => error,
  )
  // The tool decides when, not a clock, and nobody spins meanwhile.
  const idle = performance.eventLoopUtilization()
  await new Promise(resolve => setTimeout(resolve, 150))
  expect(performance.eventLoopUtilization(idle).utilization).toBeLessThan(0.7)
  expect(resumed).toBe(false)
  end('late')
  await leaving
  await first.whenIdle()
  const outcome = await second
  const again =
    outcome instanceof Error
      ? (await ctx.agents.resume(id)).agent
      : (outcome as Awaited<ReturnType<typeof ctx.agents.resume>>).agent
  const events = again.session.events()
  expect(types(again.session).filter(type => type === 'tool/result')).toHaveLength(1)
  expect(reasons(again.session)).toEqual([{ kind: 'aborted', by: 'user', reason: 'enough' }])
  expect(events.map(({ seq }) => seq)).toEqual(events.map((_, index) => index))
  await ask(again, 'hello')
  expect(reasons(again.session).at(-1)).toEqual({ kind: 'completed' })
  await ctx.sessions.flush(again.session)
  expect(logged().map(({ type }) => type)).toEqual(types(again.session))
})

it.skipIf(process.platform === 'win32')(
  'a terminal that is dropped in the middle of a turn (SIGHUP) loses nothing that was acknowledged',
  async () => {
    const child = await bundledChild(new URL('./killed.ts', import.meta.url))
    await using server = await startModelServer({
      otherwise: {
        text: 'word '.repeat(60),
        pieceChars: 8,
        delayMs: 5,
        toolCalls: [{ name: 'pay' }, { name: 'post' }],
      },
    })
    const ledger = join(home.path, 'ledger')
    const folder = join(home.path, 'sessions')
    home.write('sessions/.keep', '')
    const options = { folder, url: server.url, ledger, id: 's', seed: 7, crash: { at: 'outside' } }
    for (let drop = 0; drop < 3; drop++) {
      const view = spawn(process.execPath, [child.file, JSON.stringify(options)], {
        stdio: ['ignore', 'pipe', 'inherit'],
      })
      await once(view.stdout, 'data')
      await server.request(server.requests.length)
      view.kill('SIGHUP')
      await once(view, 'exit')
    }
    rmSync(child.folder, { recursive: true, force: true })
    const { ctx } = await bootTree({ folder, url: server.url, ledger })
    const { session } = (await ctx.agents.resume('s')).agent
    const events = session.events()
    const lines = readFileSync(ledger, 'utf8').split('\n')
    const told = (word: string) => lines.filter(line => line.startsWith(`${word} `)).map(line => line.split(' ')[1]!)
    const received = events.flatMap(({ type, data }) =>
      type === 'inbox/changed' ? (data.inserted ?? []).map(({ message }) => message.id) : [],
    )
    const calls = events.flatMap(({ type, data }) => (type === 'tool/call' ? [data.callId] : []))
    expect(received).toEqual(expect.arrayContaining(told('ack')))
    expect(calls).toEqual(expect.arrayContaining(told('effect')))
    expect(reasons(session)).toContainEqual({ kind: 'interrupted' })
    expect(server.requests.flatMap(({ problem }) => problem ?? [])).toEqual([])
    await ctx.fiber.dispose()
  },
)

it('aborted before the first token, in reasoning, then three errors in a row: the strict provider takes the next request, also after a restart', async () => {
  await using server = await startModelServer({
    alternateRoles: true,
    replies: [
      { fault: 'stall', after: 'request' },
      { reasoning: 'Let me think about this. '.repeat(20), fault: 'stall', after: 3 },
      { fault: '400', message: 'first', times: 1 },
      { fault: '400', message: 'second' },
      { fault: '400', message: 'third' },
      'Here I am.',
      'And again.',
    ],
  })
  const rows = `
- { name: '@cambium/llm/openai', config: { providers: { test: { baseURL: '${server.url}', apiKey: none, reasoningKey: reasoning_content } } } }
${stored()}`
  spine = await bootSpine([], rows)
  const agent = await spine.agent({ id, cwd: home.path, model: 'test/m' })
  agent.followup(user('one'))
  await server.request(0)
  agent.cancel({ by: 'user' })
  await agent.whenIdle()
  agent.followup(user('two'))
  await next(spine.ctx, 'session/event', 'assistant/chunk')
  await vi.waitFor(() => expect(agent.session.partial?.content[0]).toMatchObject({ type: 'reasoning' }))
  agent.cancel({ by: 'user' })
  await agent.whenIdle()
  for (const text of ['three', 'four', 'five']) await ask(agent, text)
  expect(reasons(agent.session).map(reason => (reason as { kind: string }).kind)).toEqual([
    'aborted',
    'aborted',
    'error',
    'error',
    'error',
  ])
  await ask(agent, 'six')
  expect(reasons(agent.session).at(-1)).toEqual({ kind: 'completed' })
  await spine.dispose()

  spine = await bootSpine([], rows)
  const { agent: again } = await spine.ctx.agents.resume(id)
  await ask(again, 'seven')
  expect(reasons(again.session).at(-1)).toEqual({ kind: 'completed' })
  server.expectDone()
  const { messages } = server.requests.at(-1)!.body
  for (const { content } of messages) expect(JSON.stringify(content ?? '')).not.toMatch(/^""$|"text":"\s*"/)
  for (const text of ['one', 'two', 'three', 'four', 'five', 'six', 'seven'])
    expect(server.requests.at(-1)!.text).toContain(text)
})
