/** Several mistakes as one error: a person corrects them in one go. */

import { HarnessError, isHarnessError } from '@cambium/core'

/** Throws nothing for none, the mistake itself for one, else a `TREE_MISTAKES` whose message lists all of them. */
export function throwMistakes(mistakes: readonly HarnessError[], what: string): void {
  if (!mistakes.length) return
  if (mistakes.length === 1) throw mistakes[0]
  const list = mistakes.map(mistake => `\n\n${mistake.message}`).join('')
  throw new HarnessError('TREE_MISTAKES', `${mistakes.length} mistakes in ${what}${list}`, {
    cause: new AggregateError(mistakes, `${mistakes.length} mistakes`),
  })
}

/** The single mistakes of an error that reading, checking or starting a tree threw. */
export function mistakesOf(error: unknown): HarnessError[] {
  if (!isHarnessError(error)) return []
  if (error.code === 'TREE_MISTAKES' && error.cause instanceof AggregateError) return error.cause.errors
  return [error]
}
