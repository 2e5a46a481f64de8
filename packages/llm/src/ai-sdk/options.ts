/** Where packages take what the interface has no word for: below a key of theirs, in fields of their own. */

import type { JsonObject } from '@cambium/core'

const FIELDS: Readonly<Record<string, (effort: string) => JsonObject>> = {
  anthropic: effort => ({ effort }),
  google: effort => ({ thinkingConfig: { thinkingLevel: effort } }),
  openrouter: effort => ({ reasoning: { effort } }),
  bedrock: effort => ({ reasoningConfig: { type: 'enabled', maxReasoningEffort: effort } }),
}

/**
 * The key of a package's options, by the name of its model: `google.vertex.chat`, `vertex.anthropic.messages`,
 * `amazon-bedrock`, `azure.responses`, `my-name.chat`.
 */
export function optionsKey(provider: string): string {
  if (/\banthropic\b/.test(provider)) return 'anthropic'
  if (/^azure\b/.test(provider)) return 'openai'
  return provider.split('.', 1)[0]!.replace(/^amazon-/, '')
}

/** The options that ask for an effort in the versions that have no word for it. */
export function effortOptions(key: string, effort: string): JsonObject {
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
