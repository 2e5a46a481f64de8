/** What is known of each stored session from the head of its file, for lists; never the whole log. */

import { type FileHandle, open, readdir, stat } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { HarnessError, isHarnessError } from '@cambium/core'
import { diskError, liveHolder } from '@cambium/store'
import type { SessionSummary } from '../service.ts'
import { parseEvent, parseHeader } from './format.ts'
import { lockOf, SUFFIX } from './places.ts'

/** Enough for the header and a first prompt; the second for a longer one. */
const HEAD_BYTES = [16 << 10, 256 << 10]
const TITLE_CHARS = 80
const AT_ONCE = 16

interface Found {
  readonly path: string
  readonly time: number
  readonly bytes: number
  readonly isFile: boolean
  readonly locked: boolean
}

/** The sessions of these folders, last written first. A log that cannot be read is listed as damaged. */
export async function listLogs(
  folders: readonly string[],
  options: { limit?: number | undefined; staleMs: number },
): Promise<SessionSummary[]> {
  const found = (await Promise.all(folders.map(findLogs))).flat().sort((a, b) => b.time - a.time)
  return inParallel(found.slice(0, options.limit), log => summarise(log, options.staleMs))
}

async function findLogs(folder: string): Promise<Found[]> {
  const names = await readdir(folder).catch(() => [])
  const all = new Set(names)
  const logs = names.filter(name => name.endsWith(SUFFIX))
  const found = await inParallel(logs, async name => {
    const path = join(folder, name)
    try {
      const stats = await stat(path)
      const { mtimeMs: time, size: bytes } = stats
      return { path, time, bytes, isFile: stats.isFile(), locked: all.has(basename(lockOf(path))) }
    } catch {
      // Deleted since the folder was read, or a link to nowhere: the second is worth showing.
      return { path, time: 0, bytes: 0, isFile: false, locked: false }
    }
  })
  return found
}

async function summarise({ path, time, bytes, isFile, locked }: Found, staleMs: number): Promise<SessionSummary> {
  const id = basename(path, SUFFIX)
  try {
    if (!isFile) throw new HarnessError('SESSION_DAMAGED', 'it is not a file')
    const { header, title } = await readHead(path)
    const holder = locked ? liveHolder(lockOf(path), { staleMs }) : undefined
    return {
      id,
      cwd: header.cwd,
      createdAt: header.createdAt,
      updatedAt: time,
      path,
      bytes,
      ...(header.parent ? { parent: header.parent } : {}),
      ...(title ? { title } : {}),
      ...(holder
        ? { holder: holder === 'unknown' ? 'another process' : `process ${holder.pid} on ${holder.host}` }
        : {}),
    }
  } catch (error) {
    const damaged = isHarnessError(error) ? error.problem : diskError(error, 'cannot be opened', path).problem
    return { id, cwd: '', createdAt: time, updatedAt: time, path, bytes, damaged }
  }
}

async function readHead(path: string) {
  const file = await open(path, 'r')
  try {
    for (const [index, bytes] of HEAD_BYTES.entries()) {
      const { text, whole } = await head(file, bytes)
      const [first, ...rest] = text.split('\n')
      if (!rest.length && !whole && index < HEAD_BYTES.length - 1) continue
      const header = parseHeader(first?.trim(), path)
      const title = titleOf(rest, index === HEAD_BYTES.length - 1)
      if (title || whole || index === HEAD_BYTES.length - 1) return { header, title }
    }
    throw new HarnessError('SESSION_DAMAGED', 'it is empty')
  } finally {
    await file.close()
  }
}

async function head(file: FileHandle, bytes: number): Promise<{ text: string; whole: boolean }> {
  const { buffer, bytesRead } = await file.read(Buffer.allocUnsafe(bytes), 0, bytes, 0)
  return { text: buffer.toString('utf8', 0, bytesRead), whole: bytesRead < bytes }
}

/** The first words of the first prompt. A prompt is logged when it is received, before the much longer request header. */
function titleOf(lines: readonly string[], last: boolean): string | undefined {
  for (const line of lines) {
    if (!line.startsWith('{') || !/"type":"(inbox\/changed|user\/message)"/.test(line.slice(0, 200))) continue
    const event = parseEvent(line)
    // The line of a very long prompt ends beyond what was read; its beginning is all that is needed.
    const text = event ? promptOf(event.data) : last ? beginningOf(line) : undefined
    if (text?.trim()) return shorten(text)
  }
  return undefined
}

function promptOf(data: unknown): string | undefined {
  const { message, inserted } = data as {
    message?: Prompt
    inserted?: readonly { message?: Prompt }[]
  }
  const candidates: (Prompt | undefined)[] = Array.isArray(inserted) ? inserted.map(entry => entry?.message) : []
  for (const candidate of [message, ...candidates]) {
    if (candidate?.source?.kind !== 'user' || !Array.isArray(candidate.content)) continue
    const text = candidate.content.find(block => block?.type === 'text' && typeof block.text === 'string')?.text
    if (text) return text
  }
  return undefined
}

interface Prompt {
  readonly source?: { readonly kind?: string }
  readonly content?: readonly { readonly type?: string; readonly text?: string }[]
}

function beginningOf(line: string): string | undefined {
  const text = /"text":("(?:[^"\\]|\\.){1,400})/.exec(line)?.[1]
  try {
    return text && (JSON.parse(`${text}"`) as string)
  } catch {
    return undefined
  }
}

function shorten(text: string): string {
  // Control characters would reach the terminal of whoever lists.
  const words = text
    .slice(0, 1_000)
    .replace(/[\p{Cc}\p{Cf}\p{Cs}]+/gu, ' ')
    .replace(/\s+/g, ' ')
    .trim()
  const characters = [...words]
  return characters.length > TITLE_CHARS
    ? `${characters
        .slice(0, TITLE_CHARS - 1)
        .join('')
        .trimEnd()}…`
    : words
}

async function inParallel<T, R>(items: readonly T[], run: (item: T) => Promise<R>): Promise<R[]> {
  const results: R[] = []
  let next = 0
  const worker = async () => {
    for (let at = next++; at < items.length; at = next++) results[at] = await run(items[at]!)
  }
  await Promise.all(Array.from({ length: Math.min(AT_ONCE, items.length) }, worker))
  return results
}
