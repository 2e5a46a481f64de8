/** What a field of somebody else's JSON holds, whatever that is. */

export const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** A text, or an empty one for anything else. */
export const stringOf = (value: unknown): string => (typeof value === 'string' ? value : '')

/** A whole number from 0 up; 0 for anything else. */
export const countOf = (value: unknown): number => (typeof value === 'number' && value > 0 ? Math.round(value) : 0)
