/** Checks a row's config against its plugin's schema, and finds the keys that the schema would silently keep. */

import {
  copyData,
  errorMessage,
  HarnessError,
  isSchemastery,
  nearest,
  type SchemaNode,
  unknownKeys,
} from '@cambium/core'
import type { Row } from '../file/row.ts'
import type { LoadedPlugin } from '../modules/module.ts'

export type CheckedConfig = { readonly config: unknown } | { readonly mistakes: readonly HarnessError[] }

/** The config to mount the plugin with: what the file says, or what stands for nothing there. */
export function checkConfig(row: Row, loaded: LoadedPlugin): CheckedConfig {
  const { Config } = loaded
  if (!Config) return { config: row.config ?? {} }
  const mistakes = isSchemastery(Config) ? unknownIn(row, Config) : []
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
    return invalid(row, keys, withValue(withoutPath(message, keys), config, keys))
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
  let text = path.some(isSecret) ? problem.replace(/ but got .*$/s, '') : problem
  for (const secret of row.environment.values()) if (secret && secret.length > 3) text = text.replaceAll(secret, '…')
  return new HarnessError('TREE_CONFIG_INVALID', `the config of ${row.name} is wrong${at}: ${text}`, {
    where: `${place} (row ${row.id})`,
    fix,
  })
}

/** A key that was written down as a number, or in a list, is a key all the same. */
const isSecret = (key: PropertyKey) => /(?:key|token|secret|password|authorization|cookie)$/i.test(String(key))

function pathText(path: readonly PropertyKey[]): string {
  return path.map((key, i) => (typeof key === 'number' ? `[${key}]` : `${i ? '.' : ''}${String(key)}`)).join('')
}

/** Schemastery begins its message with the path, which is said already. */
function withoutPath(message: string, path: readonly PropertyKey[]): string {
  const prefix = `$${typeof path[0] === 'string' ? '.' : ''}${pathText(path)} `
  const text = path.length && message.startsWith(prefix) ? message.slice(prefix.length) : message
  return text.replace('but got undefined', 'but it is missing')
}

/** Of a text that fits no pattern, schemastery says the pattern alone. */
function withValue(message: string, config: unknown, path: readonly PropertyKey[]): string {
  const [, pattern] = /^expect string to match regexp (.+)$/s.exec(message) ?? []
  if (pattern === undefined) return message
  const value = path.reduce((at, key) => (at as Record<PropertyKey, unknown> | undefined)?.[key], config)
  return `expected a text that matches ${pattern} but got ${JSON.stringify(value)}`
}

function unknownIn(row: Row, Config: SchemaNode): HarnessError[] {
  return unknownKeys(Config, row.config).map(({ path, known }) => {
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
