import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Context } from '@cambium/core'
import { bootTree, loadTree } from '@cambium/loader'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'

let folder = ''
let logged: string[] = []
let told: () => void
/** Resolves at the first line of the log. */
let first: Promise<void>
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'loader-patience-'))
  logged = []
  first = new Promise(resolve => {
    told = resolve
  })
})
afterEach(() => rmSync(folder, { recursive: true }))

function boot(text: string, modules: Record<string, unknown>) {
  const write = (record: { text: string }) => {
    logged.push(record.text.replaceAll(`${folder}/`, ''))
    told()
  }
  return bootTree({ text, file: join(folder, 'cordis.yml') }, { modules, noticeMs: 20, write })
}

test('a row that is long in starting is named once, so that a start does not hang in silence', async () => {
  let go = () => {}
  const slow = { apply: () => new Promise<void>(resolve => (go = resolve)) }
  const booting = boot('[{ id: quick, name: quick }, { id: slow, name: slow }]', { slow, quick: { apply: () => {} } })
  await first
  go()
  const tree = await booting
  await tree.dispose()
  expect(logged).toEqual(['still starting: slow (cordis.yml:1:30)'])
})

test('so is a row whose module is long in loading', async () => {
  let letLoad = () => {}
  const began = new Promise<void>(resolve => {
    const load = (go: () => void) => {
      letLoad = go
      resolve()
    }
    vi.stubGlobal('slowLoad', load)
  })
  const waiting = 'await new Promise(go => globalThis.slowLoad(go))\nexport const apply = () => {}\n'
  writeFileSync(join(folder, 'slow.js'), waiting)
  writeFileSync(join(folder, 'package.json'), '{ "type": "module" }')
  const booting = boot('[{ id: quick, name: quick }, { id: slow, name: ./slow.js }]', { quick: { apply: () => {} } })
  await Promise.all([first, began])
  letLoad()
  const tree = await booting
  await tree.dispose()
  vi.unstubAllGlobals()
  expect(logged).toEqual(['still starting: slow (cordis.yml:1:30)'])
})

test('of many rows that may fail the first are told, and how many are left', async () => {
  const rows = Array.from({ length: 100 }, (_, n) => `- { id: r${n}, name: ./lost-${n}.js, required: false }`)
  const tree = await boot(rows.join('\n'), {})
  await tree.dispose()
  expect(logged).toHaveLength(21)
  expect(logged.at(-1)).toBe('80 more rows do not run')
})

test('a tree that is to end does not wait for what does not finish starting', async () => {
  const ends: string[] = []
  const early = { apply: (ctx: Context) => ctx.effect(() => () => void ends.push('early')) }
  const hangs = { apply: () => new Promise<void>(() => {}) }
  const text = '[{ id: early, name: early }, { id: hangs, name: hangs }]'
  const tree = loadTree({ text }, { modules: { early, hangs }, noticeMs: 20, write: () => told() })
  const mounting = tree.mount().then(
    () => 'mounted',
    error => (error as { code: string }).code,
  )
  await first
  vi.useFakeTimers()
  const ended = tree.dispose()
  // As long as a row that is dropped may go on starting.
  await vi.advanceTimersByTimeAsync(6_000)
  await ended
  vi.useRealTimers()
  expect(await mounting).toBe('TREE_DISPOSED')
  expect(ends).toEqual(['early'])
})

test('a change whose rows are long in starting gives way to a newer one, and the former row runs again', async () => {
  const runs: string[] = []
  const plugin = (edition: string, start?: () => Promise<void>) => ({
    apply() {
      runs.push(edition)
      return start?.()
    },
  })
  const modules: Record<string, unknown> = { a: plugin('good') }
  const tree = await boot('[{ id: a, name: a }]', modules)
  const remount = new Set(['a'])

  modules.a = plugin('hanging', () => new Promise(() => {}))
  const newer = new AbortController()
  const hanging = tree.ctx.loader.reload({ remount, giveWay: newer.signal })
  const refused = expect(hanging).rejects.toThrow('a did not finish loading, and a newer change waits')
  await first
  modules.a = plugin('mended')
  newer.abort()
  const mended = tree.ctx.loader.reload({ remount })
  await refused
  await mended
  expect(runs).toEqual(['good', 'hanging', 'good', 'mended'])
  await tree.dispose()
})

test('one that starts in time does not', async () => {
  const modules: Record<string, unknown> = { a: { apply() {} } }
  const tree = await boot('[{ id: a, name: a }]', modules)
  const change = await tree.ctx.loader.reload({ remount: new Set(['a']), giveWay: AbortSignal.abort() })
  expect(change.remounted).toEqual(['a'])
  await tree.dispose()
})
