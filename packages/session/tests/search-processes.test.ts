import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { bundledChild } from '@cambium/testkit'
import { afterAll, beforeAll, expect, it, onTestFinished, vi } from 'vitest'
import { bootStore, scratch, user } from './boot.ts'

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 })

let child: { file: string; folder: string }
beforeAll(async () => {
  child = await bundledChild(new URL('./children/searcher.ts', import.meta.url))
})
afterAll(() => rmSync(child.folder, { recursive: true, force: true }))

interface Answer {
  ids: string[]
  notices: string[]
}

/** Resolves with the answer, or with undefined when the process is killed at that many sessions. */
async function search(folder: string, killAt = Number.POSITIVE_INFINITY): Promise<Answer | undefined> {
  const process_ = spawn(process.execPath, [child.file, folder, 'apple'], { stdio: ['ignore', 'pipe', 'inherit'] })
  onTestFinished(() => void process_.kill('SIGKILL'))
  let text = ''
  process_.stdout.setEncoding('utf8').on('data', (part: string) => {
    text += part
    const told = text.split('\n').filter(line => line.startsWith('{"done"')).length
    if (told > killAt) process_.kill('SIGKILL')
  })
  await once(process_, 'close')
  const last = text.trim().split('\n').at(-1) ?? ''
  return last.startsWith('{"ids"') ? JSON.parse(last) : undefined
}

async function fill(folder: string): Promise<string[]> {
  const { ctx, stop } = await bootStore(join(folder, 'sessions'))
  const ids = Array.from({ length: 120 }, (_, number) => `s${number}`)
  for (const id of ids) {
    const session = ctx.sessions.create(id)
    session.append('user/message', { message: user(`apple ${id} ${'and so on '.repeat(500)}`) })
  }
  await stop()
  return ids.sort()
}

it('of processes that search at once one makes the index, and all find everything', async () => {
  const folder = scratch()
  const ids = await fill(folder)
  const answers = await Promise.all([search(folder), search(folder), search(folder)])
  for (const answer of answers) expect(answer).toEqual({ ids, notices: [] })
  expect(readdirSync(join(folder, 'search')).filter(name => name.endsWith('.seg'))).toHaveLength(1)
})

it('a process that is killed while it makes the index leaves one that can be used, and nothing else', async () => {
  const folder = scratch()
  const ids = await fill(folder)
  for (const sessions of [0, 60, 119]) expect(await search(folder, sessions)).toBeUndefined()
  expect(await search(folder)).toEqual({ ids, notices: [] })
  expect(readdirSync(join(folder, 'search')).map(name => name.replace(/^\d+-[0-9a-f]+/, ''))).toEqual([
    '.seg',
    'index.json',
  ])
})
