/** Text that every provider can read: a lone surrogate is not valid UTF-8 and has a whole request refused. */

/** Node has these two since 20, TypeScript's ES2023 library does not know them yet. */
interface WellFormed {
  isWellFormed(): boolean
  toWellFormed(): string
}

/** `text` with each lone surrogate replaced by U+FFFD; the same string when there is none. */
export function wellFormed(text: string): string {
  const value = text as unknown as WellFormed
  return value.isWellFormed() ? text : value.toWellFormed()
}

/** The same for every key and string inside a JSON value; the same object when nothing changes. */
export function wellFormedDeep<T>(value: T): T {
  if (typeof value === 'string') return wellFormed(value) as T
  if (Array.isArray(value)) {
    const items = value.map(wellFormedDeep)
    return items.some((item, index) => item !== value[index]) ? (items as T) : value
  }
  if (typeof value !== 'object' || value === null) return value
  const entries = Object.entries(value)
  const clean = entries.map(([key, item]) => [wellFormed(key), wellFormedDeep(item)] as const)
  const same = clean.every(([key, item], index) => key === entries[index]![0] && item === entries[index]![1])
  return same ? value : (Object.fromEntries(clean) as T)
}
