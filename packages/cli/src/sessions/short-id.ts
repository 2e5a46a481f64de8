/** Ids that are short enough to be typed, and fit no other session. */

const SHORTEST = 8
/** An id of this length is short enough as it is. */
const SHORT = 16

/** `20261130-141503-k3f9qa`: what tells them apart stands at the end. */
const DATED = /^\d{8}-(\d{6}-([a-z0-9]{6}))$/

/** What `--resume` takes for a part of an id, and not for the first word of a task. */
export const looksLikeId = (word: string): boolean => /^[A-Za-z0-9][\w.-]{3,119}$/.test(word) && /\d/.test(word)

/** By the rule of `findSession`: the beginning or the end of an id, when no other one has it; else all of it. */
export function shortIds(all: readonly { readonly id: string }[]): (id: string) => string {
  const ids = all.map(({ id }) => id)
  const starts = new Map<number, Map<string, number>>()
  const ends = new Map<number, Map<string, number>>()
  const fits = (part: string) => {
    const { length } = part
    const starting = counted(starts, length, () => ids.map(id => id.slice(0, length))).get(part) ?? 0
    const ending = counted(ends, length, () => ids.map(id => id.slice(-length))).get(part) ?? 0
    return starting + ending
  }
  return id => {
    if (id.length <= SHORT) return id
    for (const part of candidates(id)) if (looksLikeId(part) && fits(part) === 1) return part
    return id
  }
}

function* candidates(id: string): Generator<string> {
  const dated = DATED.exec(id)
  if (dated) yield* [dated[2]!, dated[1]!]
  else for (let length = SHORTEST; length < id.length; length++) yield id.slice(0, length)
}

function counted(
  tables: Map<number, Map<string, number>>,
  length: number,
  parts: () => string[],
): ReadonlyMap<string, number> {
  let table = tables.get(length)
  if (table) return table
  table = new Map()
  for (const part of parts()) table.set(part, (table.get(part) ?? 0) + 1)
  tables.set(length, table)
  return table
}
