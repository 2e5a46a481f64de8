/** Which terms are in which blocks, in memory, while a segment is being made. */

import { eachWord, termsOf } from './terms.ts'

const INITIAL = 1 << 15

export class Postings {
  private readonly terms = new Map<string, number[]>()
  // The words seen so far, by their hashes, in a table with open addresses: far faster than a map by text, since a
  // word that is known is never made a string. Two words of the same 64 bits would be taken for one; there are none.
  private mask = INITIAL - 1
  private first = new Int32Array(INITIAL)
  private second = new Int32Array(INITIAL)
  /** Index of the word's lists, plus 1. */
  private slots = new Int32Array(INITIAL)
  private readonly lists: number[][][] = []
  /** The last block that has the word. */
  private readonly latest: number[] = []

  /** Blocks come in order. */
  add(text: string, block: number): void {
    eachWord(text, (from, to, first, second) => {
      const word = this.find(first, second) ?? this.enter(text.slice(from, to), first, second)
      if (this.latest[word] === block) return
      this.latest[word] = block
      for (const blocks of this.lists[word]!) if (blocks.at(-1) !== block) blocks.push(block)
    })
  }

  /** Terms of one beginning at a time, in order, each with its blocks in order. */
  *sorted(): Generator<[string, readonly number[]][]> {
    const groups = new Map<string, string[]>()
    for (const term of this.terms.keys()) {
      const group = groups.get(term.charAt(0))
      if (group) group.push(term)
      else groups.set(term.charAt(0), [term])
    }
    for (const beginning of [...groups.keys()].sort()) {
      yield groups
        .get(beginning)!
        .sort()
        .map(term => [term, this.terms.get(term)!])
    }
  }

  private find(first: number, second: number): number | undefined {
    for (let at = first & this.mask; this.slots[at]; at = (at + 1) & this.mask) {
      if (this.first[at] === first && this.second[at] === second) return this.slots[at]! - 1
    }
    return undefined
  }

  private enter(text: string, first: number, second: number): number {
    const word = this.lists.length
    const lists = termsOf(text).map(term => {
      const known = this.terms.get(term)
      if (known) return known
      const blocks: number[] = []
      this.terms.set(term, blocks)
      return blocks
    })
    this.lists.push(lists)
    this.latest.push(-1)
    if (this.lists.length * 2 > this.mask) this.grow()
    this.place(first, second, word)
    return word
  }

  private place(first: number, second: number, word: number): void {
    let at = first & this.mask
    while (this.slots[at]) at = (at + 1) & this.mask
    this.first[at] = first
    this.second[at] = second
    this.slots[at] = word + 1
  }

  private grow(): void {
    const { first, second, slots } = this
    const size = slots.length * 2
    this.mask = size - 1
    this.first = new Int32Array(size)
    this.second = new Int32Array(size)
    this.slots = new Int32Array(size)
    for (let at = 0; at < slots.length; at++) if (slots[at]) this.place(first[at]!, second[at]!, slots[at]! - 1)
  }
}
