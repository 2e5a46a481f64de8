/** What the name of a model tells about how it is to be asked. */

/** Vendor prefix and date are no part of what a model is: `openai/gpt-5-2025-08-07` is `gpt-5`. */
export function modelFamily(id: string): string {
  const name = id.slice(id.lastIndexOf('/') + 1).toLowerCase()
  return name.replace(/-(\d{4}-\d{2}-\d{2}|latest)$/, '')
}

/** Models that think: they take an effort, give their reasoning in encrypted form, and take no temperature. */
export function isReasoningModel(id: string): boolean {
  const family = modelFamily(id)
  return /^(gpt-([5-9]|\d\d)|o\d|codex-|gpt-oss|computer-use)/.test(family) && !/-chat(-|$)/.test(family)
}

/** Models that tell remarks on the way from the last word, and want to read it again: since gpt-5.3-codex and gpt-5.4. */
export function hasPhases(id: string): boolean {
  const [, major = 0, minor = 0, rest = ''] = /^gpt-(\d+)(?:\.(\d+))?(.*)$/.exec(modelFamily(id)) ?? []
  const version = Number(major) * 100 + Number(minor)
  return version >= 504 || (version === 503 && rest.startsWith('-codex'))
}
