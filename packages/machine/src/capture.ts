/** Keeps the beginning and the end of a program's output within a bound, and the order in which both streams came. */

import { StringDecoder } from 'node:string_decoder'
import type { OutputGap, OutputStream, OutputText } from './process.ts'

interface Piece {
  readonly order: number
  bytes: Uint8Array
}

/** Small writes in a row are joined up to here, so that a program that writes byte by byte does not cost an object each. */
const JOIN_BYTES = 4096
/** A cut moves to a line break when one is this near. */
const LINE_REACH = 2048
/** Errors gather at the end: a quarter of the room goes to the beginning. */
const HEAD_SHARE = 4

class StreamCapture {
  readonly head: Piece[] = []
  readonly tail: Piece[] = []
  totalBytes = 0
  totalLines = 0
  private headRoom: number
  private tailBytes = 0
  private readonly tailCap: number

  constructor(maxBytes: number) {
    this.headRoom = Math.floor(maxBytes / HEAD_SHARE)
    this.tailCap = maxBytes - this.headRoom
  }

  wouldDrop(bytes: number): boolean {
    return bytes > this.headRoom + this.tailCap - this.tailBytes
  }

  push(chunk: Uint8Array, order: number): void {
    this.totalBytes += chunk.length
    this.totalLines += countLines(chunk)
    if (this.headRoom > 0) {
      const part = chunk.subarray(0, this.headRoom)
      this.headRoom -= part.length
      append(this.head, part, order)
      chunk = chunk.subarray(part.length)
    }
    if (!chunk.length) return
    append(this.tail, chunk, order)
    this.tailBytes += chunk.length
    while (this.tailBytes - this.tail[0]!.bytes.length >= this.tailCap) {
      this.tailBytes -= this.tail.shift()!.bytes.length
    }
  }

  /** The pieces that fit into `budget`, and what lies between them. `budget` is at most the bound of construction. */
  select(stream: OutputStream, budget: number): Array<{ order: number; part: Uint8Array | OutputGap }> {
    const kept = [...this.head, ...this.tail]
    if (this.totalBytes <= budget) return kept.map(piece => ({ order: piece.order, part: piece.bytes }))
    const headBytes = Math.floor(budget / HEAD_SHARE)
    const first = toLineEnd(take(kept, headBytes))
    const last = toLineStart(takeLast(kept, budget - headBytes))
    const shown = [...first, ...last]
    const gap: OutputGap = {
      stream,
      omittedBytes: this.totalBytes - shown.reduce((sum, piece) => sum + piece.bytes.length, 0),
      omittedLines: this.totalLines - shown.reduce((sum, piece) => sum + countLines(piece.bytes), 0),
    }
    const order = (first.at(-1) ?? last[0])?.order ?? 0
    return [
      ...first.map(piece => ({ order: piece.order, part: piece.bytes })),
      { order, part: gap },
      ...last.map(piece => ({ order: piece.order, part: piece.bytes })),
    ]
  }
}

export class OutputCapture {
  private readonly streams: Record<OutputStream, StreamCapture>
  private readonly maxBytes: number
  private order = 0
  private last: OutputStream | undefined

  constructor(maxBytes: number) {
    this.maxBytes = maxBytes
    this.streams = { stdout: new StreamCapture(maxBytes), stderr: new StreamCapture(maxBytes) }
  }

  get totalBytes(): number {
    return this.streams.stdout.totalBytes + this.streams.stderr.totalBytes
  }

  /** True when taking in `bytes` more would lose something for good. */
  wouldDrop(stream: OutputStream, bytes: number): boolean {
    return this.streams[stream].wouldDrop(bytes)
  }

  push(stream: OutputStream, chunk: Uint8Array): void {
    if (this.last !== stream) this.order++
    this.last = stream
    this.streams[stream].push(chunk, this.order)
  }

  /** All that is kept, in order of arrival; complete as long as nothing was dropped. */
  pieces(): Uint8Array[] {
    const { stdout, stderr } = this.streams
    return [...stdout.head, ...stdout.tail, ...stderr.head, ...stderr.tail]
      .sort((a, b) => a.order - b.order)
      .map(piece => piece.bytes)
  }

