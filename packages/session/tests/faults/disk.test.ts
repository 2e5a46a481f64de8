/** The disk fails at every call that the store makes: nothing acknowledged is lost, and what fails says what and where. */

import { execFile } from 'node:child_process'
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { bundledChild } from '@cambium/testkit'
import { expect, it, onTestFinished, vi } from 'vitest'
import { scratch } from '../boot.ts'

vi.setConfig({ testTimeout: 600_000 })

/** `DISK_SEED=… vitest run …` repeats a run. */
const SEED = Number(process.env['DISK_SEED'] ?? Date.now() % 1_000)

interface Line {
  readonly sites?: readonly string[]
  readonly site?: string
  readonly failure?: string
  readonly from?: string
  readonly problem?: string
  readonly runs?: number
  readonly leaked?: number
  readonly outcomes?: Readonly<Record<string, number>>
}

it('each call of a session’s life that the disk fails, once or from then on, is told or passed over, and loses nothing', async () => {
  const child = await bundledChild(new URL('./disk-child.ts', import.meta.url))
  onTestFinished(() => rmSync(child.folder, { recursive: true, force: true }))
  // So small that the log goes on in a new segment at each turn of the scenario.
  const options = { base: join(scratch(), 'sessions'), seed: SEED, config: { rotateBytes: 700 } }
  const run = promisify(execFile)(process.execPath, [child.file, JSON.stringify(options)], { maxBuffer: 64 << 20 })
  const { stdout, stderr } = await run.catch((error: { stdout: string; stderr: string }) => error)
  const lines = stdout
    .split('\n')
    .filter(Boolean)
    .map(line => JSON.parse(line) as Line)
  const sites = lines.flatMap(line => line.sites ?? [])
  const places = new Set(sites)
  const faults = new Map<string, string[]>()
  for (const { site = '', failure, from, problem } of lines) {
    if (problem !== undefined) faults.set(site, [...(faults.get(site) ?? []), `${failure} ${from}: ${problem}`])
  }
  const end = lines.at(-1)
  console.info(
    `DISK_SEED=${SEED}: ${end?.runs} runs, ${sites.length} calls at ${places.size} places, refused with ${JSON.stringify(end?.outcomes)}`,
  )
  expect([...faults].map(([site, found]) => `${site}: ${found.length}\n${found[0]}`).join('\n')).toBe('')
  // Also where a file that nobody closed would be named.
  expect(stderr).toBe('')
  expect(end?.leaked).toBeLessThan(3)
  expect(end?.runs).toBeGreaterThan(200)
  expect(places.size).toBeGreaterThan(35)
})
