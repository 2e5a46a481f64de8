/**
 * A process whose disk fails at a chosen call. It plays the life of a session once without a fault, to count the calls,
 * and then once for each call and each failure; what went wrong is said on its standard output, a line each.
 */

import { mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Context, createRoot, isHarnessError } from '@cambium/core'
import { createUserMessage } from '@cambium/llm'
import type { Session } from '@cambium/session'
import * as sessions from '@cambium/session'
import * as jsonl from '@cambium/session/jsonl'
import { answer, call, result } from '../script.ts'
import { FailingDisk, type Failure, type Plan } from './failing-disk.ts'

const { base, seed, config } = JSON.parse(process.argv[2] ?? '{}') as {
  base: string
  seed: number
  config: Partial<jsonl.Config>
}
const FAILURES: Failure[] = ['ENOSPC', 'EIO', 'EACCES', 'EROFS', 'EMFILE']
const HANG_MS = 5_000
const BATCH_MS = 26
const PARTIAL_MS = 53

mkdirSync(base, { recursive: true })
writeFileSync(join(base, 'any'), '')
const disk = await FailingDisk.install(join(base, 'any'))

// The store's own timers fire when the scenario says so: each run makes the same calls in the same order.
let waiting: { ms: number; run: () => void }[] = []
let beats: (() => void)[] = []
const realTimeout = globalThis.setTimeout
globalThis.setTimeout = ((run: () => void, ms: number) => {
  if (ms !== BATCH_MS && ms !== PARTIAL_MS) return realTimeout(run, ms)
  const timer = { ms, run }
  waiting.push(timer)
  return Object.assign(timer, { unref: () => timer })
}) as never
const realClear = globalThis.clearTimeout
globalThis.clearTimeout = ((timer: never) => {
  waiting = waiting.filter(one => one !== timer)
  realClear(timer)
}) as never
globalThis.setInterval = ((run: () => void) => {
  beats.push(run)
  return { unref: () => run }
}) as never
globalThis.clearInterval = ((run: () => void) => {
  beats = beats.filter(one => one !== run)
}) as never
function fire(ms: number) {
  const due = waiting.filter(timer => timer.ms === ms)
  waiting = waiting.filter(timer => timer.ms !== ms)
  for (const { run } of due) run()
}

let problems: string[] = []
const outcomes = new Map<string, number>()
process.on('unhandledRejection', error => problems.push(`unhandled: ${String(error)}`))
process.on('uncaughtException', error => problems.push(`uncaught: ${error.stack}`))

async function boot(folder: string, told: string[]): Promise<Context> {
  const ctx = createRoot({ level: 'warn', write: record => void told.push(record.text) })
  await ctx.plugin(sessions)
  const options = { folder, batchMs: BATCH_MS, partialMs: PARTIAL_MS, ...config }
  await ctx.plugin(jsonl, jsonl.Config(options as jsonl.Config))
  return ctx
}

async function bounded<T>(run: () => T | Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = realTimeout(() => reject(new Error('it hangs')), HANG_MS)
  })
  try {
    return await Promise.race([run(), late])
  } finally {
    realClear(timer)
  }
}

const user = (text: string) => ({ message: createUserMessage({ content: text, source: { kind: 'user' }, id: text }) })
const texts = (events: readonly { type: string; data: unknown }[]) =>
  events.map(({ type, data }) => JSON.stringify([type, data]))

