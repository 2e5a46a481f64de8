/** Texts that nobody may see, keys and tokens, and taking them out of whatever is shown, logged or stored. */

import type { Context } from 'cordis'
import type { JsonValue } from './json.ts'

export const REDACTED = '[redacted]'

/** The secrets at this moment; the same array for as long as they are the same ones. Asked for each text; must not throw. */
export type SecretSource = () => readonly string[]

/** For the whole process: what one tree holds is no less secret in another one's log. */
const sources = new Set<SecretSource>()

/** Keeps what `source` names out of logs, failures, child environments and results, for as long as the plugin lives. */
export function keepSecrets(ctx: Context, source: SecretSource): () => void {
  return ctx.effect(() => {
    sources.add(source)
    return () => {
      sources.delete(source)
    }
  }, 'secrets') as unknown as () => void
}

/**
 * The text with `[redacted]` in the place of each known secret. Values that could be a word are left alone, or text that
 * means something else would be broken: short ones, and those that look like words.
 */
export function redact(text: string): string {
  return sources.size && text.length >= SHORTEST ? redactBy(needles(), text) : text
}

function redactBy(list: readonly Needle[], text: string): string {
  let out = text
  for (const needle of list) if (out.includes(needle.text)) out = without(out, needle)
  return out
}

/** As {@link redact}, for text that was cut somewhere: what is left of a secret at its start or end goes as well. */
export function redactCut(text: string): string {
  let out = redact(text)
  if (!sources.size) return out
  for (const { text: secret } of needles()) {
    const end = overlap(out, secret, secret.length - 1)
    if (end) out = out.slice(0, -end) + REDACTED
    const start = overlap(secret, out, secret.length - 1)
    if (start) out = REDACTED + out.slice(start)
  }
  return out
}

/** {@link redact} for bytes that come in pieces: a secret that lies in two of them is found as well. */
export class ByteRedactor {
  /** The end of what came, one character a byte: a secret may begin in it. */
  private held = ''

  /** What can be passed on now. */
  push(chunk: Uint8Array): Uint8Array {
    if (!sources.size && !this.held) return chunk
    const { list, longest } = byteNeedles()
    const text = redactBy(list, this.held + latin(chunk))
    const end = Math.max(0, text.length - Math.max(0, longest - 1))
    this.held = text.slice(end)
    return Buffer.from(text.slice(0, end), 'latin1')
  }

  /** The rest. What came may have been cut off in the middle of a secret: that part of it goes as well. */
  end(): Uint8Array {
    let text = this.held
    this.held = ''
    for (const { text: secret } of text ? byteNeedles().list : []) {
      const part = overlap(text, secret, secret.length - 1)
      if (part) text = text.slice(0, -part) + REDACTED
    }
    return Buffer.from(text, 'latin1')
  }
}

/** Each string in the data by `change`, {@link redact} by default, keys too; the same object when nothing has to change. */
export function redactJson<T extends JsonValue | undefined>(value: T, change?: (text: string) => string): T {
  if (!sources.size) return value
  if (change) return mapStrings(value, change) as T
  // Asked for once, and not for each string: a source may look at the disk.
  const list = needles()
  return mapStrings(value, text => (text.length < SHORTEST ? text : redactBy(list, text))) as T
}

function mapStrings(value: JsonValue | undefined, change: (text: string) => string): JsonValue | undefined {
  if (typeof value === 'string') return change(value)
  if (typeof value !== 'object' || value === null) return value
  let changed = false
  const visit = (item: JsonValue | undefined) => {
    const next = mapStrings(item, change)
    changed ||= next !== item
    return next
  }
  if (Array.isArray(value)) {
    const items = value.map(visit)
    return changed ? (items as JsonValue) : value
  }
  const entries = Object.entries(value).map(([key, item]) => {
    const name = change(key)
    changed ||= name !== key
    return [name, visit(item)] as const
  })
  return changed ? Object.fromEntries(entries) : value
}

// What is looked for ----------------------------------------------------------------------------------------------

interface Needle {
  readonly text: string
  /** Counts only where no letter or digit adjoins. */
  readonly whole: boolean
}

const SHORTEST = 8
/** From here on a value does not occur by chance in the middle of another word. */
const LONG = 16
/** A part of a secret that is worth hiding. */
const PART = 6

let lists: readonly (readonly string[])[] = []
let compiled: readonly Needle[] = []

function needles(): readonly Needle[] {
  const now = [...sources].map(source => source())
  if (now.length !== lists.length || now.some((list, index) => list !== lists[index])) {
    lists = now
    const texts = new Set(now.flat().filter(isTelling).flatMap(spellings))
    compiled = [...texts].sort((a, b) => b.length - a.length).map(text => ({ text, whole: text.length < LONG }))
  }
  return compiled
}

let ofBytes: { from: readonly Needle[]; list: readonly Needle[]; longest: number } | undefined

/** The same, each as its bytes in UTF-8 with one character a byte. */
function byteNeedles(): { readonly list: readonly Needle[]; readonly longest: number } {
  const from = needles()
  if (ofBytes?.from !== from) {
    const list = from.map(needle => ({ ...needle, text: latin(Buffer.from(needle.text)) }))
    ofBytes = { from, list, longest: Math.max(0, ...list.map(({ text }) => text.length)) }
  }
  return ofBytes
}

const latin = (bytes: Uint8Array) => Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('latin1')

/** Whether a value is so much of a secret that it does not stand in ordinary text. Local servers get `lm-studio` as a key. */
function isTelling(value: string): boolean {
  if (value.length < SHORTEST || new Set(value).size < 5) return false
  if (value.length < LONG) return /\d/.test(value) ? /[A-Za-z]/.test(value) : /[a-z].*[A-Z]/.test(value)
  return !/^[A-Za-z]{1,14}([-_. /][A-Za-z]{1,14})*$/.test(value)
}

/** As it is, as in JSON, as in an address. */
function spellings(value: string): string[] {
  return [value, JSON.stringify(value).slice(1, -1), encode(value)]
}

function encode(value: string): string {
  try {
    return encodeURIComponent(value)
  } catch {
    // Half of a surrogate pair has no such spelling.
    return value
  }
}

function without(text: string, { text: secret, whole }: Needle): string {
  if (!whole) return text.replaceAll(secret, REDACTED)
  return text.replaceAll(secret, (found, at: number) => {
    const adjoins = isWord(text[at - 1]) || isWord(text[at + found.length])
    return adjoins ? found : REDACTED
  })
}

const isWord = (char: string | undefined) => char !== undefined && /[A-Za-z0-9]/.test(char)

/** How much of the end of `text` is the beginning of `other`, at most `max`; 0 for less than what is worth hiding. */
function overlap(text: string, other: string, max: number): number {
  for (let length = Math.min(text.length, other.length, max); length >= PART; length--) {
    if (text.endsWith(other.slice(0, length))) return length
  }
  return 0
}
