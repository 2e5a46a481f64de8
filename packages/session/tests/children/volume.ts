/**
 * What opening or listing a store costs in a process of its own: `volume.mjs open|read|list|append|parse|heads <folder> [id]`, an
 * answer in JSON. `parse` and `heads` are what nobody can do without, to compare with on any machine.
 */

import { closeSync, openSync, readdirSync, readFileSync, readSync } from 'node:fs'
import { join } from 'node:path'
import { createRoot } from '@cambium/core'
import * as session from '@cambium/session'
import * as jsonl from '@cambium/session/jsonl'

const [what = '', folder = '', id = ''] = process.argv.slice(2)
const root = createRoot({ level: 'silent' })
await root.plugin(session)
await root.plugin(jsonl, jsonl.Config({ folder } as jsonl.Config))
const MIB = 1 << 20
const before = Math.round(process.memoryUsage().rss / MIB)
const start = performance.now()
const cpu = process.cpuUsage()

const answers: Record<string, () => Promise<object>> = {
  parse,
  heads,
  async open() {
    const log = await root.sessions.resume(id)
    const notices = log.last('session/resumed')?.data['notices'] ?? []
    return { events: log.seq, messages: log.deriveMessages().length, notices }
  },
  async read() {
    const { events, notices } = await root.sessionPersistence.read(id)
    return { events: events.length, notices }
  },
  /** The median of an append that is flushed. */
  async append() {
    const log = root.sessions.create()
    const took: number[] = []
    for (let i = 0; i < 5_000; i++) {
      const begin = performance.now()
      log.append('session/resumed', { i })
      await root.sessions.flush(log)
      took.push(performance.now() - begin)
    }
    took.sort((a, b) => a - b)
    return { medianUs: Math.round(took[2_500]! * 1_000), p99Us: Math.round(took[4_950]! * 1_000) }
  },
  async list() {
    const list = await root.sessionPersistence.list()
    const { title, updatedAt } = list.find(summary => summary.id === id) ?? {}
    return { sessions: list.length, titled: list.filter(summary => summary.title).length, title, updatedAt }
  },
}
/** The least that opening a log takes: its lines parsed and kept. */
async function parse() {
  const kept: unknown[] = []
  for (const path of files(folder)) {
    const bytes = readFileSync(path)
    let start = 0
    for (let end = bytes.indexOf(10); end >= 0; end = bytes.indexOf(10, start)) {
      if (end - start < 1 << 20) kept.push(JSON.parse(bytes.toString('utf8', start, end)))
      start = end + 1
    }
  }
  return { lines: kept.length }
}

/** The least that a list takes: the first lines of each file read and parsed. */
async function heads() {
  const kept: unknown[] = []
  const buffer = Buffer.alloc(4_096)
  for (const path of files(folder)) {
    const fd = openSync(path, 'r')
    const text = buffer.toString('utf8', 0, readSync(fd, buffer, 0, 4_096, 0))
    kept.push(text.split('\n', 2).map(line => JSON.parse(line)))
    closeSync(fd)
  }
  return { files: kept.length }
}

const files = (of: string) =>
  readdirSync(of, { recursive: true, encoding: 'utf8' })
    .filter(name => name.endsWith('.jsonl'))
    .map(name => join(of, name))

const answer = await answers[what]?.()
const ms = Math.round(performance.now() - start)
const { user, system } = process.cpuUsage(cpu)
const peakMiB = Math.round(process.resourceUsage().maxRSS / 1_024)
const cpuMs = Math.round((user + system) / 1_000)
process.stdout.write(`${JSON.stringify({ ms, cpuMs, peakMiB, startMiB: before, ...answer })}\n`)
await root.fiber.dispose()
