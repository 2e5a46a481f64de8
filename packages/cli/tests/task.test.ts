import { PassThrough } from 'node:stream'
import { afterEach, expect, test, vi } from 'vitest'
import { readTask } from '../src/task.ts'
import { testHost } from './streams.ts'

afterEach(() => void vi.useRealTimers())

test('words are the task, and a terminal is not read', async () => {
  expect(await readTask(['fix', 'it'], testHost({ stdin: 'terminal' }).stdin, () => {})).toBe('fix it')
})

test('what is piped in is the task when there are no words', async () => {
  expect(await readTask([], testHost({ stdin: ' do this\n' }).stdin, () => {})).toBe('do this')
})

test('with both, the model is given both', async () => {
  const task = await readTask(['review this'], testHost({ stdin: '-a\n+b\n' }).stdin, () => {})
  expect(task).toBe('review this\n\n<stdin>\n-a\n+b\n</stdin>')
})

test('a character split between two chunks stays whole', async () => {
  const stdin = new PassThrough()
  const task = readTask([], stdin, () => {})
  stdin.write(Buffer.from([0xe2, 0x82]))
  stdin.end(Buffer.from([0xac]))
  expect(await task).toBe('€')
})

test('an open pipe that brings nothing is given up, with a warning', async () => {
  vi.useFakeTimers()
  const warnings: string[] = []
  const task = readTask(['go'], new PassThrough(), text => void warnings.push(text))
  await vi.advanceTimersByTimeAsync(1_000)
  expect(warnings).toEqual(['waiting for standard input; redirect it from /dev/null to go without'])
  await vi.advanceTimersByTimeAsync(9_000)
  expect(await task).toBe('go')
  expect(warnings.at(-1)).toMatch(/going on without it/)
})

test('a pipe that has begun is read to its end, however slow', async () => {
  vi.useFakeTimers()
  const stdin = new PassThrough()
  const task = readTask(['go'], stdin, () => {})
  stdin.write('first ')
  await vi.advanceTimersByTimeAsync(60_000)
  stdin.end('last')
  expect(await task).toContain('first last')
})

test('more than fits is refused', async () => {
  const stdin = testHost({ stdin: 'x'.repeat(9 * 1024 * 1024) }).stdin
  await expect(readTask([], stdin, () => {})).rejects.toMatchObject({ code: 'CLI_USAGE' })
})
