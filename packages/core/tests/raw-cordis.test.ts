/** Holds what plain cordis does in each scenario: when one fails, upstream has changed and our decision may go. */

import { Context } from 'cordis'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { mount, scenarios } from './scenarios.ts'

afterEach(() => {
  vi.useRealTimers()
})

describe('plain cordis differs:', () => {
  it.each(scenarios)('$name', async ({ run, decided, raw }) => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    const root = new Context()
    const logs: string[] = []
    root.logger.exporter({
      export: ({ type, name, args }) => void logs.push(`${type} ${name}: ${args.map(String).join(' ')}`),
    })
    const outcome = await run({ root, logs, pass: ms => vi.advanceTimersByTimeAsync(ms) })
    expect(outcome).toEqual(raw)
    expect(outcome).not.toEqual(decided)
  })

  it('a plugin that waits for a service counts as started, and nobody hears of it', async () => {
    const root = new Context()
    const logs: unknown[] = []
    root.logger.exporter({ export: message => void logs.push(message) })
    const fiber = await mount(root, 'waiting', () => {}, ['nobody'])
    expect(fiber.state).toBe(0)
    expect(logs).toEqual([])
  })

  it('a plugin that fails is not heard of unless a logger is mounted', async () => {
    const written = [vi.spyOn(process.stderr, 'write'), vi.spyOn(process.stdout, 'write'), vi.spyOn(console, 'error')]
    const failing = mount(new Context(), 'failing', () => {
      throw new Error('boom')
    })
    await expect(failing).rejects.toThrow('boom')
    for (const spy of written) expect(spy).not.toHaveBeenCalled()
    vi.restoreAllMocks()
  })
})
