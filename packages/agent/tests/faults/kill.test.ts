/** kill -9 of a real process at any moment, again and again: nothing that was said is lost, and nothing is done twice. */

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { createUserMessage } from '@cambium/llm'
import type { SessionEvent } from '@cambium/session'
import { bundledChild, type ModelServer, type Reply, startModelServer, tempWorkspace } from '@cambium/testkit'
import { afterAll, beforeAll, expect, it, onTestFinished, vi } from 'vitest'
import type { Crash, KilledOptions } from './killed.ts'
import { bootTree, randomOf } from './tree.ts'

vi.setConfig({ testTimeout: 600_000, hookTimeout: 60_000 })

/** `KILL_SEED=… vitest run …` repeats a run, as far as the machine's own timing lets it. */
const SEED = Number(process.env['KILL_SEED'] ?? Date.now() % 1_000_000)
const AT_ONCE = 2
/** Kills of each session, one after the other. */
const CHAINS = [40, 20, ...Array.from({ length: 35 }, () => 4)]
const HANG_MS = 20_000

const home = tempWorkspace()
let child: Awaited<ReturnType<typeof bundledChild>>
let server: ModelServer

beforeAll(async () => {
  child = await bundledChild(new URL('./killed.ts', import.meta.url))
  const random = randomOf(SEED)
  server = await startModelServer({ otherwise: () => replyOf(random) })
})
afterAll(async () => {
  await server?.close()
  home.dispose()
  if (child) rmSync(child.folder, { recursive: true, force: true })
})

/** Text in pieces, now and then slow enough to be journalled, and up to four calls. */
function replyOf(random: () => number): Reply {
  const slow = random() < 0.15
  const text = `Let me see. ${'word '.repeat(random() * 12)}`
  const count = random() < 0.5 ? 1 + Math.floor(random() * 4) : 0
  const toolCalls = Array.from({ length: count }, () => ({ name: random() < 0.6 ? 'post' : 'pay' }))
  return { text, toolCalls, pieceChars: 12, ...(slow ? { delayMs: 10 } : {}) }
}

function crashOf(random: () => number): Crash {
  const kind = random()
  if (kind < 0.45) {
    const moment = (['before', 'half', 'after'] as const)[Math.floor(random() * 3)]!
    // Early ones as often as late ones: what creates and repairs a log happens once.
    return { at: 'disk', moment, nth: 1 + Math.floor(random() ** 2 * 60) }
  }
  if (kind < 0.6) return { at: 'effect', nth: 1 + Math.floor(random() * 8) }
  if (kind < 0.75) return { at: 'event', nth: 1 + Math.floor(random() * 90) }
  return { at: 'outside' }
}

async function killed(options: KilledOptions, random: () => number): Promise<void> {
  const { crash } = options
  const process_ = spawn(process.execPath, [child.file, JSON.stringify(options)], { stdio: ['ignore', 'pipe', 'pipe'] })
  let said = ''
  process_.stderr.setEncoding('utf8').on('data', text => {
    said += text
  })
  const kill = () => void process_.kill('SIGKILL')
  let hung = false
  const guard = setTimeout(() => {
    hung = true
    kill()
  }, HANG_MS)
  const wait = random()
  if (crash.at === 'outside') {
    if (wait < 0.2) setTimeout(kill, wait * 500)
    else process_.stdout.once('data', () => setTimeout(kill, (wait - 0.2) * 120))
  }
  const [code, signal] = await once(process_, 'close')
  clearTimeout(guard)
  expect({ code, signal, hung, said }, `${options.id}, ${JSON.stringify(crash)}`).toEqual({
    code: null,
    signal: 'SIGKILL',
    hung: false,
    said: '',
  })
}

interface World {
  readonly events: readonly SessionEvent[]
  readonly acknowledged: readonly string[]
  readonly effects: readonly string[]
  /** In what state the log was left. */
  readonly state: string
}

/** Reads the files themselves, and holds them against each other. */
function look(folder: string, ledger: string, id: string): World {
  const lines = existsSync(ledger) ? readFileSync(ledger, 'utf8').split('\n') : []
  const told = (word: string) => lines.filter(line => line.startsWith(`${word} `)).map(line => line.split(' ')[1]!)
  const acknowledged = told('ack')
  const effects = told('effect')
  const path = logOf(folder, id)
  const text = path ? readFileSync(path, 'utf8') : ''
  const whole = text.slice(0, text.lastIndexOf('\n') + 1)
  const [header, ...events] = whole
    .split('\n')
    .filter(Boolean)
    .map(line => JSON.parse(line) as SessionEvent)
  if (text) expect(header).toMatchObject({ type: 'session', id })
  expect(
    events.map(({ seq }) => seq),
    'numbers',
  ).toEqual(events.map((_, index) => index))

  const received = events.flatMap(({ type, data }) =>
    type === 'inbox/changed' ? (data.inserted ?? []).map(({ message }) => message.id) : [],
  )
  expect(
    acknowledged.filter(message => !received.includes(message)),
    'acknowledged and lost',
  ).toEqual([])

  const calls = events.flatMap(({ type, data }) => (type === 'tool/call' ? [data.callId] : []))
  expect(new Set(calls).size, 'a call begun twice').toBe(calls.length)
  expect(
    effects.filter(call => !calls.includes(call)),
    'done and not logged',
  ).toEqual([])
  expect(new Set(effects).size, 'done twice').toBe(effects.length)

  const results = new Map<string, string | undefined>()
  for (const { type, data } of events) {
    if (type !== 'tool/result') continue
    const [block] = data.message.content
    const call = block?.type === 'tool-result' ? block.toolCallId : ''
    expect(results.has(call), `two results of ${call}`).toBe(false)
    results.set(call, data.error?.code)
  }
  for (const [call, code] of results) {
    if (code === 'TOOL_NOT_STARTED') expect(calls, 'not started, and begun').not.toContain(call)
    else if (code === 'TOOL_OUTCOME_UNKNOWN') expect(calls, 'unknown, and never begun').toContain(call)
    else expect({ code, done: effects.includes(call) }, `result of ${call}`).toEqual({ code: undefined, done: true })
  }
  requireOrder(events, results)
  const open = events.findLast(({ type }) => type === 'turn/start' || type === 'turn/end')?.type === 'turn/start'
  const state = !text
    ? 'no log'
    : whole !== text
      ? 'half a line'
      : effects.some(call => !results.has(call))
        ? 'done, no result'
        : existsSync(path!.replace(/jsonl$/, 'partial'))
          ? 'answer journalled'
          : open
            ? 'turn open'
            : 'idle'
  return { events, acknowledged, effects, state }
}

