/** How a tool's parameters are written down in code, the types that follow, and the JSON Schema that a model reads. */

import { HarnessError, type JsonObject, type JsonValue } from '@cambium/core'

interface Notes {
  readonly description?: string
  readonly title?: string
  readonly examples?: readonly JsonValue[]
  /** What the tool's code gets when the model leaves the property out or gives null for it. Makes it present in the type. */
  readonly default?: JsonValue
}

export interface StringSpec extends Notes {
  readonly type: 'string'
  readonly enum?: readonly string[]
  readonly const?: string
  readonly minLength?: number
  readonly maxLength?: number
  /** A regular expression, not anchored, as JSON Schema has it. */
  readonly pattern?: string
}

export interface NumberSpec extends Notes {
  readonly type: 'number' | 'integer'
  readonly enum?: readonly number[]
  readonly const?: number
  readonly minimum?: number
  readonly maximum?: number
}

export interface BooleanSpec extends Notes {
  readonly type: 'boolean'
  readonly const?: boolean
}

export interface NullSpec extends Notes {
  readonly type: 'null'
}

export interface ArraySpec extends Notes {
  readonly type: 'array'
  readonly items?: ValueSpec
  readonly minItems?: number
  readonly maxItems?: number
}

export interface ObjectSpec extends Notes {
  readonly type: 'object'
  readonly properties?: ParameterMap
  /** False refuses unknown keys, a spec checks them; otherwise they are let through. */
  readonly additionalProperties?: boolean | ValueSpec
}

/** Any JSON value. */
export interface JsonSpec extends Notes {
  readonly type: 'json'
}

/** Exactly one of the forms. */
export interface OneOfSpec extends Notes {
  readonly oneOf: readonly ValueSpec[]
}

export type ValueSpec = StringSpec | NumberSpec | BooleanSpec | NullSpec | ArraySpec | ObjectSpec | JsonSpec | OneOfSpec

export type ParameterSpec = ValueSpec & { readonly required?: boolean }

/** Property name → spec. A property without `required: true` may be left out. */
export interface ParameterMap {
  readonly [name: string]: ParameterSpec
}

type Simplify<T> = { [K in keyof T]: T[K] }

type PresentKey<P> = {
  [K in keyof P]: P[K] extends { readonly required: true } | { readonly default: JsonValue } ? K : never
}[keyof P]

/** The arguments that a parameter map admits, defaults filled in. A map known only by its type admits any object. */
export type InferArguments<P> = string extends keyof P
  ? JsonObject
  : Simplify<
      { readonly [K in PresentKey<P>]: InferValue<P[K]> } & {
        readonly [K in Exclude<keyof P, PresentKey<P>>]?: InferValue<P[K]>
      }
    >

type InferObject<S> = S extends { readonly properties: infer P }
  ? S extends { readonly additionalProperties: infer A extends ValueSpec }
    ? InferArguments<P> & { readonly [key: string]: InferValue<A> | InferArguments<P>[keyof InferArguments<P>] }
    : InferArguments<P>
  : S extends { readonly additionalProperties: infer A extends ValueSpec }
    ? { readonly [key: string]: InferValue<A> }
    : JsonObject

/** The value that a spec admits. */
export type InferValue<S> = [ValueSpec] extends [S] ? JsonValue : InferOne<S>

type InferOne<S> = S extends { readonly const: infer C }
  ? C
  : S extends { readonly enum: readonly (infer E)[] }
    ? E
    : S extends { readonly oneOf: readonly (infer B)[] }
      ? InferValue<B>
      : S extends { readonly type: 'string' }
        ? string
        : S extends { readonly type: 'number' | 'integer' }
          ? number
          : S extends { readonly type: 'boolean' }
            ? boolean
            : S extends { readonly type: 'null' }
              ? null
              : S extends { readonly type: 'array' }
                ? S extends { readonly items: infer I }
                  ? readonly InferValue<I>[]
                  : readonly JsonValue[]
                : S extends { readonly type: 'object' }
                  ? InferObject<S>
                  : JsonValue

type Mutable = Record<string, JsonValue>

/** The JSON Schema of a parameter map. @throws `TOOL_INVALID` naming the parameter */
export function parametersSchema(parameters: ParameterMap, additionalProperties?: boolean): JsonObject {
  const schema = objectSchema({ type: 'object', properties: parameters }, 'parameters')
  return additionalProperties === undefined ? schema : { ...schema, additionalProperties }
}

/** The JSON Schema of one value. @throws `TOOL_INVALID` */
export function valueSchema(spec: ValueSpec, at: string): JsonObject {
  if (typeof spec !== 'object' || spec === null) throw invalid(at, 'must be an object such as { type: "string" }')
  if ('oneOf' in spec) {
    if (!Array.isArray(spec.oneOf) || spec.oneOf.length < 2) throw invalid(at, 'has a oneOf with fewer than two forms')
    return { ...notes(spec), oneOf: spec.oneOf.map((form, i) => valueSchema(form, `${at}.oneOf[${i}]`)) }
  }
  switch (spec.type) {
    case 'object':
      return objectSchema(spec, at)
    case 'array':
      return { ...plain(spec), ...(spec.items ? { items: valueSchema(spec.items, `${at}.items`) } : {}) }
    case 'json':
      return notes(spec)
    case 'string':
      if (spec.pattern !== undefined) checkPattern(spec.pattern, at)
      return plain(spec)
    case 'number':
    case 'integer':
    case 'boolean':
    case 'null':
      return plain(spec)
    default:
      throw invalid(at, `has the unknown type ${JSON.stringify((spec as { type?: unknown }).type)}`)
  }
}

function objectSchema(spec: ObjectSpec, at: string): JsonObject {
  const schema: Mutable = plain(spec)
  if (spec.properties) {
    const properties: Mutable = {}
    const required: string[] = []
    for (const [name, property] of Object.entries(spec.properties)) {
      properties[name] = valueSchema(property, `${at}.${name}`)
      if (property.required === true) required.push(name)
    }
    schema['properties'] = properties
    if (required.length) schema['required'] = required
  }
  const rest = spec.additionalProperties
  if (rest !== undefined) {
    schema['additionalProperties'] = typeof rest === 'boolean' ? rest : valueSchema(rest, `${at}.additionalProperties`)
  }
  return schema
}

/** The spec's own scalar keywords; what nests is compiled, and `required` is said by the object around it. */
function plain(spec: ValueSpec): Mutable {
  const { required, properties, items, additionalProperties, ...rest } = spec as unknown as Record<string, JsonValue>
  return defined(rest)
}

function notes(spec: Notes): Mutable {
  const { description, title, examples, default: fallback } = spec
  return defined({ description, title, examples, default: fallback })
}

function defined(object: object): Mutable {
  return Object.fromEntries(Object.entries(object).filter(([, value]) => value !== undefined)) as Mutable
}

function checkPattern(pattern: string, at: string) {
  try {
    new RegExp(pattern, 'u')
  } catch (cause) {
    throw invalid(at, `has a pattern that is no regular expression: ${pattern}`, cause)
  }
}

function invalid(at: string, problem: string, cause?: unknown) {
  return new HarnessError('TOOL_INVALID', `${at} ${problem}`, {
    fix: 'describe each parameter with a type of string, integer, number, boolean, null, array, object or json, or with oneOf',
    cause,
  })
}
