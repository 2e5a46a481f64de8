/** Spans, and the JSON encoding of OTLP: ids in hex, times as decimal strings of nanoseconds. */

import { createHash } from 'node:crypto'

export type AttributeValue = string | number | boolean | readonly string[] | undefined
export type Attributes = Readonly<Record<string, AttributeValue>>

export const INTERNAL = 1
export const CLIENT = 3

export interface Span {
  readonly traceId: string
  readonly spanId: string
  readonly parentSpanId?: string | undefined
  readonly name: string
  readonly kind: typeof INTERNAL | typeof CLIENT
  /** Milliseconds since the epoch. */
  readonly start: number
  readonly end: number
  readonly attributes: Attributes
  /** What went wrong; absent for what went well. */
  readonly error?: { readonly type: string; readonly message: string } | undefined
  readonly links?: readonly { readonly traceId: string; readonly spanId: string; readonly why: string }[] | undefined
}

/** The same thing of a log has the same id wherever it is looked at from: another process, a fork, a child. */
export const traceIdOf = (...parts: readonly unknown[]): string => digest(parts).slice(0, 32)
export const spanIdOf = (...parts: readonly unknown[]): string => digest(['span', ...parts]).slice(0, 16)

const digest = (parts: readonly unknown[]) => createHash('sha256').update(JSON.stringify(parts)).digest('hex')

export function exportRequest(spans: readonly Span[], resource: Attributes): string {
  return JSON.stringify({
    resourceSpans: [
      {
        resource: { attributes: attributesOf(resource) },
        scopeSpans: [{ scope: { name: '@cambium/observe/otel' }, spans: spans.map(encoded) }],
      },
    ],
  })
}

function encoded(span: Span) {
  const { traceId, spanId, parentSpanId, name, kind, error, links } = span
  return {
    traceId,
    spanId,
    ...(parentSpanId ? { parentSpanId } : {}),
    name,
    kind,
    startTimeUnixNano: nanoseconds(span.start),
    // A clock may have been set back meanwhile.
    endTimeUnixNano: nanoseconds(Math.max(span.start, span.end)),
    attributes: attributesOf(error ? { ...span.attributes, 'error.type': error.type } : span.attributes),
    status: error ? { code: 2, message: error.message } : {},
    ...(links?.length
      ? {
          links: links.map(link => ({
            traceId: link.traceId,
            spanId: link.spanId,
            attributes: attributesOf({ 'cambium.link': link.why }),
          })),
        }
      : {}),
  }
}

const nanoseconds = (ms: number) => `${BigInt(Math.round(ms * 1_000)) * 1_000n}`

function attributesOf(attributes: Attributes) {
  return Object.entries(attributes).flatMap(([key, value]) =>
    value === undefined ? [] : [{ key, value: encodedValue(value) }],
  )
}

function encodedValue(value: string | number | boolean | readonly string[]) {
  if (typeof value === 'string') return { stringValue: value }
  if (typeof value === 'boolean') return { boolValue: value }
  if (typeof value !== 'number') return { arrayValue: { values: value.map(stringValue => ({ stringValue })) } }
  return Number.isInteger(value) ? { intValue: String(value) } : { doubleValue: value }
}
