/** The clock of the machine is set back, or a year ahead and back: nothing waits for it, and nothing is measured with it. */

import { readdirSync, utimesSync } from 'node:fs'
import { join } from 'node:path'
import { SessionId } from '@cambium/session'
import { call, say, type TempWorkspace, tempWorkspace } from '@cambium/testkit'
import { defineTool } from '@cambium/tools'
import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { ask, bootSpine, reasons, type Spine } from '../boot.ts'

const HOUR = 3_600_000
const YEAR = 365 * 24 * HOUR

let home: TempWorkspace
let spine: Spine
const realNow = Date.now
let shift = 0
beforeEach(() => {
  home = tempWorkspace()
  shift = 0
  vi.spyOn(Date, 'now').mockImplementation(() => realNow() + shift)
})
afterEach(async () => {
  await spine.dispose()
  vi.restoreAllMocks()
  home.dispose()
})

async function boot(replies: Parameters<typeof bootSpine>[0]): Promise<Spine> {
  spine = await bootSpine(
    replies,
    `- { name: '@cambium/session/jsonl', config: { folder: ${JSON.stringify(home.path)}, partialMs: 50, heartbeatMs: 100 } }
- { name: '@cambium/permission/budget', config: { turn: { maxWallMs: 60000, maxSteps: 50 } } }
`,
  )
  spine.ctx.tools.register(
    defineTool({
      name: 'jump',
      description: 'Sets the clock',
      parameters: { to: { type: 'number' } },
      execute: ({ to }) => {
        shift = to ?? 0
        return 'set'
      },
    }),
  )
  return spine
}

it.each([
  ['an hour back', [-HOUR, -2 * HOUR]],
  ['a year ahead', [YEAR, YEAR]],
  ['a year ahead and back again', [YEAR, 0]],
  ['to before the session began', [-10 * YEAR, -20 * YEAR]],
])('a turn in whose middle the clock is set %s ends as it should, and goes on after a restart', async (_how, jumps) => {
  const { ctx } = await boot([
    call('jump', { to: jumps[0] }),
    { text: ['half of ', 'an answer'], calls: [{ name: 'jump', args: { to: jumps[1] } }] },
    say('done'),
    say('more'),
  ])
  const agent = await spine.agent({ id: SessionId('s'), cwd: home.path })
  await ask(agent, 'go')
  expect(reasons(agent.session)).toEqual([{ kind: 'completed' }])
  await ask(agent, 'go on')
  expect(reasons(agent.session)).toEqual([{ kind: 'completed' }, { kind: 'completed' }])
  const results = agent.session.events().flatMap(({ type, data }) => (type === 'tool/result' ? [data] : []))
  expect(results).toHaveLength(2)
  for (const { durationMs, error } of results) {
    expect(error).toBeUndefined()
    expect(durationMs).toBeGreaterThanOrEqual(0)
    expect(durationMs).toBeLessThan(60_000)
  }
  expect(agent.session.events().map(({ seq }) => seq)).toEqual(agent.session.events().map((_, index) => index))
  const before = agent.session.seq
  await ctx.sessions.flush(agent.session)
  // The holder lives, whatever the clock makes of its last heartbeat.
  await expect(ctx.sessionPersistence.acquire(agent.id)).rejects.toMatchObject({ code: 'SESSION_BUSY' })
  const [summary] = await ctx.sessionPersistence.list()
  expect(summary).toMatchObject({ id: 's', title: 'go' })
  await spine.dispose()

  shift = 0
  await boot([say('still there')])
  const { agent: again } = await spine.ctx.agents.resume(SessionId('s'))
  expect(again.session.seq).toBe(before + 1)
  await ask(again, 'hello')
  expect(reasons(again.session).at(-1)).toEqual({ kind: 'completed' })
  expect(spine.logs()).not.toMatch(/warn|error/)
})

it('an answer that is cut off while the clock goes back is journalled and comes back', async () => {
  await boot([{ text: ['so far ', 'so good'], hang: true }])
  const agent = await spine.agent({ id: SessionId('s'), cwd: home.path })
  const partials = () =>
    readdirSync(home.path, { recursive: true, encoding: 'utf8' }).filter(path => /partial$/.test(path))
  agent.followup({
    id: 'm',
    role: 'user',
    content: [{ type: 'text', text: 'go' }],
    source: { kind: 'user' },
  })
  await spine.model.asked(1)
  shift = -HOUR
  await vi.waitFor(() => expect(partials()).toHaveLength(1), { timeout: 10_000, interval: 10 })
  agent.cancel({ by: 'user' })
  await agent.whenIdle()
  expect(agent.session.last('assistant/message')?.data).toMatchObject({ interrupted: true })
})

it('lists the last written first by the times of the files, also those of the future', async () => {
  await boot([say('a'), say('b'), say('c')])
  for (const [id, from] of [
    ['one', -YEAR],
    ['two', YEAR],
    ['three', 0],
  ] as const) {
    shift = from
    const agent = await spine.agent({ id: SessionId(id), cwd: home.path })
    await ask(agent, `I am ${id}`)
    await agent.handle.dispose()
    const log = readdirSync(home.path, { recursive: true, encoding: 'utf8' }).find(path => path.endsWith(`${id}.jsonl`))
    const time = (realNow() + from) / 1_000
    utimesSync(join(home.path, log!), time, time)
  }
  shift = -2 * YEAR
  expect((await spine.ctx.sessionPersistence.list()).map(({ id }) => id)).toEqual(['two', 'three', 'one'])
})

it('a lock from the future, of a writer that cannot be looked at, is no lock for ever', async () => {
  await boot([say('a'), say('b')])
  const agent = await spine.agent({ id: SessionId('s'), cwd: home.path })
  await ask(agent, 'go')
  await spine.ctx.sessions.flush(agent.session)
  const folder = home.path
  const name = readdirSync(folder, { recursive: true, encoding: 'utf8' }).find(path => path.endsWith('s.lock'))!
  const content = JSON.parse(home.read(name)) as Record<string, unknown>
  await spine.dispose()
  // Another host wrote it when its clock, or ours, was a year ahead, and has not been heard of since.
  home.write(name, JSON.stringify({ ...content, host: 'elsewhere', boot: 'of another', since: realNow() + YEAR }))
  const heard = (time: number) => utimesSync(join(folder, name), time / 1_000, time / 1_000)
  heard(realNow())
  await boot([])
  // Its number may well be ours: containers count from 1.
  await expect(spine.ctx.agents.resume(SessionId('s'))).rejects.toThrow(`by process ${process.pid} on elsewhere`)
  await spine.dispose()
  heard(realNow() + YEAR)
  await boot([say('b')])
  const { agent: again } = await spine.ctx.agents.resume(SessionId('s'))
  await ask(again, 'hello')
  expect(reasons(again.session).at(-1)).toEqual({ kind: 'completed' })
})
