/** What is shown of a text that is too long: its beginning, its end, and what lies between. */

import type { ToolResult } from '@cambium/tools'
import { quotedPath } from '../place.ts'
import { count } from '../wording.ts'

type ResultBlock = ToolResult['content'][number]

/** Where a text is kept. */
export interface Kept {
  readonly path: string
  readonly bytes: number
  /** False when only its beginning is there. */
  readonly complete: boolean
}

export interface Cut {
  /** Of all that is shown. */
  readonly maxBytes: number
  readonly headShare: number
  readonly kept?: Kept
  /** Why it is not kept. */
  readonly lost?: string
  /** Tools that can look at the file. */
  readonly ways: readonly string[]
}

export const textBytes = (text: string): number => Buffer.byteLength(text)

/** The text of a result as it is kept: a block a line or more. */
export function textOf(content: readonly ResultBlock[]): string {
  return content.flatMap(block => (block.type === 'text' ? [block.text] : [])).join('\n')
}

export function cutText(text: string, cut: Cut): string {
  const { head, notice, tail } = pieces(text, cut)
  return around(head, notice, tail)
}

/** Texts are bounded together; whatever is no text stays in its place. */
export function cutBlocks(content: readonly ResultBlock[], cut: Cut): ResultBlock[] {
  const text = textOf(content)
  const { head, notice, tail } = pieces(text, cut)
  const from = text.length - tail.length
  const shown: ResultBlock[] = []
  let at = 0
  let said = false
  for (const block of content) {
    if (block.type !== 'text') {
      shown.push(block)
      continue
    }
    const end = at + block.text.length
    const before = block.text.slice(0, Math.max(0, head.length - at))
    const after = block.text.slice(Math.max(0, from - at))
    const here: boolean = !said && end >= head.length
    said ||= here
    const part = here ? around(before, notice, after) : before || after
    if (part) shown.push({ ...block, text: part })
    at = end + 1
  }
  return shown
}

const around = (head: string, notice: string, tail: string) =>
  [head.endsWith('\n') ? head.slice(0, -1) : head, notice, tail].filter(Boolean).join('\n')

function pieces(text: string, cut: Cut): { head: string; notice: string; tail: string } {
  const bytes = Buffer.from(text)
  const lines = linesOf(bytes)
  const total = `${count(bytes.length, 'byte')} (${count(lines, 'line')})`
  const tell = (omitted: Buffer, from: number) =>
    `[… ${count(omitted.length, 'byte')} of ${total} left out here; ${whereabouts(cut, from)} …]`
  // No part has more digits than the whole.
  const room = Math.max(0, cut.maxBytes - textBytes(tell(bytes, lines)) - 2)
  const headEnd = endOfCut(bytes, Math.floor(room * cut.headShare))
  const tailStart = startOfCut(bytes, bytes.length - (room - headEnd))
  const headBytes = bytes.subarray(0, headEnd)
  const omitted = bytes.subarray(headEnd, tailStart)
  return {
    head: headBytes.toString(),
    notice: tell(omitted, newlinesOf(headBytes) + 1),
    tail: bytes.subarray(tailStart).toString(),
  }
}

function whereabouts({ kept, lost, ways }: Cut, from: number): string {
  if (!kept) return `the rest is lost: ${lost ?? 'it was not kept'}`
  const what = kept.complete ? 'all of it is in' : `the first ${count(kept.bytes, 'byte')} are in`
  const how = ways.map(way => (way === 'read' ? `read it with offset ${from}` : `${way} in it`))
  return `${what} ${quotedPath(kept.path)}${how.length ? `: ${how.join(', or ')}` : ''}`
}

/** How far a cut moves to fall between two lines. */
const LINE_REACH = 2_048
const NEWLINE = 0x0a

/** The end of the beginning, at most `most`: behind a line where one ends nearby, behind a character in any case. */
export function endOfCut(bytes: Buffer, most: number): number {
  if (most >= bytes.length) return bytes.length
  const line = bytes.lastIndexOf(NEWLINE, most - 1) + 1
  if (most > 0 && line > 0 && most - line <= LINE_REACH) return line
  let end = most
  while (end > 0 && isInside(bytes[end])) end--
  return end
}

function startOfCut(bytes: Buffer, least: number): number {
  if (least <= 0) return 0
  // The line may begin right there.
  const line = bytes.indexOf(NEWLINE, least - 1) + 1
  if (line > 0 && line < bytes.length && line - least <= LINE_REACH) return line
  let start = least
  while (start < bytes.length && isInside(bytes[start])) start++
  return start
}

/** A byte that goes on with a character. */
const isInside = (byte: number | undefined) => byte !== undefined && (byte & 0xc0) === 0x80

function newlinesOf(bytes: Buffer): number {
  let lines = 0
  for (let at = bytes.indexOf(NEWLINE); at >= 0; at = bytes.indexOf(NEWLINE, at + 1)) lines++
  return lines
}

const linesOf = (bytes: Buffer) => newlinesOf(bytes) + (bytes.at(-1) === NEWLINE ? 0 : 1)
