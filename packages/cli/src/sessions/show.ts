/** `cambium sessions show`: what was said and done in a session, for a person to read. */

import { price } from '@cambium/llm'
import { rewindPoint, type SessionSummary, type StoredSession, transcript } from '@cambium/session'
import { EXIT } from '../exit-code.ts'
import { foldOutcome, type Outcome } from '../outcome.ts'
import { jsonText } from '../printable.ts'
import { turnOf } from './copy.ts'
import { shortIds } from './short-id.ts'
import { partOf } from './story.ts'
import { storyText } from './story-text.ts'
import type { SessionsWork } from './work.ts'

export async function run(work: SessionsWork): Promise<number> {
  const { config, ctx } = work
  const { summary, stored, all } = await work.open()
  for (const notice of stored.notices) work.note(`cambium: ${notice}`)
  const turn = config.turn === undefined ? undefined : turnOf(stored, config.turn)
  // Says which turns there are when this one is not.
  if (turn !== undefined) rewindPoint(summary.id, stored.events, { turn })
  if (config.raw) {
    await work.write(rawLines(stored, turn))
    return EXIT.done
  }
  const usage = spent(work, stored, turn)
  const copies = all.filter(({ parent }) => parent?.id === summary.id)
  if (config.json) {
    await work.write(jsonParts(summary, stored, turn, usage, copies))
    return EXIT.done
  }
  const short = shortIds(all)
  const tools = ctx.get('tools')
  await work.write(
    storyText(stored, {
      summary,
      copies,
      short,
      usage,
      ...(turn === undefined ? {} : { turn }),
      full: config.full,
      width: work.width,
      colors: await work.colors(),
      present: (name, args) => tools?.get(name)?.presentCall?.(args),
    }),
  )
  return EXIT.done
}

function spent({ ctx }: SessionsWork, { events }: StoredSession, turn: number | undefined): Outcome {
  const llm = ctx.get('llm')
  const { from, to } = partOf(events, turn)
  return foldOutcome(events.slice(from, to), (usage, route) => (llm ? price(usage, llm.modelInfo(route)) : undefined))
}

/** Each event as it is, one a line. */
function* rawLines({ events }: StoredSession, turn: number | undefined): Generator<string> {
  const { from, to } = partOf(events, turn)
  for (const event of events.slice(from, to)) yield jsonText(event)
}

/** One object, written in parts: a long session does not become one text. */
function* jsonParts(
  summary: SessionSummary,
  { header, events, notices }: StoredSession,
  turn: number | undefined,
  { usage, cost, steps, toolCalls }: Outcome,
  copies: readonly SessionSummary[],
): Generator<string> {
  const { from, to, turns } = partOf(events, turn)
  const { title, updatedAt, bytes, path, holder } = summary
  const facts = { header, title, updatedAt, bytes, path, holder, notices, usage, cost, steps, toolCalls }
  const lists = { copies: copies.map(({ id, parent }) => ({ id, events: parent?.events })), turns }
  yield `${jsonText({ ...facts, ...lists }).replace(/}\n$/, '')},"transcript":[\n`
  let first = true
  for (const entry of transcript(events)) {
    if (entry.seq < from || entry.seq >= to) continue
    yield `${first ? '' : ',\n'}${jsonText(entry).trimEnd()}`
    first = false
  }
  yield '\n]}\n'
}
