/** What the installation ships: its trees are sound, and its plugins provide what they declare. */

import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { checkTrees, expandPattern, type ShippedPlugin, shippedPlugins } from '@cambium/loader'
import { bootTree, tempWorkspace } from '@cambium/testkit'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'

const ROOT = fileURLToPath(new URL('..', import.meta.url))
const home = tempWorkspace()

beforeAll(() => void vi.stubEnv('CAMBIUM_HOME', home.path))
afterAll(() => {
  vi.unstubAllEnvs()
  home.dispose()
})

test('the default tree and every example pass `cordis check` without a word', async () => {
  const files = ['cordis.yml', ...expandPattern('examples/*/cordis.yml', ROOT)].map(file => ({
    file: `${ROOT}${file}`,
  }))
  const checks = await checkTrees(files)
  expect(checks.length).toBeGreaterThan(3)
  expect(
    checks.flatMap(({ label, mistakes, warnings }) => [...mistakes, ...warnings].map(one => [label, one.message])),
  ).toEqual([])
})

test.each([
  ['jsonl', 'session-search'],
  ['checkpoint', 'file-checkpoints'],
])('the default tree works without %s: what waits for it is listed, and nothing else', async (id, waits) => {
  const text = readFileSync(`${ROOT}cordis.yml`, 'utf8').replace(`- id: ${id} #`, `- id: ${id}\n  disabled: true #`)
  const tree = await bootTree({ file: `${ROOT}cordis.yml`, text })
  const other = tree.tree.rows().filter(({ state }) => state !== 'active' && state !== 'disabled')
  expect(other.map(({ row }) => row.id)).toEqual([waits])
  expect(tree.tree.rows().find(({ row }) => row.id === id)?.state).toBe('disabled')
  await tree.dispose()
})

/** What plugins need that cannot do without. */
const CONFIG: Readonly<Record<string, unknown>> = {
  '@cambium/cli/headless': { task: 'none', cwd: home.path, output: 'text' },
  '@cambium/llm/replay': { log: '/dev/null' },
}

/** A tree of the plugin, below it what it waits for, and what those wait for. */
function rowsFor(plugin: ShippedPlugin, all: readonly ShippedPlugin[], rows = new Map<string, unknown>()) {
  for (const service of plugin.inject) {
    const provider = all.find(({ provide }) => provide.includes(service))
    if (provider) rowsFor(provider, all, rows)
  }
  const { specifier } = plugin
  rows.set(specifier, { id: specifier, name: specifier, config: CONFIG[specifier] })
  return rows
}

test('each shipped plugin provides the services that it declares, and no other', async () => {
  const shipped = await shippedPlugins()
  const differences: unknown[] = []
  for (const plugin of shipped) {
    // Modules cannot be followed under this test runner; it declares nothing.
    if (plugin.specifier === '@cambium/loader/hmr') continue
    const tree = await bootTree({ data: [...rowsFor(plugin, shipped).values()], file: `${home.path}/cordis.yml` })
    const state = tree.tree.rows().find(({ row }) => row.id === plugin.specifier)!
    const found = { specifier: plugin.specifier, state: state.state, provides: [...state.provides].sort() }
    const wanted = { specifier: plugin.specifier, state: 'active', provides: [...plugin.provide].sort() }
    if (JSON.stringify(found) !== JSON.stringify(wanted)) differences.push(found)
    await tree.dispose()
  }
  expect(differences).toEqual([])
})
