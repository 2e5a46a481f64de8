/** Reads the JSON text of a call's arguments, and says where it is broken. */

import { type JsonValue, parsedProblem } from '@cambium/core'

export type ParsedJson = { readonly value: JsonValue } | { readonly problem: string }

/** Blank text is `{}`: that is how models say "no arguments". */
export function parseArguments(text: string): ParsedJson {
  if (text.trim() === '') return { value: {} }
  try {
    const value = JSON.parse(text) as JsonValue
    const problem = parsedProblem(value, MAX_DEPTH)
    return problem ? { problem: `no usable JSON: ${problem}` } : { value }
  } catch {
    // Node's own message has a position in some versions and cases only, so the place is found again below.
    return { problem: `not valid JSON: ${locate(text)}` }
  }
}

/** Far more than any tool means, and room for what the log lays around it. */
const MAX_DEPTH = 256

const TOKEN =
  /[\t\n\r ]*(?:(?<mark>[{}[\],:])|(?<string>"(?:[^"\\\p{Cc}]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*")|(?<word>true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?))/uy

/** What the grammar admits next, and how it is called. */
const EXPECT = {
  value: 'a value',
  'value or ]': 'a value or "]"',
  'key or }': 'a property name in double quotes or "}"',
  key: 'a property name in double quotes',
  ':': '":"',
  ', or }': '"," or "}"',
  ', or ]': '"," or "]"',
  end: 'nothing more',
} as const
type Expect = keyof typeof EXPECT

function locate(text: string): string {
  const open: ('{' | '[')[] = []
  let expect: Expect = 'value'
  const after = (): Expect => (open.length === 0 ? 'end' : open.at(-1) === '{' ? ', or }' : ', or ]')
  TOKEN.lastIndex = 0
  for (;;) {
    const from = TOKEN.lastIndex
    const match = TOKEN.exec(text)
    const next: Expect | null | undefined = match && step(expect, match, open, after)
    if (next) {
      expect = next
      continue
    }
    const at = from + (/^[\t\n\r ]*/.exec(text.slice(from))?.[0].length ?? 0)
    return place(text, at, expect, match !== null)
  }
}

function step(expect: Expect, match: RegExpExecArray, open: ('{' | '[')[], after: () => Expect): Expect | undefined {
  const { mark, string, word } = match.groups ?? {}
  const value = expect === 'value' || expect === 'value or ]'
  if (value && (string !== undefined || word !== undefined)) return after()
  if (value && mark === '{') {
    open.push('{')
    return 'key or }'
  }
  if (value && mark === '[') {
    open.push('[')
    return 'value or ]'
  }
  if ((expect === 'key' || expect === 'key or }') && string !== undefined) return ':'
  if (expect === ':' && mark === ':') return 'value'
  if (expect === ', or }' && mark === ',') return 'key'
  if (expect === ', or ]' && mark === ',') return 'value'
  const closes = mark === '}' ? ['key or }', ', or }'] : mark === ']' ? ['value or ]', ', or ]'] : []
  if (!closes.includes(expect)) return undefined
  open.pop()
  return after()
}

function place(text: string, at: number, expect: Expect, whole: boolean): string {
  const line = text.slice(0, at).split('\n').length
  const where = `position ${at}${line > 1 ? ` (line ${line})` : ''}`
  if (at >= text.length) return `the text ends at ${where} where ${EXPECT[expect]} is expected`
  const rest = text.slice(at, at + 30)
  if (text[at] === '"' && !whole)
    return `the string that starts at ${where} is not closed or holds a bad escape: ${rest}`
  return `${EXPECT[expect]} is expected at ${where}, got: ${rest}`
}
