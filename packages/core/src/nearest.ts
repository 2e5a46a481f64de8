/** The nearest known name to one that was mistyped, for messages that say "did you mean". */

/** The closest of `known` to `name`, or undefined when none is close enough to be what was meant. */
export function nearest(name: string, known: readonly string[]): string | undefined {
  let best: string | undefined
  let least = Math.max(1, Math.floor(name.length / 3)) + 1
  for (const candidate of known) {
    const cost = distance(name.toLowerCase(), candidate.toLowerCase())
    if (cost < least) {
      least = cost
      best = candidate
    }
  }
  return best
}

/** Edits between two words; swapping two neighbours counts as one. */
function distance(a: string, b: string): number {
  let before: number[] = []
  let row = Array.from({ length: b.length + 1 }, (_, j) => j)
  for (let i = 1; i <= a.length; i++) {
    const next = [i]
    for (let j = 1; j <= b.length; j++) {
      const same = a[i - 1] === b[j - 1]
      let cost = Math.min(next[j - 1]! + 1, row[j]! + 1, row[j - 1]! + (same ? 0 : 1))
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]) cost = Math.min(cost, before[j - 2]! + 1)
      next.push(cost)
    }
    before = row
    row = next
  }
  return row[b.length]!
}
