/** Settings against the schema of their namespace. */

import { copyData, errorMessage, innerOf, isSchemastery, nearest, type SchemaNode, unknownKeys } from '@cambium/core'
import type Schema from 'schemastery'

export interface Problem {
  readonly path: readonly PropertyKey[]
  readonly problem: string
  readonly fix: string
}

export type Checked = { readonly value: unknown } | { readonly problems: readonly Problem[] }

/** The value that the schema makes of `data`, frozen; or all that is wrong with it, without a value being quoted. */
export function check(schema: Schema, data: unknown): Checked {
  const problems = isSchemastery(schema) ? unknown(schema, data) : []
  let first: readonly Problem[] = []
  for (const candidate of data === undefined ? [undefined, {}] : [data]) {
    const result = validate(schema, candidate)
    if ('value' in result) return problems.length ? { problems } : { value: freeze(result.value) }
    if (!first.length) first = result.problems
  }
  return { problems: [...problems, ...first] }
}

function unknown(schema: SchemaNode, data: unknown): Problem[] {
  return unknownKeys(schema, data).map(({ path, known }) => {
    const meant = nearest(String(path.at(-1)), known)
    const keys = known.length ? `the keys are ${known.join(', ')}` : 'it takes no keys'
    return { path, problem: 'there is no such setting', fix: meant ? `did you mean \`${meant}\`?` : keys }
  })
}

function validate(schema: Schema, data: unknown): Checked {
  let result: ReturnType<Schema['~standard']['validate']>
  try {
    // Schemas may write into what they check.
    result = schema['~standard'].validate(copyData(data))
  } catch (error) {
    return {
      problems: [
        { path: [], problem: `its schema failed: ${withoutValue(errorMessage(error))}`, fix: 'correct the value' },
      ],
    }
  }
  if ('then' in result) {
    return { problems: [{ path: [], problem: 'its schema is asynchronous', fix: 'use one that answers at once' }] }
  }
  if (!result.issues) return { value: result.value }
  return {
    problems: result.issues.map(({ message, path = [] }) => {
      const keys = path.map(part => (typeof part === 'object' ? part.key : part))
      return { path: keys, problem: `it is wrong: ${withoutValue(message)}`, fix: 'correct the value' }
    }),
  }
}

/** Schemastery begins with the path, which is said already, and ends with the value, which may be a secret. */
function withoutValue(message: string): string {
  return message
    .replace(/^\$\S* /, '')
    .replace(/ but got (undefined$)?[\s\S]*/, (_, missing) => (missing ? ' but it is missing' : ''))
}

function freeze<T>(value: T): T {
  if (typeof value !== 'object' || value === null || Object.isFrozen(value)) return value
  const prototype = Object.getPrototypeOf(value)
  if (!Array.isArray(value) && prototype !== Object.prototype && prototype !== null) return value
  for (const inner of Object.values(value)) freeze(inner)
  return Object.freeze(value)
}

/** Whether a value is marked as a secret anywhere on the way to it, in any member of a union too. */
export function isSecret(schema: SchemaNode | undefined, path: readonly PropertyKey[]): boolean {
  if (!schema) return false
  if (schema.meta?.role === 'secret') return true
  const inner = innerOf(schema)
  if (inner) return isSecret(inner, path)
  if (schema.type === 'union' || schema.type === 'intersect') return schema.list!.some(member => isSecret(member, path))
  const [key, ...rest] = path
  // What is shown as a whole is secret if a part of it is.
  if (key === undefined) return partsOf(schema).some(part => isSecret(part, []))
  if (schema.type === 'tuple') return isSecret(schema.list![Number(key)], rest)
  if (schema.type === 'object')
    return isSecret(Object.hasOwn(schema.dict!, key) ? schema.dict![key as string] : undefined, rest)
  return isSecret(schema.inner, rest)
}

function partsOf(schema: SchemaNode): SchemaNode[] {
  if (schema.type === 'object') return Object.values(schema.dict!)
  if (schema.type === 'tuple') return [...schema.list!]
  return schema.inner ? [schema.inner] : []
}
