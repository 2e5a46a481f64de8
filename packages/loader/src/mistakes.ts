/** Several mistakes as one error: a person corrects them in one go. */

import { HarnessError, isHarnessError } from '@cambium/core'

/** How many are told in full: the next ones would only push the first off the screen. */
const TOLD = 20

/** Throws nothing for none, the mistake itself for one, else a `TREE_MISTAKES` whose message lists the first of them. */
export function throwMistakes(mistakes: readonly HarnessError[], what: string): void {
  if (!mistakes.length) return
  if (mistakes.length === 1) throw mistakes[0]
  const list = mistakes.slice(0, TOLD).map(mistake => `\n\n${mistake.message}`)
  const more = mistakes.length - TOLD
  if (more > 0) list.push(`\n\n… and ${more} more`)
  throw new HarnessError('TREE_MISTAKES', `${mistakes.length} mistakes in ${what}${list.join('')}`, {
    cause: new AggregateError(mistakes, `${mistakes.length} mistakes`),
  })
}

/** The single mistakes of an error that reading, checking or starting a tree threw. */
export function mistakesOf(error: unknown): HarnessError[] {
  if (!isHarnessError(error)) return []
  if (error.code === 'TREE_MISTAKES' && error.cause instanceof AggregateError) return error.cause.errors
  return [error]
}