function logOf(folder: string, id: string): string | undefined {
  if (!existsSync(folder)) return undefined
  const name = readdirSync(folder, { recursive: true, encoding: 'utf8' }).find(path => path.endsWith(`${id}.jsonl`))
  return name && join(folder, name)
}

/** Turns count up and nest, and every call of a step that has ended has its result. */
function requireOrder(events: readonly SessionEvent[], results: ReadonlyMap<string, unknown>) {
  let turn = 0
  let inTurn = false
  let step = 0
  let owed: string[] = []
  for (const { seq, type, data } of events) {
    const where = `event ${seq} (${type})`
    if (type === 'turn/start') {
      expect([inTurn, data.turn], where).toEqual([false, turn + 1])
      turn = data.turn
      inTurn = true
    } else if (type === 'turn/end') {
      expect([inTurn, step, data.turn], where).toEqual([true, 0, turn])
      inTurn = false
    } else if (type === 'step/start') {
      expect([inTurn, step], where).toEqual([true, 0])
      step = data.step
    } else if (type === 'assistant/message') {
      owed = data.message.content.flatMap(block => (block.type === 'tool-call' ? [block.id] : []))
    } else if (type === 'step/end') {
      expect(
        owed.filter(call => !results.has(call)),
        `${where}: calls without result`,
      ).toEqual([])
      step = 0
      owed = []
    }
  }
}

it(`a process killed ${CHAINS.reduce((a, b) => a + b)} times loses no message, hides no side effect, and goes on`, async () => {
  const states = new Map<string, number>()
  const kinds = new Map<string, number>()
  const count = (map: Map<string, number>, key: string) => map.set(key, (map.get(key) ?? 0) + 1)
  const work = CHAINS.map((kills, index) => ({ kills, id: `chain-${index}`, random: randomOf(SEED * 1_000 + index) }))
  let acknowledged = 0
  let effects = 0
  let over = false
  onTestFinished(() => {
    over = true
  })
  const startedAt = performance.now()

  async function chain({ kills, id, random }: (typeof work)[number]) {
    const folder = join(home.path, id)
    const ledger = join(home.path, `${id}.ledger`)
    const options = { folder, url: server.url, ledger, id }
    home.write(`${id}/.keep`, '')
    for (let run = 0; run < kills && !over; run++) {
      const crash = crashOf(random)
      await killed({ ...options, seed: Math.floor(random() * 2 ** 31), crash }, random)
      const { state } = look(folder, ledger, id)
      count(states, state)
      count(kinds, crash.at)
    }
    const { ctx } = await bootTree(options)
    const { agent } = look(folder, ledger, id).events.length
      ? await ctx.agents.resume(id)
      : await ctx.agents.create({ id, cwd: folder })
    agent.followup(createUserMessage({ content: 'And the last word?', source: { kind: 'user' } }))
    await agent.whenIdle()
    await ctx.fiber.dispose()
    const world = look(folder, ledger, id)
    const admitted = world.events.flatMap(({ type, data }) => (type === 'user/message' ? [data.message.id] : []))
    expect(
      world.acknowledged.filter(message => !admitted.includes(message)),
      'never told to the model',
    ).toEqual([])
    expect(new Set(admitted).size, 'told twice').toBe(admitted.length)
    expect(world.state).toBe('idle')
    expect(world.events.at(-1)).toMatchObject({ type: 'turn/end', data: { reason: { kind: 'completed' } } })
    acknowledged += world.acknowledged.length
    effects += world.effects.length
  }

  try {
    await Promise.all(
      Array.from({ length: AT_ONCE }, async () => {
        for (let next = work.shift(); next && !over; next = work.shift()) await chain(next)
      }),
    )
    expect(server.requests.flatMap(({ problem }) => problem ?? [])).toEqual([])
    // The moments were spread, or the run proves little.
    for (const state of ['no log', 'done, no result', 'turn open', 'idle']) {
      expect(states.get(state) ?? 0, state).toBeGreaterThan(3)
    }
    expect(Math.min(...kinds.values())).toBeGreaterThan(10)
    expect(acknowledged).toBeGreaterThan(100)
    expect(effects).toBeGreaterThan(200)
  } finally {
    const list = (map: Map<string, number>) => [...map].map(([key, n]) => `${n} ${key}`).join(', ')
    const seconds = Math.round((performance.now() - startedAt) / 1_000)
    console.info(
      `KILL_SEED=${SEED}: killed at ${list(kinds)}; log left as ${list(states)}; ${acknowledged} messages acknowledged, ` +
        `${effects} side effects, ${server.requests.length} requests in ${seconds} s`,
    )
  }
})
