/** Numbers in sentences. */

export function count(quantity: number, noun: string, nouns = `${noun}s`): string {
  return `${quantity} ${quantity === 1 ? noun : nouns}`
}

const NAMED = 20

/** `line 3`, `lines 3, 5 and 9`; the first twenty of many. */
export function lineList(lines: readonly number[]): string {
  const unique = [...new Set(lines)]
  if (unique.length === 1) return `line ${unique[0]}`
  if (unique.length > NAMED) return `lines ${unique.slice(0, NAMED).join(', ')} and ${unique.length - NAMED} more`
  return `lines ${unique.slice(0, -1).join(', ')} and ${unique.at(-1)}`
}