  /** The result's view: at most the bound, shared so that a loud stream does not push out a quiet one. */
  finish(): { output: Array<OutputText | OutputGap>; droppedBytes: number } {
    const { stdout, stderr } = this.streams
    const half = Math.floor(this.maxBytes / 2)
    const forStderr = Math.min(stderr.totalBytes, Math.max(half, this.maxBytes - stdout.totalBytes))
    const forStdout = Math.min(stdout.totalBytes, this.maxBytes - forStderr)
    const selected = [
      ...stdout.select('stdout', forStdout).map(item => ({ ...item, stream: 'stdout' as const })),
      ...stderr.select('stderr', forStderr).map(item => ({ ...item, stream: 'stderr' as const })),
    ].sort((a, b) => a.order - b.order)
    const decoders = { stdout: new StringDecoder('utf8'), stderr: new StringDecoder('utf8') }
    const output: Array<OutputText | OutputGap> = []
    let droppedBytes = 0
    const add = (stream: OutputStream, text: string) => {
      if (!text) return
      const before = output.at(-1)
      if (before && 'text' in before && before.stream === stream)
        output[output.length - 1] = { stream, text: before.text + text }
      else output.push({ stream, text })
    }
    for (const { stream, part } of selected) {
      if (part instanceof Uint8Array) {
        add(stream, decoders[stream].write(part as Buffer))
        continue
      }
      // Half a character before a gap is not flushed: its rest is among what was left out.
      decoders[stream] = new StringDecoder('utf8')
      droppedBytes += part.omittedBytes
      output.push(part)
    }
    add('stdout', decoders.stdout.end())
    add('stderr', decoders.stderr.end())
    return { output, droppedBytes }
  }
}

function append(pieces: Piece[], bytes: Uint8Array, order: number): void {
  const last = pieces.at(-1)
  if (last && last.order === order && last.bytes.length + bytes.length <= JOIN_BYTES) {
    last.bytes = Buffer.concat([last.bytes, bytes])
  } else {
    pieces.push({ order, bytes })
  }
}

function take(pieces: readonly Piece[], count: number): Piece[] {
  const taken: Piece[] = []
  for (const { order, bytes } of pieces) {
    if (count <= 0) break
    taken.push({ order, bytes: bytes.subarray(0, count) })
    count -= bytes.length
  }
  return taken
}

function takeLast(pieces: readonly Piece[], count: number): Piece[] {
  const taken: Piece[] = []
  for (let at = pieces.length - 1; at >= 0 && count > 0; at--) {
    const { order, bytes } = pieces[at]!
    taken.unshift({ order, bytes: bytes.subarray(Math.max(0, bytes.length - count)) })
    count -= bytes.length
  }
  return taken
}

function toLineEnd(pieces: Piece[]): Piece[] {
  const last = pieces.at(-1)
  if (!last) return pieces
  const end = last.bytes.lastIndexOf(0x0a) + 1
  if (end > 0 && last.bytes.length - end <= LINE_REACH) last.bytes = last.bytes.subarray(0, end)
  return pieces
}

function toLineStart(pieces: Piece[]): Piece[] {
  const first = pieces[0]
  if (!first) return pieces
  const start = first.bytes.indexOf(0x0a) + 1
  if (start > 0 && start <= LINE_REACH) first.bytes = first.bytes.subarray(start)
  else skipHalfCharacter(pieces)
  return pieces
}

/** Drops the continuation bytes of a character whose first byte was left out; they may be spread over pieces. */
function skipHalfCharacter(pieces: Piece[]): void {
  let left = 3
  for (const piece of pieces) {
    while (left > 0 && piece.bytes.length && (piece.bytes[0]! & 0xc0) === 0x80) {
      piece.bytes = piece.bytes.subarray(1)
      left--
    }
    if (piece.bytes.length) return
  }
}

function countLines(bytes: Uint8Array): number {
  let lines = 0
  for (let at = 0; at < bytes.length; at++) if (bytes[at] === 0x0a) lines++
  return lines
}
