import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { type TempWorkspace, tempWorkspace } from '@cambium/testkit'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Left } from './quiescence/left.ts'

const ROOT = fileURLToPath(new URL('..', import.meta.url))

let folder: TempWorkspace
let report: Record<string, Left>
let code: number
let stderr: string

beforeAll(async () => {
  folder = tempWorkspace()
  const [home, work, tmp] = ['home', 'work', 'tmp'].map(name => join(folder.path, name))
  for (const path of [home!, work!, tmp!]) mkdirSync(path)
  const child = spawn(process.execPath, ['--expose-gc', '--import', 'tsx', 'tests/quiescence/child.ts'], {
    cwd: ROOT,
    // With the row that is for development, too.
    env: { PATH: process.env['PATH'], HOME: folder.path, CAMBIUM_HOME: home, TMPDIR: tmp, CAMBIUM_INVARIANTS: 'throw' },
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: 60_000,
  })
  const [out, err, [status]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')])
  code = status as number
  stderr = err
  report = JSON.parse(out || '{}') as typeof report
}, 70_000)
afterAll(() => folder.dispose())

it('a process ends by itself once the default tree in it was disposed', () => {
  expect(stderr).toBe('')
  expect(code).toBe(0)
})

describe.skipIf(process.platform !== 'linux')('of the default tree nothing is left when it is disposed', () => {
  it.each([
    ['after a task with every tool, a retry, and a program in the background', 'completed'],
    ['while a program runs', 'aborted'],
    ['while an answer streams', 'aborted'],
    ['while it waits to try again', 'aborted'],
    ['before anything was asked', undefined],
  ])('%s', (ending, kind) => {
    const left = report[ending]!
    expect((left.reason as { kind: string } | undefined)?.kind).toBe(kind)
    const { effects, handles, programs, files, temporary, listeners, resources } = left
    expect({ effects, handles, programs, files, temporary }).toEqual({
      effects: [],
      handles: [],
      programs: [],
      files: [],
      temporary: [],
    })
    expect(listeners.after).toEqual(listeners.before)
    // The model server of the test was there before.
    expect(resources.after).toEqual(resources.before.filter(name => name !== 'TCPServerWrap'))
    expect(left.logs).toBe('')
    expect(left.disposeMs).toBeLessThan(5_000)
  })
})

it('each row of the default tree provides what it says, and nothing else', () => {
  const { states } = report['before anything was asked']!
  expect(states.filter(({ state }) => state !== 'active')).toEqual([])
  for (const { id, declares, provides } of states)
    expect([id, [...provides].sort()]).toEqual([id, [...declares].sort()])
})
