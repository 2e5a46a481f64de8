/** Whether arguments and values fit a definition's schemas. */

import { errorMessage, type JsonObject, type JsonValue } from '@cambium/core'
import { compileForeign, type ForeignCheck } from './foreign-schema.ts'
import { check, isPlainSchema } from './validate.ts'

/** Schemas of `defineTool`, whose code gets nulls of optional parameters as absent. */
const lenient = new WeakSet<JsonObject>()

export function registerLenient(schema: JsonObject): void {
  lenient.add(schema)
}

type Check = (value: JsonValue, root: string) => string[]
const compiled = new WeakMap<JsonObject, Check | Promise<Check>>()

/**
 * What is wrong with `value`, a sentence each. A schema that nothing can check lets everything through, after one warning:
 * the server that brought it checks its own arguments.
 */
export function problemsOf(
  schema: JsonObject,
  value: JsonValue,
  root: string,
  warn: (text: string) => void,
): string[] | Promise<string[]> {
  let judge = compiled.get(schema)
  if (!judge) {
    judge = compile(schema, warn)
    compiled.set(schema, judge)
  }
  return typeof judge === 'function' ? judge(value, root) : judge.then(ready => ready(value, root))
}

function compile(schema: JsonObject, warn: (text: string) => void): Check | Promise<Check> {
  if (isPlainSchema(schema)) {
    const nullIsAbsent = lenient.has(schema)
    return (value, root) => check(schema, value, { root, nullIsAbsent })
  }
  const foreign: Promise<ForeignCheck> = compileForeign(schema).catch(error => {
    warn(`its JSON Schema cannot be used, so that values are not checked: ${errorMessage(error)}`)
    return () => []
  })
  // From the next time on without a wait.
  void foreign.then(ready => compiled.set(schema, ready))
  return foreign
}

/** At most a handful of sentences: more do not help a model. */
export function joinProblems(problems: readonly string[]): string {
  const shown = problems.slice(0, 8).join('; ')
  return problems.length > 8 ? `${shown}; and ${problems.length - 8} more` : shown
}
