/** Two commands go on with the last session of one folder at the same time. */

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { builtBin } from '@cambium/testkit'
import { afterEach, expect, test, vi } from 'vitest'
import { type Bench, openBench } from './run-command.ts'

vi.setConfig({ testTimeout: 120_000 })

let bench: Bench
afterEach(() => bench.close())

async function cambium(...argv: string[]) {
  const child = spawn(process.execPath, [await builtBin('cambium'), ...argv], {
    cwd: bench.folder.path,
    env: { PATH: process.env['PATH'], HOME: bench.home.path, ...bench.env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let [stdout, stderr] = ['', '']
  child.stdout.setEncoding('utf8').on('data', text => {
    stdout += text
  })
  child.stderr.setEncoding('utf8').on('data', text => {
    stderr += text
  })
  const finished = once(child, 'close').then(([code]) => ({ code, stdout, stderr }))
  return { pid: child.pid, finished }
}
const run = async (...argv: string[]) => cambium('run', '--model', 'openai/test-model', ...argv)

test('run --continue twice in one folder: one goes on, the other is told which process writes and how to fork', async () => {
  let release: () => void = () => {}
  const held = new Promise<void>(resolve => {
    release = resolve
  })
  bench = await openBench({
    otherwise: async ({ text }) => {
      // Whichever of the two is first waits for the other one to have ended.
      if (text.includes('ONE') || text.includes('TWO')) await held
      return 'fine'
    },
  })
  await (await run('BEGIN')).finished
  const both = await Promise.all([run('--continue', 'ONE'), run('--continue', 'TWO')])
  await bench.server.request(1)
  const first = await Promise.race(both.map(async one => ({ one, ...(await one.finished) })))
  const [writer] = both.filter(one => one !== first.one)
  expect(first).toMatchObject({ code: 1, stdout: '' })
  expect(first.stderr).toMatch(/SESSION_BUSY|is being written by/)
  expect(first.stderr).toContain(`process ${writer!.pid} on `)
  expect(first.stderr).toContain('fork')

  // Meanwhile it can be looked at, and gone on with in a copy.
  const list = await (await cambium('sessions', 'list')).finished
  expect(list).toMatchObject({ code: 0, stdout: expect.stringContaining('BEGIN') })
  const copy = await (await run('--continue', '--fork', 'THREE')).finished
  expect(copy).toMatchObject({ code: 0, stdout: 'fine\n' })

  release()
  expect(await writer!.finished).toMatchObject({ code: 0, stdout: 'fine\n' })
  const last = bench.server.requests.filter(({ text }) => text.includes('ONE') || text.includes('TWO'))
  expect(last).toHaveLength(1)
  expect(bench.server.requests.flatMap(({ problem }) => problem ?? [])).toEqual([])
})