async function play(folder: string, plan?: Plan): Promise<void> {
  const told: string[] = []
  /** What a flush has promised. */
  const promised = new Map<string, string[]>()
  let said = 0

  /** One operation: it succeeds, or says what and where. */
  async function step<T>(name: string, run: () => T | Promise<T>): Promise<T | undefined> {
    try {
      return await bounded(run)
    } catch (error) {
      if (!isHarnessError(error)) problems.push(`${name}: ${error instanceof Error ? error.stack : String(error)}`)
      else {
        if (!error.where && !['SESSION_NOT_FOUND', 'SESSION_DUPLICATE', 'SESSION_CLOSED'].includes(error.code)) {
          problems.push(`${name}: ${error.code} does not say where`)
        }
        outcomes.set(error.code, (outcomes.get(error.code) ?? 0) + 1)
      }
      return undefined
    }
  }
  async function flush(session: Session) {
    const { seq } = session
    await ctx.sessions.flush(session)
    promised.set(session.id, texts(session.events().slice(0, seq)))
  }
  const speak = (session: Session) => session.append('user/message', user(`message ${++said}`))

  disk.start(folder, plan)
  const ctx = await boot(folder, told)
  const session = ctx.sessions.create('s', { cwd: folder })
  session.append('turn/start', { turn: 1 })
  speak(session)
  await step('first flush', () => flush(session))
  session.append('step/start', { turn: 1, step: 1 })
  const at = { turn: 1, step: 1, attempt: 1 }
  session.publish('assistant/chunk', { ...at, chunk: { type: 'block-start', index: 0, blockType: 'text' } })
  session.publish('assistant/chunk', { ...at, chunk: { type: 'text-delta', index: 0, text: 'so far' } })
  fire(PARTIAL_MS)
  for (const beat of beats) beat()
  session.append('assistant/message', answer(1, 'on it', 'a'))
  fire(BATCH_MS)
  session.append('tool/call', call(1, 'a'))
  await step('flush before a tool', () => flush(session))
  session.append('tool/result', result(1, 'a'))
  session.append('step/end', { turn: 1, step: 1 })
  session.append('turn/end', { turn: 1, reason: { kind: 'completed' } })
  await step('flush at the end of a turn', () => flush(session))
  speak(session)
  await step('read while it is written', () => ctx.sessionPersistence.read('s'))
  await step('close', async () => {
    const all = texts(session.events())
    await ctx.sessions.close(session)
    promised.set('s', all)
  })
  await step('list', () => ctx.sessionPersistence.list())
  const again = await step('resume', () => ctx.sessions.resume('s'))
  let fork: Session | undefined
  if (again) {
    speak(again)
    await step('flush after resuming', () => flush(again))
    for (const beat of beats) beat()
    fork = await step('fork', () => ctx.sessions.fork(again, { id: 'f' }))
  }
  if (fork) {
    const child = fork
    speak(child)
    await step('flush of a fork', () => flush(child))
    await step('folder', () => ctx.sessions.folder(child))
    await step('close of a fork', () => ctx.sessions.close(child))
    promised.delete('f')
    await step('delete', () => ctx.sessionPersistence.delete('f'))
  }

  await step('prune', () => ctx.sessionPersistence.prune?.({ olderThanMs: 1e9 }))

  disk.mend()
  const live = ctx.sessions.list()
  for (const session of live) {
    speak(session)
    await step('flush when all is well again', () => flush(session))
    const expected = texts(session.events()).join('\n')
    if (promised.get(session.id)?.join('\n') !== expected) {
      problems.push(`${session.id} cannot be flushed when all is well again: ${told.join(' | ')}`)
    }
  }
  await ctx.fiber.dispose()
  const next = await boot(folder, told)
  for (const [id, events] of promised) {
    const found = await next.sessions.resume(id).catch((error: unknown) => error)
    if (found instanceof Error) {
      problems.push(`${id} cannot be resumed: ${found.message}`)
      continue
    }
    const stored = texts((found as Session).events())
    const lost = events.filter(event => !stored.includes(event))
    if (lost.length) problems.push(`${id} has lost ${lost.length}: ${lost[0]}`)
    speak(found as Session)
    await next.sessions.flush(found as Session)
  }
  const [fresh] = [next.sessions.create('after', { cwd: folder })]
  speak(fresh)
  await next.sessions.flush(fresh).catch((error: unknown) => problems.push(`a new session: ${String(error)}`))
  await next.fiber.dispose()
  const locks = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter(path => path.endsWith('.lock'))
  if (locks.length) problems.push(`left behind: ${locks.join(', ')}`)
}

const say = (line: unknown) => process.stdout.write(`${JSON.stringify(line)}\n`)
const openFiles = () => readdirSync('/proc/self/fd').length
const quiet = join(base, 'quiet')
mkdirSync(quiet)
await play(quiet)
const sites = [...disk.sites]
say({ sites })
if (problems.length) {
  say({ site: 'none', failure: 'none', from: 'once', problem: problems.join('\n') })
  process.exit(1)
}

let runs = 0
const before = process.platform === 'linux' ? openFiles() : 0
for (let nth = 1; nth <= sites.length; nth++) {
  // Which call fails in which way changes from run to run.
  const pick = (by: number) => FAILURES[(nth + seed + by) % FAILURES.length]!
  const plans: Plan[] = [
    { nth, failure: pick(0), from: 'once' },
    { nth, failure: pick(2), from: 'now on' },
    ...(sites[nth - 1]!.includes('writeSync') ? [{ nth, failure: 'SHORT' as const, from: 'once' as const }] : []),
  ]
  for (const plan of plans) {
    const folder = join(base, `${nth}-${plan.failure}-${plan.from}`)
    mkdirSync(folder)
    problems = []
    waiting = []
    runs++
    await play(folder, plan).catch((error: unknown) =>
      problems.push(`the run: ${error instanceof Error ? error.stack : String(error)}`),
    )
    const [site = sites[nth - 1]] = disk.failed
    if (!disk.failed.length) problems.push('the call did not come')
    for (const problem of problems) say({ site, ...plan, problem })
    rmSync(folder, { recursive: true, force: true })
  }
}
say({ runs, outcomes: Object.fromEntries(outcomes), leaked: process.platform === 'linux' ? openFiles() - before : 0 })
