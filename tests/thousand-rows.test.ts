/** A tree of a thousand rows: what it costs to mount and to drop, and what a change of one row touches. */

import { pathToFileURL } from 'node:url'
import { createRoot } from '@cambium/core'
import { type BootedTree, bootTree, type TempWorkspace, tempWorkspace } from '@cambium/testkit'
import { afterEach, beforeEach, expect, it, vi } from 'vitest'

const ROWS = 1_000
const GROUPS = 10

/** Each row holds what a plugin usually does: a listener, an effect, its config. */
const PLUGIN = `
export const name = 'row'
export function apply(ctx, { n, word }) {
  globalThis.tellMount('mounted ' + n + ' ' + word)
  ctx.on('row/ping', () => {})
  ctx.effect(() => () => globalThis.tellMount('dropped ' + n), 'row')
}
`

/** Ten groups of a hundred rows; `changed` says another word. */
function yaml(changed?: number): string {
  const lines: string[] = []
  for (let n = 0; n < ROWS; n++) {
    if (n % (ROWS / GROUPS) === 0) lines.push(`- id: g${n / (ROWS / GROUPS)}`, '  name: group', '  config:')
    lines.push(`    - { id: r${n}, name: ./row.mjs, config: { n: ${n}, word: ${n === changed ? 'new' : 'old'} } }`)
  }
  return `${lines.join('\n')}\n`
}

let folder: TempWorkspace
let told: string[]
let tree: BootedTree | undefined

beforeEach(() => {
  folder = tempWorkspace({ 'row.mjs': PLUGIN, 'cordis.yml': yaml() })
  told = []
  vi.stubGlobal('tellMount', (line: string) => void told.push(line))
})
afterEach(async () => {
  await tree?.dispose()
  tree = undefined
  folder.dispose()
  vi.unstubAllGlobals()
})

const boot = () => bootTree({ file: `${folder.path}/cordis.yml` })

/** Processor seconds of this process: what else the machine does counts for nothing. */
async function seconds(work: () => Promise<unknown>): Promise<number> {
  const before = process.cpuUsage()
  await work()
  const { user, system } = process.cpuUsage(before)
  return (user + system) / 1e6
}

/** What the same plugins cost without a tree: a loop over `ctx.plugin`. */
async function loop(): Promise<{ mount: number; drop: number }> {
  const plugin = await import(pathToFileURL(`${folder.path}/row.mjs`).href)
  const ctx = createRoot({ write() {} })
  const mount = await seconds(() =>
    Promise.all(Array.from({ length: ROWS }, (_, n) => ctx.plugin(plugin, { n, word: 'old' }))),
  )
  return { mount, drop: await seconds(() => ctx.fiber.dispose()) }
}

it('a thousand rows are read, mounted and dropped at a small multiple of what their plugins cost by themselves', async () => {
  const costs: { mount: number; drop: number }[] = []
  const loops: { mount: number; drop: number }[] = []
  for (let round = 0; round < 2; round++) {
    told.length = 0
    const mount = await seconds(async () => {
      tree = await boot()
    })
    expect(told).toHaveLength(ROWS)
    expect(tree!.tree.rows().every(({ state }) => state === 'active')).toBe(true)
    const drop = await seconds(() => tree!.dispose())
    expect(told).toHaveLength(2 * ROWS)
    expect(told.at(-1)).toBe('dropped 0')
    costs.push({ mount, drop })
    loops.push(await loop())
  }
  const least = (all: typeof costs, key: 'mount' | 'drop') => Math.min(...all.map(cost => cost[key]))
  // Quadratic work would be far above; `npm run bench -- --only reload` has the figures on a quiet machine.
  expect(least(costs, 'mount')).toBeLessThan(5 * least(loops, 'mount'))
  expect(least(costs, 'drop')).toBeLessThan(4 * least(loops, 'drop'))
  expect(least(costs, 'mount')).toBeLessThan(5)
  expect(least(costs, 'drop')).toBeLessThan(5)
}, 90_000)

it('a change of one row drops that row and mounts it, and no other', async () => {
  tree = await boot()
  told.length = 0
  folder.write('cordis.yml', yaml(555))
  const change = await tree.ctx.loader.reload()
  expect(change).toEqual({ added: [], removed: [], remounted: ['g5:r555'], moved: [] })
  expect(told).toEqual(['dropped 555', 'mounted 555 new'])
}, 60_000)
