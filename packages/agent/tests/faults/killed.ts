/**
 * A process that works on a session until it is killed, by itself at a chosen moment or from outside. Its ledger says
 * what really happened: `ready`, `ack <message id>` after the flush of a message, `effect <call id>`.
 */

import fs from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import type { Agent } from '@cambium/agent'
import { createUserMessage } from '@cambium/llm'
import { bootTree, ledgerOf, randomOf } from './tree.ts'

export interface KilledOptions {
  readonly folder: string
  readonly url: string
  readonly ledger: string
  readonly id: string
  readonly seed: number
  readonly crash: Crash
}

/** At the `nth` of what `at` counts. `half` of a write: its first bytes are written. */
export type Crash =
  | { readonly at: 'disk'; readonly nth: number; readonly moment: 'before' | 'half' | 'after' }
  | { readonly at: 'event' | 'effect'; readonly nth: number }
  | { readonly at: 'outside' }

const options = JSON.parse(process.argv[2] ?? '{}') as KilledOptions
const { folder, url, id, ledger, crash } = options
const random = randomOf(options.seed)
const note = ledgerOf(ledger)
const die = () => process.kill(process.pid, 'SIGKILL')

let left = 'nth' in crash ? crash.nth : Number.POSITIVE_INFINITY
const passes = (at: Crash['at']) => {
  if (crash.at === at && --left === 0) die()
}

if (crash.at === 'disk') {
  const disk = fs as unknown as Record<string, (...args: unknown[]) => unknown>
  const changing = ['openSync', 'writeSync', 'writeFileSync', 'linkSync', 'renameSync', 'rmSync', 'ftruncateSync']
  for (const name of [...changing, 'closeSync', 'mkdirSync', 'utimesSync', 'fsync', 'close']) {
    const real = disk[name]!
    disk[name] = (...args) => {
      const now = --left === 0
      const [target, bytes, offset] = args
      if (now && crash.moment === 'half' && name === 'writeSync' && Buffer.isBuffer(bytes)) {
        const start = typeof offset === 'number' ? offset : 0
        real(target, bytes, start, Math.max(1, Math.floor(random() * (bytes.length - start))))
        die()
      }
      if (now && crash.moment !== 'after') die()
      const answer = real.apply(fs, args)
      if (now) die()
      return answer
    }
  }
  syncBuiltinESMExports()
}

const { ctx } = await bootTree({ folder, url, ledger, random, around: () => passes('effect') })
ctx.on('session/event', () => passes('event'))
const stored = await ctx.sessionPersistence.list()
const { agent } = stored.some(session => session.id === id)
  ? await ctx.agents.resume(id)
  : await ctx.agents.create({ id, cwd: folder })
note('ready')
process.stdout.write('ready\n')

let said = 0
function message() {
  const content = `${process.pid} says ${++said}: ${'x'.repeat(random() * 300)}`
  return createUserMessage({ content, source: { kind: 'user' } })
}
const flush = ctx.sessions.flush.bind(ctx.sessions)
async function acknowledged(agent: Agent, ...ids: string[]) {
  await flush(agent.session)
  for (const received of ids) note(`ack ${received}`)
}

const late: Promise<void>[] = []
ctx.on('session/event', (_session, event) => {
  if (event.type !== 'tool/call' || random() < 0.7) return
  const received = random() < 0.5 ? agent.steer(message()) : agent.inject(message())
  late.push(acknowledged(agent, received))
})
for (let round = 0; round < 2; round++) {
  const ids = [agent.followup(message())]
  if (random() < 0.4) ids.push(agent.followup(message()))
  if (random() < 0.5) await acknowledged(agent, ...ids)
  await agent.whenIdle()
  await Promise.all(late.splice(0))
}
await ctx.fiber.dispose()
// Its moment did not come: then this one is it, in good order.
die()
