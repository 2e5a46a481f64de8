/** Where packages take an effort: below the key of their options, in a field of their own. */

import type { JsonObject } from '@cambium/core'

const FIELDS: Readonly<Record<string, (effort: string) => JsonObject>> = {
  anthropic: effort => ({ effort }),
  google: effort => ({ thinkingConfig: { thinkingLevel: effort } }),
  vertex: effort => ({ thinkingConfig: { thinkingLevel: effort } }),
  bedrock: effort => ({ reasoningConfig: { type: 'enabled', maxReasoningEffort: effort } }),
}

/** The options that ask for an effort in the versions that have no word for it. */
export function effortOptions(provider: string, effort: string): JsonObject {
  // `google.generative-ai`, `amazon-bedrock`, `openai.responses`, `my-name.chat`
  const key = provider.split('.', 1)[0]!.replace(/^amazon-/, '')
  return { [key]: (FIELDS[key] ?? (value => ({ reasoningEffort: value })))(effort) }
}

/** Options of two sources, those of the second first, by the keys of packages. */
export function mergeOptions(a: JsonObject | undefined, b: JsonObject | undefined): JsonObject | undefined {
  if (!a || !b) return b ?? a
  const merged: Record<string, JsonObject[string]> = { ...a }
  for (const [key, value] of Object.entries(b)) {
    const before = merged[key]
    merged[key] = isObject(before) && isObject(value) ? { ...before, ...value } : value
  }
  return merged as JsonObject
}

const isObject = (value: unknown): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
