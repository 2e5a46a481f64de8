import { type Context, createRoot, type LogRecord } from '@cambium/core'
import * as llm from '@cambium/llm'
import { createUserMessage, type ModelInfo, newMessageId } from '@cambium/llm'
import type { Session } from '@cambium/session'
import * as session from '@cambium/session'
import * as title from '@cambium/session/title'
import { FakeModel, type FakeReply, say } from '@cambium/testkit'
import fc from 'fast-check'
import { afterEach, describe, expect, it, onTestFinished, vi } from 'vitest'
import { bootStore, scratch } from './boot.ts'

afterEach(() => void vi.useRealTimers())

const PRICED: ModelInfo[] = [
  { id: 'large', contextWindow: 200_000, price: { input: 5, output: 25 } },
  { id: 'small', contextWindow: 200_000, price: { input: 0.2, output: 1 }, efforts: ['minimal', 'low', 'high'] },
  { id: 'middle', contextWindow: 200_000, price: { input: 1, output: 4 } },
  { id: 'unpriced' },
]

class Vendor extends FakeModel {
  override readonly kind
  private readonly offered: readonly ModelInfo[]
  constructor(replies: readonly FakeReply[], offered = PRICED, kind: 'remote' | 'local' | 'demo' = 'remote') {
    super(replies)
    this.offered = offered
    this.kind = kind as 'remote'
  }
  override models() {
    return this.offered as ReturnType<FakeModel['models']>
  }
}

interface Bench {
  readonly ctx: Context
  readonly vendor: Vendor
  readonly records: LogRecord[]
  fiber: { dispose(): Promise<void> }
}

async function open(vendor: Vendor, config: Partial<title.Config> = {}): Promise<Bench> {
  const records: LogRecord[] = []
  const ctx = createRoot({ level: 'debug', write: record => void records.push(record) })
  onTestFinished(() => ctx.fiber.dispose())
  await ctx.plugin(llm)
  await ctx.plugin(session)
  ctx.llm.registerAdapter('vendor', vendor)
  const fiber = await ctx.plugin(title, title.Config({ delayMs: 0, ...config } as title.Config))
  return { ctx, vendor, records, fiber: fiber as never }
}

const turn = (log: Session, prompt: string, model = 'large', answer = true) => {
  const number = log.lastTurn + 1
  const at = { turn: number, step: 1 }
  log.append('turn/start', { turn: number })
  log.append('step/start', at)
  log.append('user/message', { message: createUserMessage({ content: prompt, source: { kind: 'user' } }) })
  log.append('request/header', { config: { provider: 'vendor', model } })
  if (!answer) return
  const source = { kind: 'model', provider: 'vendor', model } as const
  const content = [{ type: 'text', text: 'the answer' }] as const
  log.append('assistant/message', {
    ...at,
    message: { id: newMessageId(), role: 'assistant', content, source },
    finish: 'stop',
  })
  log.append('step/end', at)
  log.append('turn/end', { turn: number, reason: { kind: 'completed' } })
}

const titles = (log: Session) => log.events().flatMap(({ type, data }) => (type === 'session/title' ? [data] : []))

/** Resolves with the next title of that maker. */
const titled = (ctx: Context, by: string) =>
  new Promise<string>(resolve => {
    const off = ctx.on('session/event', (_session, event) => {
      if (event.type !== 'session/title' || event.data.by !== by) return
      off()
      resolve(event.data.title)
    })
  })

