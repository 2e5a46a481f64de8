/** What a reasoning item leaves in its block, so that it can go back to the provider that gave it. */

import type { JsonObject, JsonValue } from '@cambium/core'
import { isRecord } from '../web/value.ts'

/** Kept as `replay`; the tag tells it from what other protocols leave there. */
interface ReasoningReplay extends JsonObject {
  readonly protocol: 'responses'
  readonly item: JsonObject
}

/** What is worth keeping of a reasoning item that is complete; undefined when nothing of it could be sent back. */
export function replayOf(item: Record<string, unknown>): ReasoningReplay | undefined {
  const { id, encrypted_content: encrypted } = item
  const content = textParts(item['content'], 'reasoning_text')
  if (typeof encrypted !== 'string' || !encrypted) {
    // Servers of open models encrypt nothing; they take the text itself back.
    return content.length ? kept(id, { summary: textParts(item['summary'], 'summary_text'), content }) : undefined
  }
  return kept(id, { summary: textParts(item['summary'], 'summary_text'), encrypted_content: encrypted })
}

const kept = (id: unknown, fields: JsonObject): ReasoningReplay => ({
  protocol: 'responses',
  item: { ...(typeof id === 'string' && id ? { id } : {}), ...fields },
})

/**
 * The item as it goes back; undefined for what another protocol left. An encrypted one goes without its id: nothing is
 * stored under it, some look it up all the same and refuse the request, and an id would bind the item to the ids of
 * those that followed it. One in plain text has its id, which servers of open models demand.
 */
export function replayedItem(replay: JsonValue | undefined): JsonObject | undefined {
  if (!isRecord(replay) || replay['protocol'] !== 'responses' || !isRecord(replay['item'])) return undefined
  const { id, encrypted_content: encrypted, ...item } = replay['item'] as JsonObject
  const summary = textParts(item['summary'], 'summary_text')
  if (typeof encrypted === 'string' && encrypted) return { type: 'reasoning', summary, encrypted_content: encrypted }
  const content = textParts(item['content'], 'reasoning_text')
  if (!content.length) return undefined
  return { type: 'reasoning', ...(typeof id === 'string' && id ? { id } : {}), summary, content }
}

/** Parts of one type with a text, and nothing else about them. */
export function textParts(value: unknown, type: string): JsonObject[] {
  const parts = Array.isArray(value) ? value : []
  return parts.flatMap(part =>
    isRecord(part) && (part['type'] ?? type) === type && typeof part['text'] === 'string' && part['text']
      ? [{ type, text: part['text'] }]
      : [],
  )
}
