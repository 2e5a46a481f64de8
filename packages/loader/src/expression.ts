/** `!env` and `!js`: evaluated once, while the tree is read, before any config is validated. */

import { errorMessage, HarnessError } from '@cambium/core'
import { placeOf } from './source.ts'
import { ABSENT, type Expression } from './value.ts'
import { scalarOf } from './yaml.ts'

export type Env = Readonly<Record<string, string | undefined>>

/** Evaluates each expression at most once, so that a fresh copy of a config repeats no side effect. */
export function createEvaluator(env: Env): (expression: Expression) => unknown {
  const results = new Map<Expression, unknown>()
  return expression => {
    if (!results.has(expression)) results.set(expression, evaluate(expression, env))
    return results.get(expression)
  }
}

function evaluate({ tag, text, fallback, spot }: Expression, env: Env): unknown {
  if (tag !== '!js') {
    const value = env[text]
    if (value === undefined) return fallback ? fallback.value : ABSENT
    return tag === '!env:string' ? value : scalarOf(value)
  }
  try {
    // The body sees two names and the language's own globals; services do not exist yet when a tree is read.
    const result: unknown = new Function('process', 'env', `"use strict"; return (${text}\n)`)(process, env)
    if (result instanceof Promise) throw new TypeError('an expression cannot be awaited')
    return result === undefined ? ABSENT : result
  } catch (error) {
    throw new HarnessError('TREE_EXPRESSION', `\`!js ${text}\` failed: ${errorMessage(error)}`, {
      where: placeOf(spot),
      fix: 'an expression sees `process` and `env` only; correct it, or write the value itself',
      cause: error,
    })
  }
}
