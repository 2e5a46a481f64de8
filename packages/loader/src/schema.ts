/** Checks a row's config against its plugin's schema, and finds the keys that the schema would silently keep. */

import { errorMessage, HarnessError, nearest } from '@cambium/core'
import type Schema from 'schemastery'
import type { LoadedPlugin } from './module.ts'
import type { Row } from './row.ts'

export type CheckedConfig = { readonly config: unknown } | { readonly mistakes: readonly HarnessError[] }

/** The config to mount the plugin with: what the file says, or what stands for nothing there. */
export function checkConfig(row: Row, loaded: LoadedPlugin): CheckedConfig {
  const { Config } = loaded
  if (!Config) return { config: row.config ?? {} }
  const mistakes = isSchemastery(Config) ? unknownKeys(row, Config) : []
  const candidates = row.config === undefined ? [undefined, {}] : [row.config]
  const failures: HarnessError[] = []
  for (const candidate of candidates) {
    const found = validate(row, Config, candidate)
    if (!found.length) return mistakes.length ? { mistakes } : { config: candidate }
    if (!failures.length) failures.push(...found)
  }
  return { mistakes: [...mistakes, ...failures] }
}

function validate(row: Row, Config: NonNullable<LoadedPlugin['Config']>, config: unknown): HarnessError[] {
  // Schemas may write into what they check.
  let result: ReturnType<(typeof Config)['~standard']['validate']>
  try {
    result = Config['~standard'].validate(copyData(config))
  } catch (error) {
    return [invalid(row, [], `its schema failed: ${errorMessage(error)}`)]
  }
  if ('then' in result) return [invalid(row, [], 'its schema is asynchronous, which a tree cannot wait for')]
  return (result.issues ?? []).map(({ message, path = [] }) => {
    const keys = path.map(part => (typeof part === 'object' ? part.key : part))
    return invalid(row, keys, withoutPath(message, keys))
  })
}

function invalid(row: Row, path: readonly PropertyKey[], problem: string): HarnessError {
  const { place, expression } = row.locate(path)
  const at = path.length ? ` at ${pathText(path)}` : ''
  const unset = expression && expression.tag !== '!js' && row.environment.get(expression.text) === undefined
  const fix =
    unset && expression.fallback === undefined
      ? `set the environment variable ${expression.text}, or give a default: \`${expression.tag} [${expression.text}, default]\``
      : 'correct the value; `config` must fit the schema of the plugin'
  let text = problem
  for (const secret of row.environment.values()) if (secret && secret.length > 3) text = text.replaceAll(secret, '…')
  return new HarnessError('TREE_CONFIG_INVALID', `the config of ${row.name} is wrong${at}: ${text}`, {
    where: `${place} (row ${row.id})`,
    fix,
  })
}

function pathText(path: readonly PropertyKey[]): string {
  return path.map((key, i) => (typeof key === 'number' ? `[${key}]` : `${i ? '.' : ''}${String(key)}`)).join('')
}

/** Schemastery begins its message with the path, which is said already. */
function withoutPath(message: string, path: readonly PropertyKey[]): string {
  const prefix = `$${typeof path[0] === 'string' ? '.' : ''}${pathText(path)} `
  const text = path.length && message.startsWith(prefix) ? message.slice(prefix.length) : message
  return text.replace('but got undefined', 'but it is missing')
}

function isSchemastery(Config: unknown): Config is Schema {
  return (Config as Record<symbol, unknown> | null)?.[Symbol.for('schemastery')] === true
}

interface Unknown {
  readonly path: readonly PropertyKey[]
  /** The keys that the schema has at that place. */
  readonly known: readonly string[]
}

function unknownKeys(row: Row, Config: Schema): HarnessError[] {
  const found: Unknown[] = []
  walk(Config, row.config, [], found)
  return found.map(({ path, known }) => {
    const key = String(path.at(-1))
    const meant = nearest(key, known)
    const place = path.length > 1 ? ` at ${pathText(path.slice(0, -1))}` : ''
    const keys = known.length ? `the keys are ${known.join(', ')}` : 'it takes no keys'
    return new HarnessError('TREE_CONFIG_KEY_UNKNOWN', `the config of ${row.name} has no key \`${key}\`${place}`, {
      where: `${row.locate(path).place} (row ${row.id})`,
      fix: meant ? `did you mean \`${meant}\`?` : keys,
    })
  })
}

function walk(schema: Schema, data: unknown, path: readonly PropertyKey[], found: Unknown[]): void {
  if (typeof data !== 'object' || data === null || schema.meta?.loose) return
  const inner = innerOf(schema)
  if (inner) {
    walk(inner, data, path, found)
  } else if (schema.type === 'union') {
    walkUnion(schema, data, path, found)
  } else if (schema.type === 'array' || schema.type === 'dict') {
    for (const [key, item] of entriesOf(data)) walk(schema.inner!, item, [...path, key], found)
  } else if (schema.type === 'tuple') {
    for (const [key, item] of entriesOf(data)) {
      const member = schema.list![key as number]
      if (member) walk(member, item, [...path, key], found)
    }
  } else {
    const known = knownKeys(schema)
    if (known) walkObject(known, data, path, found)
  }
}

function walkObject(known: Map<string, Schema>, data: object, path: readonly PropertyKey[], found: Unknown[]) {
  for (const [key, item] of Object.entries(data)) {
    const inner = known.get(key)
    if (inner) walk(inner, item, [...path, key], found)
    else found.push({ path: [...path, key], known: [...known.keys()] })
  }
}

/** A union is judged by that of its members which the data fits best. */
function walkUnion(schema: Schema, data: object, path: readonly PropertyKey[], found: Unknown[]) {
  const attempts = schema
    .list!.filter(member => !('issues' in member['~standard'].validate(copyData(data))))
    .map(member => {
      const misses: Unknown[] = []
      walk(member, data, path, misses)
      return misses
    })
  found.push(...(attempts.sort((a, b) => a.length - b.length)[0] ?? []))
}

function entriesOf(data: object): [PropertyKey, unknown][] {
  return Array.isArray(data) ? data.map((item, index) => [index, item]) : Object.entries(data)
}

/** The keys of an object schema, or of an intersection of such; undefined when the schema does not name its keys. */
function knownKeys(schema: Schema, nested = false): Map<string, Schema> | undefined {
  if (schema.meta?.loose) return undefined
  if (schema.type === 'object') return new Map(Object.entries(schema.dict!) as [string, Schema][])
  const wrapped = innerOf(schema)
  if (wrapped) return knownKeys(wrapped, nested)
  if (schema.type !== 'intersect' && !(schema.type === 'union' && nested)) return undefined
  const keys = new Map<string, Schema>()
  for (const member of schema.list!) {
    const own = knownKeys(member, true)
    if (!own) return undefined
    for (const [key, inner] of own) keys.set(key, inner)
  }
  return keys
}

/** What a lazy schema or a transformation wraps. */
function innerOf(schema: Schema): Schema | undefined {
  if (schema.type === 'lazy') return schema.builder?.() as Schema | undefined
  return schema.type === 'transform' ? schema.inner : undefined
}

/** A copy of maps and lists; whatever else an expression may have answered is shared. */
export function copyData<T>(data: T): T {
  if (Array.isArray(data)) return data.map(copyData) as T
  if (typeof data !== 'object' || data === null || Object.getPrototypeOf(data) !== Object.prototype) return data
  return Object.fromEntries(Object.entries(data).map(([key, value]) => [key, copyData(value)])) as T
}
