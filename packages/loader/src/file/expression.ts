/** `!env` and `!js`: evaluated once, while the tree is read, before any config is validated. */

import { runInThisContext } from 'node:vm'
import { errorMessage, HarnessError, MAX_JSON_DEPTH } from '@cambium/core'
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
    const result = run(text, env)
    if (result instanceof Promise) throw new TypeError('an expression cannot be awaited')
    checkShape(result, new Set())
    return result === undefined ? ABSENT : result
  } catch (error) {
    throw new HarnessError('TREE_EXPRESSION', `\`!js ${text}\` failed: ${errorMessage(error)}`, {
      where: placeOf(spot),
      fix: 'an expression sees `process` and `env` only; correct it, or write the value itself',
      cause: error,
    })
  }
}

/** An expression that never ends would keep the process, its signal handlers too. */
const EXPRESSION_MS = 3_000
const kArguments = Symbol.for('cambium.expression')

/** The body sees two names and the language's own globals; services do not exist yet when a tree is read. */
function run(text: string, env: Env): unknown {
  // Parsed alone first: what does not stand by itself must not become something else inside the frame.
  new Function('process', 'env', `"use strict"; return (${text}\n)`)
  const shared = globalThis as { [kArguments]?: readonly unknown[] }
  shared[kArguments] = [process, env]
  try {
    const frame = `(function (process, env) { "use strict"; return (${text}\n) })`
    const code = `${frame}(...globalThis[Symbol.for('cambium.expression')])`
    return runInThisContext(code, { timeout: EXPRESSION_MS, filename: '!js', displayErrors: false })
  } finally {
    delete shared[kArguments]
  }
}

/** Lists and maps are copied later on, again and again: they must have an end, and let themselves be read. */
function checkShape(value: unknown, above: Set<unknown>): void {
  if (typeof value !== 'object' || value === null) return
  if (!Array.isArray(value) && Object.getPrototypeOf(value) !== Object.prototype) return
  if (above.has(value)) throw new TypeError('its value contains itself')
  if (above.size > MAX_JSON_DEPTH) throw new TypeError(`its value is more than ${MAX_JSON_DEPTH} levels deep`)
  above.add(value)
  for (const item of Object.values(value)) checkShape(item, above)
  above.delete(value)
}