describe('a session', () => {
  it('is called by its prompt with the first answer, then by one small request to the cheapest model', async () => {
    const { ctx, vendor } = await open(
      new Vendor([say('**"Mend the parser."**\n', { inputTokens: 120, outputTokens: 6 })]),
    )
    const log = ctx.sessions.create()
    const named = titled(ctx, 'model')
    turn(log, 'The parser breaks on an empty file, please mend it and add a test', 'large', false)
    expect(titles(log)).toEqual([])
    log.append('turn/end', { turn: 1, reason: { kind: 'completed' } })
    turn(log, 'go on')
    expect(titles(log)).toEqual([{ title: 'The parser breaks on an empty file, please…', by: 'prompt' }])
    expect(vendor.requests).toHaveLength(0)
    expect(await named).toBe('Mend the parser')
    const [request] = vendor.requests
    expect(request).toMatchObject({ model: 'small', purpose: 'title', effort: 'minimal', sessionId: log.id })
    expect(request!.tools).toBeUndefined()
    expect(request!.messages).toHaveLength(1)
    expect(log.last('session/title')!.data).toMatchObject({
      usage: { inputTokens: 120, outputTokens: 6 },
      route: { provider: 'vendor', model: 'small' },
    })
    // Never again.
    turn(log, 'and more')
    await new Promise(setImmediate)
    expect(vendor.requests).toHaveLength(1)
  })

  it('is asked about with its own model where no cheaper one is known, and with the one that is named', async () => {
    const plain = await open(new Vendor([say('One')], [{ id: 'large', contextWindow: 10_000 }]))
    const first = titled(plain.ctx, 'model')
    turn(plain.ctx.sessions.create(), 'x')
    await first
    expect(plain.vendor.requests[0]).toMatchObject({ model: 'large', maxTokens: 60 })
    const named = await open(new Vendor([say('Two')]), { model: 'vendor/middle' })
    const second = titled(named.ctx, 'model')
    turn(named.ctx.sessions.create(), 'x', 'unpriced')
    await second
    expect(named.vendor.requests[0]).toMatchObject({ model: 'middle' })
  })

  it.each([
    ['a model on this machine', new Vendor([], PRICED, 'local'), {}, 'large'],
    ['a demo', new Vendor([], PRICED, 'demo'), {}, 'large'],
    ['a model of which nothing is known', new Vendor([]), {}, 'unpriced'],
    ['any, when none is to be asked', new Vendor([]), { ask: false }, 'large'],
  ])('of %s has the words of its prompt, at no cost', async (_what, vendor, config, model) => {
    vi.useFakeTimers()
    const { ctx } = await open(vendor, config)
    const log = ctx.sessions.create()
    turn(log, 'fix it', model)
    await vi.runAllTimersAsync()
    expect(vendor.requests).toHaveLength(0)
    expect(titles(log)).toEqual([{ title: 'fix it', by: 'prompt' }])
  })

  it.each([
    ['a failure', { finish: 'error', failure: { code: 'SERVER', message: 'down' }, usage: { inputTokens: 9 } }],
    ['an essay', { text: 'word '.repeat(200), usage: { inputTokens: 9 } }],
    ['nothing but thought', { text: '<think>what could', usage: { inputTokens: 9 } }],
    ['a cut answer', { text: 'The', finish: 'max-tokens', usage: { inputTokens: 9 } }],
  ] as const)('keeps the words of its prompt after %s, which was asked once and is paid for', async (_what, reply) => {
    vi.useFakeTimers()
    const { ctx, vendor } = await open(new Vendor([reply]))
    const log = ctx.sessions.create()
    turn(log, 'fix it')
    await vi.runAllTimersAsync()
    turn(log, 'again')
    await vi.runAllTimersAsync()
    expect(vendor.requests).toHaveLength(1)
    expect(titles(log)).toMatchObject([{ by: 'prompt' }, { title: 'fix it', by: 'prompt', usage: { inputTokens: 9 } }])
  })

  it('keeps the title that a person gave meanwhile, and the cost of the one that came too late', async () => {
    let answer = () => {}
    const pause = new Promise<void>(resolve => {
      answer = resolve
    })
    const { ctx, vendor } = await open(new Vendor([{ text: 'Late', pause, usage: { inputTokens: 9 } }]))
    const log = ctx.sessions.create()
    turn(log, 'fix it')
    await vendor.asked(1)
    log.append('session/title', { title: 'Mine', by: 'user' })
    const paid = titled(ctx, 'user')
    answer()
    expect(await paid).toBe('Mine')
    expect(log.last('session/title')!.data).toMatchObject({ title: 'Mine', by: 'user', usage: { inputTokens: 9 } })
  })

  it('that ends at once asks nobody, and one that ends meanwhile breaks the request off and waits for nothing', async () => {
    vi.useFakeTimers()
    const { ctx, vendor } = await open(new Vendor([{ hang: true }]), { delayMs: 400 })
    const quick = ctx.sessions.create()
    turn(quick, 'quick one')
    await vi.advanceTimersByTimeAsync(399)
    await ctx.sessions.close(quick)
    await vi.advanceTimersByTimeAsync(1_000)
    expect(vendor.requests).toHaveLength(0)
    const slow = ctx.sessions.create()
    turn(slow, 'slow one')
    await vi.advanceTimersByTimeAsync(500)
    expect(vendor.requests).toHaveLength(1)
    await ctx.sessions.close(slow)
    expect(vendor.requests[0]!.signal!.aborted).toBe(true)
    await vi.advanceTimersByTimeAsync(60_000)
    expect(titles(slow)).toEqual([{ title: 'slow one', by: 'prompt' }])
    expect(vi.getTimerCount()).toBe(0)
  })

  it('waits for a title no longer than it may take', async () => {
    vi.useFakeTimers()
    const { ctx, vendor } = await open(new Vendor([{ hang: true }]), { timeoutMs: 30_000 })
    const log = ctx.sessions.create()
    turn(log, 'fix it')
    await vi.advanceTimersByTimeAsync(29_000)
    expect(vendor.requests[0]!.signal!.aborted).toBe(false)
    await vi.advanceTimersByTimeAsync(1_100)
    expect(vendor.requests[0]!.signal!.aborted).toBe(true)
    expect(titles(log)).toHaveLength(1)
  })

  it('of a child has no title of its own, and a fork keeps the one that it inherits', async () => {
    vi.useFakeTimers()
    const { ctx, vendor } = await open(new Vendor([say('One')]))
    const child = ctx.sessions.create(undefined, { header: { origin: 'subagent' } })
    turn(child, 'do a part')
    expect(titles(child)).toEqual([])
    const parent = ctx.sessions.create()
    turn(parent, 'fix it')
    await vi.runAllTimersAsync()
    const fork = ctx.sessions.fork(parent)
    turn(fork, 'another way')
    await vi.runAllTimersAsync()
    expect(vendor.requests).toHaveLength(1)
    expect(fork.last('session/title')!.data.title).toContain('One')
  })

  it('is found by its title in the list, and is not asked about again when it is taken up', async () => {
    const folder = scratch()
    const first = await bootStore(folder)
    await first.ctx.plugin(llm)
    first.ctx.llm.registerAdapter('vendor', new Vendor([say('Mend the parser')]))
    await first.ctx.plugin(title, title.Config({ delayMs: 0 } as title.Config))
    const log = first.ctx.sessions.create()
    const named = titled(first.ctx, 'model')
    turn(log, 'fix it')
    await named
    await first.stop()
    const second = await bootStore(folder)
    await second.ctx.plugin(llm)
    const vendor = new Vendor([])
    second.ctx.llm.registerAdapter('vendor', vendor)
    await second.ctx.plugin(title, title.Config({ delayMs: 0 } as title.Config))
    expect(await second.ctx.sessionPersistence.list()).toMatchObject([{ id: log.id, title: 'Mend the parser' }])
    const resumed = await second.ctx.sessions.resume(log.id)
    turn(resumed, 'go on')
    // A title is begun in the round of the answer, or not at all.
    expect(resumed.last('session/title')!.data).toMatchObject({ by: 'model' })
    expect(titles(resumed)).toHaveLength(2)
    expect(vendor.requests).toHaveLength(0)
  })
})

