/** How the strict provider says no, and what its checks of every protocol share. */

export type Json = Record<string, unknown>

export interface StrictRules {
  /** Chat completions: refuses two messages of the same role in a row, tool results aside. */
  readonly alternateRoles: boolean
  /** In tokens of four characters of the body; the output limit that the request asks for counts as well. */
  readonly contextWindow: number | undefined
  /** Ids of the items of answers that a server of Responses has stored. */
  readonly stored: ReadonlySet<string>
}

export const NAME = /^[a-zA-Z0-9_-]{1,64}$/

export const isObject = (value: unknown): value is Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
export const isBlank = (value: unknown) => typeof value === 'string' && value.trim() === ''

/** Says what is wrong with it; caught where the request is inspected. */
export class Refusal extends Error {
  readonly code: string | null
  constructor(problem: string, code: string | null) {
    super(problem)
    this.code = code
  }
}

export function refuse(problem: string, code: string | null = null): never {
  throw new Refusal(problem, code)
}

/** Calls `exceeded` when the request and the answer that it asks for do not fit into the window. */
export function needWindow(
  size: number,
  output: number,
  { contextWindow: window }: StrictRules,
  exceeded: (sizes: { input: number; window: number }) => void,
) {
  const input = Math.ceil(size / 4)
  if (window !== undefined && input + output > window) exceeded({ input, window })
}

/** The value of a JSON text; undefined for what is none. */
export function parsed(text: unknown): unknown {
  try {
    return JSON.parse(String(text))
  } catch {
    // Not JSON is one of the answers: the caller wants an object.
    return undefined
  }
}

/** Refuses keys that the provider does not know, in its own words. */
export function onlyKeys(value: Json, known: readonly string[], refusal: (key: string) => string, code?: string) {
  const odd = Object.keys(value).find(key => !known.includes(key))
  if (odd !== undefined) refuse(refusal(odd), code)
}
