/** A disk that is really full, and a folder that is really closed: the turn stops before the tool, and goes on later. */

import { execFile, spawnSync } from 'node:child_process'
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { bundledChild, type ModelServer, startModelServer, type TempWorkspace, tempWorkspace } from '@cambium/testkit'
import { afterAll, afterEach, beforeAll, beforeEach, expect, it, vi } from 'vitest'

vi.setConfig({ testTimeout: 120_000, hookTimeout: 60_000 })

/** A file system of 512 KiB that only the child sees. */
const MOUNT = 'mount -t tmpfs -o size=512k none "$1" && shift && exec "$@"'
const mounts = spawnSync('unshare', ['-Urm', 'sh', '-c', MOUNT, 'sh', '/tmp', 'true']).status === 0
const isRoot = process.getuid?.() === 0

let program: Awaited<ReturnType<typeof bundledChild>>
let server: ModelServer
let home: TempWorkspace
beforeAll(async () => {
  program = await bundledChild(new URL('./unwritable.ts', import.meta.url))
})
afterAll(() => program && rmSync(program.folder, { recursive: true, force: true }))
beforeEach(() => {
  home = tempWorkspace()
})
afterEach(async () => {
  await server.close()
  home.dispose()
})

async function run(how: 'full' | 'closed', when: string, folder: string): Promise<Record<string, unknown>> {
  const options = {
    how,
    when,
    folder,
    ledger: join(how === 'full' ? home.path : folder, '..', `${how}.ledger`),
    url: server.url,
  }
  const node = [process.execPath, program.file, JSON.stringify(options)]
  const [file = '', ...args] = how === 'full' ? ['unshare', '-Urm', 'sh', '-c', MOUNT, 'sh', folder, ...node] : node
  try {
    const { stdout, stderr } = await promisify(execFile)(file, args)
    expect(stderr).toBe('')
    return JSON.parse(stdout) as Record<string, unknown>
  } finally {
    rmSync(options.ledger, { force: true })
  }
}

const pays = { toolCalls: [{ name: 'pay' }] }

it.skipIf(!mounts)(
  'a disk that is full after the answer: the tool is not run, the reason is told, nothing is lost, and it goes on',
  async () => {
    // Longer than what is left of the log's last page.
    server = await startModelServer({ replies: [{ ...pays, text: 'word '.repeat(2_000) }, pays, 'Paid.'] })
    const outcome = await run('full', 'assistant/message', home.path)
    expect(outcome).toEqual({
      hindered: {
        reason: {
          kind: 'error',
          error: { code: 'STORE_FULL', message: expect.stringContaining('the disk is full'), fix: expect.any(String) },
        },
        effects: 0,
        result: {
          code: 'SESSION_NOT_STORED',
          message: expect.stringMatching(/was not run because .*the disk is full/),
        },
      },
      free: { reason: { kind: 'completed' }, effects: 1 },
      said: ['first', 'second'],
      same: true,
      notices: [],
    })
    server.expectDone()
  },
)

it.skipIf(!mounts)(
  'a disk that is full before the request: nobody is asked, and the message is there when there is space',
  async () => {
    server = await startModelServer({ replies: [pays, 'Paid.'] })
    expect(await run('full', 'user/message', home.path)).toMatchObject({
      hindered: { reason: { kind: 'error', error: { code: 'STORE_FULL' } }, effects: 0 },
      free: { reason: { kind: 'completed' }, effects: 1 },
      said: ['first', 'second'],
      same: true,
    })
    server.expectDone()
  },
)

it.skipIf(!isRoot)(
  'a folder that may not be written to: nobody is asked, and all is stored as soon as it may',
  async () => {
    server = await startModelServer({ replies: [pays, 'Paid.'] })
    const folder = join(home.path, 'theirs')
    // The way there is open to everybody.
    spawnSync('chmod', ['755', home.path, program.folder])
    expect(await run('closed', 'user/message', folder)).toMatchObject({
      hindered: {
        reason: {
          kind: 'error',
          error: { code: 'STORE_READ_ONLY', message: expect.stringContaining('permission denied') },
        },
        effects: 0,
      },
      free: { reason: { kind: 'completed' }, effects: 1 },
      said: ['first', 'second'],
      same: true,
    })
    server.expectDone()
  },
)
