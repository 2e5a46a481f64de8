/** Reads the body of one answer by the reader of its protocol, and bounds every silence in it. */

import type { IncomingMessage } from 'node:http'
import type { StreamChunk } from '../stream.ts'
import { type FailureSubject, LlmError, quote, shownAddress } from './failure.ts'
import { AnswerError, type AnswerReader, type Protocol } from './protocol.ts'
import type { WebLimits } from './settings.ts'
import { NoEventsError, readEvents, spell } from './sse.ts'
import { isRecord } from './value.ts'

export interface Reading {
  readonly response: IncomingMessage
  readonly reader: AnswerReader
  readonly protocol: Protocol
  readonly subject: FailureSubject
  readonly limits: WebLimits
  /** How much of the wait for the first event is over. */
  readonly spentMs: number
}

/** A provider that has said why it stopped may still send usage and its end mark; one that does neither is done. */
const FINISHED_MS = 5_000
/** So many times the wait for a first event may a provider send events in which nothing is said, such as `ping`. */
const SIGNS_OF_LIFE = 3

/** Up to where the provider has said all; what is left for the reader's `end` is its own to give. @throws LlmError, AnswerError, SilenceError, what the network fails with */
export async function* readAnswer(reading: Reading): AsyncGenerator<StreamChunk> {
  const { response, reader, subject, limits, spentMs } = reading
  const { firstEventMs, idleMs } = limits
  const finishedMs = Math.min(FINISHED_MS, idleMs)
  const bounds = () => ({
    firstMs: Math.max(1, firstEventMs - spentMs),
    idleMs: reader.finished ? finishedMs : idleMs,
  })
  const quietMs = firstEventMs * SIGNS_OF_LIFE
  let quietSince = performance.now()
  let finished = false
  let done = false
  try {
    for await (const events of readEvents(response, bounds)) {
      for (const { event, data } of events) {
        if (data === '[DONE]') done = true
        else take(reading, event, data)
        // What stands behind the end is not read, whether it came along with it or later.
        if (done || reader.ended) break
      }
      const said = reader.flush()
      yield* said
      if (done || reader.ended) break
      const now = performance.now()
      if (said.length || finished !== reader.finished) {
        quietSince = now
        finished = reader.finished
      } else if (finished && now - quietSince > finishedMs) break
      else if (now - quietSince > quietMs) throw onlyAlive(subject, quietMs)
    }
  } catch (error) {
    if (error instanceof NoEventsError) takeWhole(reading, error)
    else if (!reader.finished || error instanceof LlmError || error instanceof AnswerError) {
      yield* reader.flush()
      throw error
    }
  }
  yield* reader.flush()
  const { provider, secrets } = subject
  if (reader.broken) {
    const message = `${provider} broke its answer off: ${quote(reader.broken, secrets)}`
    throw new LlmError({ code: 'SERVER', message })
  }
  if (done || reader.finished) return
  throw new LlmError({
    code: 'STREAM_CLOSED',
    message: `${provider} closed the stream before its answer was complete`,
  })
}

function take({ reader, subject }: Reading, name: string | undefined, data: string) {
  let event: unknown
  try {
    event = JSON.parse(data)
  } catch (error) {
    const said = quote(data, subject.secrets, 200)
    throw new LlmError(
      { code: 'MALFORMED_RESPONSE', message: `${subject.provider} sent a chunk that is not JSON: ${said}` },
      error,
    )
  }
  const failed = isRecord(event) && event['error'] !== undefined && event['error'] !== null
  if (failed || name === 'error') throw new AnswerError(event)
  reader.push(event, name)
}

function onlyAlive({ provider }: FailureSubject, ms: number): LlmError {
  return new LlmError({
    code: 'TIMEOUT',
    message: `${provider} has sent nothing for ${spell(ms)} but signs that it is still there`,
  })
}

/** A 200 without events: an error, a whole answer from a server that does not stream, or some other page. */
function takeWhole({ reader, subject, protocol }: Reading, { text }: NoEventsError) {
  let body: unknown
  try {
    body = JSON.parse(text)
  } catch {
    body = undefined
  }
  if (reader.whole(body)) return
  const said = Array.isArray(body) ? body[0] : body
  if (isRecord(said) && (said['error'] !== undefined || said['message'] !== undefined)) {
    throw new AnswerError(said['error'] ?? said)
  }
  const quoted = quote(text, subject.secrets, 200)
  throw new LlmError({
    code: 'MALFORMED_RESPONSE',
    message: `${subject.provider} answered with something that is no ${protocol.answer}: ${quoted}`,
    fix: `check the base address ${shownAddress(subject.base!)}; most end in /v1`,
  })
}
