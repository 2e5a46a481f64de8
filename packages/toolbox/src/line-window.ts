/** Picks a window of lines out of a file's bytes as they pass, within bounds, and counts the rest. */

export interface WindowLimits {
  /** First line, from 1. */
  readonly offset: number
  readonly maxLines: number
  /** Longer lines are cut. In UTF-16 units, as everything about text here. */
  readonly maxLineChars: number
  /** Of the whole window, in bytes of the file. */
  readonly maxBytes: number
  /** Bytes of each line that are left out at its start. */
  readonly skipBytes?: number
}

export interface WindowLine {
  readonly text: string
  /** The whole line's length in bytes, when its end was cut off. */
  readonly cutFromBytes?: number
  /** How many of the line's bytes lie before the end of what is shown of it. */
  readonly endByte: number
}

const NEWLINE = 0x0a

export class LineWindow {
  readonly lines: WindowLine[] = []
  /** Lines begun so far: the file's number of lines once {@link end} was called. */
  total = 0
  /** The window ended before its `maxLines` because of `maxBytes`. */
  byteLimited = false
  private readonly limits: WindowLimits
  private bytes = 0
  private open = false
  private part: Buffer[] = []
  private partBytes = 0
  private lineBytes = 0

  constructor(limits: WindowLimits) {
    this.limits = limits
  }

  /** True once nothing more can enter the window. */
  get full(): boolean {
    return this.byteLimited || this.lines.length >= this.limits.maxLines
  }

  push(chunk: Buffer): void {
    for (let at = 0; at < chunk.length; ) {
      if (!this.open) {
        this.open = true
        this.total++
      }
      const newline = chunk.indexOf(NEWLINE, at)
      const end = newline < 0 ? chunk.length : newline
      if (this.collecting) this.collect(chunk.subarray(at, end))
      if (newline < 0) return
      this.close()
      at = newline + 1
    }
  }

  end(): void {
    if (this.open) this.close()
  }

  private get collecting(): boolean {
    return this.total >= this.limits.offset && !this.full
  }

  private collect(bytes: Buffer): void {
    const skip = Math.min(bytes.length, Math.max(0, (this.limits.skipBytes ?? 0) - this.lineBytes))
    this.lineBytes += bytes.length
    bytes = bytes.subarray(skip)
    // A character has at most 3 bytes for each UTF-16 unit.
    const room = this.limits.maxLineChars * 3 + 4 - this.partBytes
    if (room <= 0 || !bytes.length) return
    const kept = bytes.subarray(0, room)
    this.part.push(Buffer.from(kept))
    this.partBytes += kept.length
  }

  private close(): void {
    this.open = false
    if (!this.collecting) return
    const line = this.decode()
    const size = Math.min(this.lineBytes, Buffer.byteLength(line.text)) + 1
    if (this.lines.length && this.bytes + size > this.limits.maxBytes) this.byteLimited = true
    else {
      this.bytes += size
      this.lines.push(line)
    }
    this.part = []
    this.partBytes = 0
    this.lineBytes = 0
  }

  private decode(): WindowLine {
    const { maxLineChars, skipBytes = 0 } = this.limits
    const skipped = Math.min(skipBytes, this.lineBytes)
    const bytes = skipped ? fromCharacter(Buffer.concat(this.part)) : Buffer.concat(this.part)
    const start = skipped + this.partBytes - bytes.length
    const complete = start + bytes.length === this.lineBytes
    // What is kept of a longer line holds more than `maxLineChars`: half a character at its end is cut off below.
    let text = bytes.toString('utf8')
    if (this.total === 1 && text.startsWith('\ufeff') && !skipped) text = text.slice(1)
    if (complete && text.endsWith('\r')) text = text.slice(0, -1)
    if (complete && text.length <= maxLineChars) return { text, endByte: this.lineBytes }
    const cut = /[\ud800-\udbff]/.test(text[maxLineChars - 1] ?? '') ? maxLineChars - 1 : maxLineChars
    const shown = text.slice(0, cut)
    // A byte that is no character is shown as one of three bytes: reading on may then leave something out.
    return { text: shown, cutFromBytes: this.lineBytes, endByte: start + Buffer.byteLength(shown) }
  }
}

/** Without the rest of a character whose beginning was left out. */
function fromCharacter(bytes: Buffer): Buffer {
  let at = 0
  while (at < 3 && ((bytes[at] ?? 0) & 0xc0) === 0x80) at++
  return bytes.subarray(at)
}
