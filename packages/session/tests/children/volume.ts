/** What opening or listing a store costs in a process of its own: `volume.mjs open|read|list <folder> [id]`, an answer in JSON. */

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
  async open() {
    const log = await root.sessions.resume(id)
    const notices = log.last('session/resumed')?.data['notices'] ?? []
    return { events: log.seq, messages: log.deriveMessages().length, notices }
  },
  async read() {
    const { events, notices } = await root.sessionPersistence.read(id)
    return { events: events.length, notices }
  },
  async list() {
    const list = await root.sessionPersistence.list()
    const { title, updatedAt } = list.find(summary => summary.id === id) ?? {}
    return { sessions: list.length, titled: list.filter(summary => summary.title).length, title, updatedAt }
  },
}
const answer = await answers[what]?.()
const ms = Math.round(performance.now() - start)
const { user, system } = process.cpuUsage(cpu)
const peakMiB = Math.round(process.resourceUsage().maxRSS / 1_024)
const cpuMs = Math.round((user + system) / 1_000)
process.stdout.write(`${JSON.stringify({ ms, cpuMs, peakMiB, startMiB: before, ...answer })}\n`)
await root.fiber.dispose()
