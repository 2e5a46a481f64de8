/** Finds a provider package of the user's, and the language models in it. */

import { type Context, errorMessage, workingFolder } from '@cambium/core'
// The types of `fiber.entry`.
import type {} from '@cambium/loader'
import { LlmError } from '../web/failure.ts'
import { isRecord } from '../web/value.ts'
import { type LanguageModel, VERSIONS } from './language-model.ts'

export interface PackageSettings {
  readonly provider: string
  readonly package: string
  /** The name of its factory, where there is more than one. */
  readonly create?: string | undefined
}

type Factory = (options: Record<string, unknown>) => unknown

/**
 * The file from which the package is looked up: the tree's that has the row. The folder that the process works in is
 * somebody's project, and its packages are not what the user has installed for us; it counts where there is no tree.
 */
export function treeFileOf(ctx: Context): string {
  for (let fiber = ctx.fiber; ; fiber = fiber.parent.fiber) {
    if (fiber.entry) return fiber.entry.row.from
    if (fiber === fiber.parent.fiber) return `${workingFolder()}/`
  }
}

/** @throws LlmError in a sentence with what to do: the package or its factory is not there */
export async function loadFactory(settings: PackageSettings, from: string): Promise<Factory> {
  const { package: specifier, create, provider } = settings
  const { resolveModule } = await import('@cambium/loader')
  const found = await resolveModule(specifier, from)
  if ('problem' in found) {
    const isFile = /^(\.{0,2}\/|file:)/.test(specifier)
    const name = specifier.split('/', specifier.startsWith('@') ? 2 : 1).join('/')
    throw unusable(
      isFile ? found.problem : `the package ${specifier} of the provider ${provider} is not installed`,
      isFile ? found.fix : `run npm i ${name} in ${from.replace(/[\\/][^\\/]*$/, '')}`,
    )
  }
  let exports: unknown
  try {
    exports = await import(found.url)
  } catch (error) {
    throw unusable(
      `the package ${specifier} of the provider ${provider} cannot be loaded: ${errorMessage(error)}`,
      'install a version that works with this Node',
      error,
    )
  }
  return factoryIn(exports, create, specifier)
}

function factoryIn(exports: unknown, wanted: string | undefined, specifier: string): Factory {
  // What was compiled to CommonJS may have it all below its default export.
  const inner = isRecord(exports) && isRecord(exports['default']) ? exports['default'] : {}
  const all = new Map(Object.entries({ ...inner, ...(isRecord(exports) ? exports : namespaceOf(exports)) }))
  if (wanted !== undefined) {
    const named = all.get(wanted)
    if (typeof named === 'function') return named as Factory
    throw unusable(`the package ${specifier} exports no function ${wanted}`, `set create to one of ${namesOf(all)}`)
  }
  const factories = [...all].filter(([name, value]) => /^create[A-Z]/.test(name) && typeof value === 'function')
  const [first, ...others] = factories
  if (first && !others.length) return first[1] as Factory
  if (first) {
    const names = factories.map(([name]) => name).join(', ')
    throw unusable(`the package ${specifier} has several factories: ${names}`, 'say which one by `create`')
  }
  throw unusable(
    `the package ${specifier} exports no factory that begins with create, so it is no provider of the AI SDK`,
    `correct \`package\`, or set create to one of ${namesOf(all)}`,
  )
}

const namespaceOf = (value: unknown) =>
  value === null || value === undefined ? {} : (value as Record<string, unknown>)

const namesOf = (all: ReadonlyMap<string, unknown>): string =>
  [...all].flatMap(([name, value]) => (typeof value === 'function' ? [name] : [])).join(', ') || '(it has no functions)'

/** @throws LlmError for what is no provider, and for a version of the interface that is not known here */
export function languageModel(provider: unknown, model: string, specifier: string): LanguageModel {
  const made = modelOf(provider, model)
  const version: unknown = made?.specificationVersion
  if (typeof made?.doStream !== 'function') {
    throw unusable(`what ${specifier} creates has no language models`, 'correct `package` or `create`')
  }
  if (VERSIONS.some(known => known === version)) return made as unknown as LanguageModel
  const old = typeof version !== 'string' || version === 'v1'
  throw unusable(
    `${specifier} speaks version ${typeof version === 'string' ? version : 'v1'} of the AI SDK's provider interface; ${VERSIONS.join(', ')} are known here`,
    old ? `install a newer ${specifier}: those made for AI SDK 5 and later` : `install an older ${specifier}`,
  )
}

interface Candidate {
  readonly specificationVersion?: unknown
  readonly doStream?: unknown
}

function modelOf(provider: unknown, model: string): Candidate | undefined {
  if (provider === null || (typeof provider !== 'object' && typeof provider !== 'function')) return undefined
  const { languageModel: make } = provider as { languageModel?: (id: string) => unknown }
  let made: unknown
  if (typeof make === 'function') made = make.call(provider, model)
  else if (typeof provider === 'function') made = (provider as (id: string) => unknown)(model)
  return made as Candidate | undefined
}

function unusable(message: string, fix: string, cause?: unknown): LlmError {
  return new LlmError({ code: 'NO_ADAPTER', message, fix }, cause)
}
