/** From candidates to hits: the texts themselves are looked at, newest first, until there are enough. */

import { type Pace, redact } from '@cambium/core'
import type { SessionSummary } from '../service.ts'
import { fold } from './characters.ts'
import type { SessionHit } from './contract.ts'
import type { SessionText } from './documents.ts'
import type { Covered, IndexState } from './index-folder.ts'
import { findWords, type QueryWord } from './query.ts'
import type { Segment, SegmentReader } from './segment.ts'
import { snippetOf } from './snippet.ts'

export interface FindOptions {
  readonly limit: number
  readonly perSession: number
  readonly pace: Pace
}

/** `sessions` in the order in which they are told. @throws IndexDamage; ENOENT for a segment that was replaced since */
export async function findHits(
  state: IndexState,
  words: readonly QueryWord[],
  sessions: readonly SessionSummary[],
  { limit, perSession, pace }: FindOptions,
): Promise<SessionHit[]> {
  const opened = new Map<Segment, { reader: SegmentReader; candidates: Uint8Array }>()
  const open = async (segment: Segment) => {
    const known = opened.get(segment)
    if (known) return known
    const reader = await segment.reader()
    opened.set(segment, { reader, candidates: new Uint8Array() })
    const found = { reader, candidates: await reader.candidates(words) }
    opened.set(segment, found)
    return found
  }
  const hits: SessionHit[] = []
  try {
    for (const summary of sessions) {
      const parts = state.sessions.get(summary.id) ?? []
      const titleSeq = parts.findLast(({ coverage }) => coverage.titleSeq !== undefined)?.coverage.titleSeq
      const most = Math.min(perSession, limit - hits.length)
      const found: SessionHit[] = []
      for await (const text of newestFirst(parts, open, pace)) {
        // A title that was given up names nothing any more.
        if (text.role === 'title' && text.seq !== titleSeq) continue
        const hit = hitOf(summary, text, words)
        if (hit && found.push(hit) >= most) break
      }
      hits.push(...found)
      if (hits.length >= limit) break
    }
    return hits
  } finally {
    for (const { reader } of opened.values()) await reader.close()
  }
}

async function* newestFirst(
  parts: readonly Covered[],
  open: (segment: Segment) => Promise<{ reader: SegmentReader; candidates: Uint8Array }>,
  pace: Pace,
): AsyncGenerator<SessionText> {
  for (const { segment, coverage } of parts.toReversed()) {
    const { blocks } = coverage
    if (!blocks.length) continue
    const { reader, candidates } = await open(segment)
    const start = segment.starts.get(coverage)!
    for (let at = blocks.length - 1; at >= 0; at--) {
      if (!candidates[start + at]) continue
      await pace.rest()
      yield* (await reader.texts(blocks[at]!)).reverse()
    }
  }
}

function hitOf(
  { id, title }: SessionSummary,
  { seq, time, role, text: stored }: SessionText,
  words: readonly QueryWord[],
): SessionHit | undefined {
  let text = stored
  let spans = findWords(words, text, fold(text))
  if (!spans) return undefined
  // A key that became known since it was indexed.
  const clean = redact(text)
  if (clean !== text) {
    text = clean
    spans = findWords(words, text, fold(text))
    if (!spans) return undefined
  }
  return { id, seq, time, role, ...snippetOf(text, spans, words), ...(title ? { title } : {}) }
}