describe('the plugin', () => {
  it('breaks its request off when it leaves, and takes the type of its events along', async () => {
    const { ctx, vendor, fiber } = await open(new Vendor([{ hang: true }]))
    const log = ctx.sessions.create()
    turn(log, 'fix it')
    await vendor.asked(1)
    await fiber.dispose()
    expect(vendor.requests[0]!.signal!.aborted).toBe(true)
    expect(() => log.append('session/title', { title: 'x', by: 'user' })).toThrow('SESSION_EVENT_UNKNOWN')
    turn(log, 'again')
    expect(titles(log)).toEqual([{ title: 'fix it', by: 'prompt' }])
  })
})

describe('/title', () => {
  const offered: { name: string; run(input: object): string }[] = []
  const commands = {
    register(command: never) {
      offered.push(command)
      return () => {}
    },
  }

  it('pins a title, says it, and is there as soon as there are commands', async () => {
    const { ctx } = await open(new Vendor([]))
    expect(offered).toEqual([])
    ctx.provide('commands' as never, commands as never)
    await vi.waitFor(() => expect(offered).toHaveLength(1))
    const log = ctx.sessions.create()
    const run = (args: string) => offered[0]!.run({ agent: { session: log }, args })
    expect(run('')).toBe('This session has no title yet.')
    expect(run('  "The \u001b[31mred\u001b[0m one"\n')).toBe('This session is now called: The red one')
    expect(run('')).toBe('The red one')
    expect(run('…')).toBe('A title needs a letter or a digit.')
    expect(titles(log)).toEqual([{ title: 'The red one', by: 'user' }])
    turn(log, 'fix it')
    expect(titles(log)).toHaveLength(1)
  })
})

describe('a title', () => {
  it.each([
    ['<think>The user wants…</think>\n\n# Title: "Fix the **login** bug."', 'Fix the login bug'],
    ['thinking…</think>修复登录错误。', '修复登录错误'],
    ['「解析器を直す」', '解析器を直す'],
    ['```\nfix_the_bug in `a_b.ts`\n```', 'fix_the_bug in a_b.ts'],
    ['- [Docs](http://evil/x) for\u202e <img src=x onerror=1> it', 'Docs for it'],
    ['\u001b]0;owned\u0007Plan', 'Plan'],
    ['👩‍👩‍👧 family tree', '👩‍👩‍👧 family tree'],
    ['…', undefined],
    ['', undefined],
    ['I am sorry, but I cannot give this a title because it does not say what you would like me to do.', undefined],
  ])('from %j is %j', (given, expected) => expect(title.titleOf(given)).toBe(expected))

  it('is one short visible line, whatever it is made of', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 300 }), given => {
        const found = title.titleOf(given)
        if (found === undefined) return
        expect(found).not.toMatch(/[\p{Cc}\n\u202a-\u202e\u2066-\u2069]/u)
        expect([...found].length).toBeLessThanOrEqual(80)
        expect(found).toBe(found.trim())
      }),
    )
  })
})
