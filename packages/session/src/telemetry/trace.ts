/** The lines of a trace, and the way back: from them a session is made that is the recorded one. */

import { createReadStream } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { HarnessError } from '@cambium/core'
import { diskError } from '@cambium/store'
import type { SessionEvent, SessionHeader, SessionId } from '../event.ts'
import type { StoredSession } from '../service.ts'
import type { TelemetryRecord } from './contract.ts'

/** One line: `{ time, session: { id, cwd, parent? }, event }`. */
export function lineOf({ session: { id, cwd, parent }, event }: TelemetryRecord): string {
  return `${JSON.stringify({ time: event.time, session: { id, cwd, parent }, event })}\n`
}

interface TraceLine {
  readonly session: Pick<SessionHeader, 'id' | 'cwd' | 'parent'>
  readonly event: SessionEvent
}

/**
 * One session of a trace, from the file and the older ones beside it (`trace.jsonl.1`, …): its events are a seed for
 * `ctx.sessions.create(id, { seed })`. What a fork took over is read from its parent's events, when they are in the trace.
 * What is not there is said in `notices`. Holds that session and its ancestors in memory, and nothing else.
 *
 * @throws `SESSION_NOT_FOUND`, as `diskError`
 */
export async function readTrace(path: string, id: SessionId): Promise<StoredSession> {
  const files = await filesOf(path)
  const notices: string[] = []
  const read = await collect(files, id)
  if (!read) {
    throw new HarnessError('SESSION_NOT_FOUND', `there is no session ${id} in the trace`, {
      where: path,
      fix: 'look for its id in the lines, and among older files of the trace',
    })
  }
  const { session, events, unreadable } = read
  if (unreadable) notices.push(`${unreadable} lines of the trace cannot be read`)
  const bySeq = new Map(events.map(event => [event.seq, event]))
  for (let { parent } = session; parent; ) {
    const above = await collect(files, parent.id)
    for (const event of above?.events ?? []) {
      if (event.seq < parent.events && !bySeq.has(event.seq)) bySeq.set(event.seq, event)
    }
    parent = above?.session.parent
  }
  const sorted = [...bySeq.values()].sort((a, b) => a.seq - b.seq)
  const missing = sorted.at(-1)!.seq + 1 - sorted.length
  if (missing) notices.push(`${missing} events of the session are not in the trace`)
  const { cwd, parent } = session
  const header: SessionHeader = { version: 1, id, cwd, createdAt: sorted[0]!.time, ...(parent ? { parent } : {}) }
  return { header, events: sorted, notices }
}

/** Oldest first. */
async function filesOf(path: string): Promise<string[]> {
  const name = basename(path)
  const number = (file: string) => Number(file.slice(name.length + 1))
  try {
    const old = (await readdir(dirname(path))).filter(
      file => file.startsWith(`${name}.`) && /^\d+$/.test(file.slice(name.length + 1)),
    )
    return [...old.sort((a, b) => number(b) - number(a)).map(file => join(dirname(path), file)), path]
  } catch (error) {
    throw diskError(error, 'cannot read a trace', path)
  }
}

async function collect(files: readonly string[], id: SessionId) {
  let session: TraceLine['session'] | undefined
  const events = new Map<number, SessionEvent>()
  // Most lines are other sessions', and need not be parsed.
  const name = JSON.stringify(id)
  let unreadable = 0
  for (const file of files) {
    for await (const text of linesOf(file)) {
      if (!text.includes(name)) continue
      const line = parse(text)
      if (!line) unreadable++
      else if (line.session.id === id && typeof line.event.seq === 'number') {
        session ??= line.session
        if (!events.has(line.event.seq)) events.set(line.event.seq, line.event)
      }
    }
  }
  return session && { session, events: [...events.values()], unreadable }
}

function parse(text: string): TraceLine | undefined {
  try {
    const line = JSON.parse(text) as TraceLine | null
    const { session, event } = line ?? {}
    return typeof session?.id === 'string' && typeof event?.type === 'string' ? { session, event } : undefined
  } catch (error) {
    if (error instanceof SyntaxError) return undefined
    throw error
  }
}

/** Framed on 0x0A only; blank ones left out. */
async function* linesOf(file: string): AsyncGenerator<string> {
  let parts: Buffer[] = []
  try {
    for await (const chunk of createReadStream(file) as AsyncIterable<Buffer>) {
      let from = 0
      for (let at = chunk.indexOf(10); at >= 0; at = chunk.indexOf(10, from)) {
        const line = Buffer.concat([...parts, chunk.subarray(from, at)]).toString('utf8')
        if (line.trim()) yield line
        parts = []
        from = at + 1
      }
      parts.push(chunk.subarray(from))
    }
    const rest = Buffer.concat(parts).toString('utf8')
    if (rest.trim()) yield rest
  } catch (error) {
    // Moved on while it was read; the file after it has what follows.
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw diskError(error, 'cannot read a trace', file)
  }
}
