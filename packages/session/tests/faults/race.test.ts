/** Several processes want one session: one writes, the others are told who it is, and can read or fork meanwhile. */

import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { rmSync, utimesSync } from 'node:fs'
import { bundledChild } from '@cambium/testkit'
import { afterAll, beforeAll, expect, it, onTestFinished, vi } from 'vitest'
import { filesIn, linesOf, logOf, scratch } from '../boot.ts'

vi.setConfig({ testTimeout: 120_000, hookTimeout: 60_000 })

let program: Awaited<ReturnType<typeof bundledChild>>
beforeAll(async () => {
  program = await bundledChild(new URL('./racer.ts', import.meta.url))
})
afterAll(() => program && rmSync(program.folder, { recursive: true, force: true }))

interface Racer {
  readonly process: ChildProcess
  ask(name: string, ...args: unknown[]): Promise<unknown>
  kill(): Promise<void>
}

async function start(folder: string): Promise<Racer> {
  const child = spawn(process.execPath, [program.file, folder], { stdio: ['pipe', 'pipe', 'inherit'] })
  onTestFinished(() => void child.kill('SIGKILL'))
  const exited = once(child, 'exit')
  let rest = ''
  const waiting: ((line: string) => void)[] = []
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    rest += text
    for (let at = rest.indexOf('\n'); at >= 0; at = rest.indexOf('\n')) {
      waiting.shift()?.(rest.slice(0, at))
      rest = rest.slice(at + 1)
    }
  })
  const answer = () => new Promise<unknown>(resolve => waiting.push(line => resolve(JSON.parse(line))))
  expect(await answer()).toBe('ready')
  return {
    process: child,
    ask(name, ...args) {
      const answered = answer()
      child.stdin.write(`${JSON.stringify([name, ...args])}\n`)
      return answered
    },
    async kill() {
      child.kill('SIGKILL')
      await exited
    },
  }
}

const busyBy = ({ process }: Racer) => ({
  error: expect.stringMatching(new RegExp(`^SESSION_BUSY: .* by process ${process.pid} on .*\\n.*\\.lock\\n.*fork`)),
})
const textsOf = (path: string): string[] =>
  linesOf(path).flatMap(({ type, data }) => {
    const { message } = (data ?? {}) as { message?: { content: { text: string }[] } }
    return type === 'user/message' ? message!.content.map(({ text }) => text) : []
  })
/** Every line's number is its place. */
const gapless = (path: string) =>
  expect(
    linesOf(path)
      .slice(1)
      .map(({ seq }) => seq),
  ).toEqual(
    linesOf(path)
      .slice(1)
      .map((_, index) => index),
  )

it('of 4 processes that take one session up at once, 12 times, exactly one writes, and what each wrote is there', async () => {
  const folder = scratch()
  const racers = await Promise.all([1, 2, 3, 4].map(() => start(folder)))
  await racers[0]!.ask('create', 's')
  await racers[0]!.ask('say', 's', 'begin')
  await racers[0]!.ask('close', 's')
  const written = ['begin']
  const winners = new Set<number>()
  for (let round = 0; round < 12; round++) {
    const outcomes = await Promise.all(racers.map(racer => racer.ask('resume', 's')))
    const winner = outcomes.indexOf('mine')
    winners.add(winner)
    const won = racers[winner]!
    expect(outcomes.filter(outcome => outcome === 'mine')).toHaveLength(1)
    for (const [index, outcome] of outcomes.entries()) {
      // Whoever was a moment too late to see who it was is told no more than that there is one.
      if (index !== winner)
        expect(outcome).toEqual({ error: expect.stringMatching(/^SESSION_BUSY: .*another|by process/) })
    }
    // Also those who ask now are told by whom, can read, and see it in a list.
    const other = racers[(winner + 1) % 4]!
    expect(await other.ask('resume', 's')).toEqual(busyBy(won))
    const texts = [1, 2, 3].map(n => `round ${round}, ${n}`)
    await won.ask('say', 's', ...texts)
    written.push(...texts)
    expect(await other.ask('read', 's')).toBeGreaterThan(round)
    expect(await other.ask('holder', 's')).toMatch(new RegExp(`process ${won.process.pid} on `))
    await won.ask('close', 's')
  }
  expect(textsOf(logOf(folder, 's'))).toEqual(written)
  gapless(logOf(folder, 's'))
  expect(filesIn(folder).filter(path => !path.endsWith('.jsonl'))).toEqual([])
  expect(winners.size).toBeGreaterThan(0)
})

it('a second process that comes while the first still has unwritten events is refused, forks, and both go on', async () => {
  const folder = scratch()
  const [first, second] = await Promise.all([start(folder), start(folder)])
  await first.ask('create', 's')
  await first.ask('say', 's', 'one')
  await first.ask('flush', 's')
  await first.ask('say', 's', 'two', 'three')
  expect(await second.ask('resume', 's')).toEqual(busyBy(first))
  expect(await second.ask('fork', 's', 'child')).toBe(1)
  await second.ask('say', 'child', 'of the second')
  await first.ask('say', 's', 'four')
  expect(await first.ask('flush', 's')).toBeNull()
  expect(await second.ask('close', 'child')).toBeNull()
  expect(await second.ask('resume', 's')).toEqual(busyBy(first))
  expect(textsOf(logOf(folder, 's'))).toEqual(['one', 'two', 'three', 'four'])
  expect(textsOf(logOf(folder, 'child'))).toEqual(['one', 'of the second'])
  gapless(logOf(folder, 's'))
})

it.skipIf(process.platform === 'win32')(
  'a process that is stopped for longer than a lease is silent keeps it; a killed one is replaced by exactly one of three',
  async () => {
    const folder = scratch()
    const [holder, ...others] = await Promise.all([1, 2, 3, 4].map(() => start(folder)))
    await holder!.ask('create', 's')
    await holder!.ask('say', 's', 'one')
    await holder!.ask('flush', 's')
    holder!.process.kill('SIGSTOP')
    // As if it had been stopped for an hour.
    const lock = logOf(folder, 's').replace(/jsonl$/, 'lock')
    utimesSync(lock, Date.now() / 1_000 - 3_600, Date.now() / 1_000 - 3_600)
    for (const other of others) expect(await other.ask('resume', 's')).toEqual(busyBy(holder!))
    holder!.process.kill('SIGCONT')
    await holder!.ask('say', 's', 'two')
    expect(await holder!.ask('flush', 's')).toBeNull()

    await holder!.kill()
    const outcomes = await Promise.all(others.map(other => other.ask('resume', 's')))
    expect(outcomes.filter(outcome => outcome === 'mine')).toHaveLength(1)
    const winner = others[outcomes.indexOf('mine')]!
    await winner.ask('say', 's', 'three')
    expect(await winner.ask('flush', 's')).toBeNull()
    for (const other of others) if (other !== winner) expect(await other.ask('resume', 's')).toEqual(busyBy(winner))
    expect(textsOf(logOf(folder, 's'))).toEqual(['one', 'two', 'three'])
    gapless(logOf(folder, 's'))
  },
)
