/** Runs a plugin so that its failure carries the row's place and is reported exactly once. */

import { type Context, errorMessage, HarnessError, isHarnessError, type Plugin, Service } from '@cambium/core'
import type { Row } from '../file/row.ts'
import type { LoadedPlugin } from '../modules/module.ts'
import { ownFrame } from '../modules/stack.ts'

/** Cordis logs what a plugin throws. An aggregate of nothing is logged as nothing: the tree reports by itself. */
class Reported extends AggregateError {
  constructor() {
    super([], 'reported by the tree')
  }
}

const initHooks = Symbol.for('cordis.initHooks')

export interface Watch {
  /** Told of a failure, each time the plugin is started. */
  readonly failed: (error: HarnessError) => void
  /** Told how long a start took, in milliseconds. */
  readonly started: (ms: number) => void
  /** Once given up, nobody waits for the start any more, so that what it holds already can be disposed. */
  readonly given: AbortSignal
}

/**
 * A plugin that runs `loaded` for `row`.
 *
 * What the plugin returns becomes an effect of it. Cordis drops what a plain `function apply` returns and takes any
 * other value for a mistake; here a function is a disposer, also one of a list or a generator; a promise is awaited; other
 * values are of no account.
 */
export function guarded(row: Row, loaded: LoadedPlugin, { failed, started, given }: Watch): Plugin.Object {
  const fail = (error: unknown): never => {
    failed(explainFailure(row, loaded, error))
    throw new Reported()
  }
  return {
    name: loaded.name ?? row.id,
    ...(loaded.Config && { Config: loaded.Config }),
    inject: neededBy(loaded.inject, row.inject),
    // An arrow function: cordis would call anything with a prototype as a constructor.
    apply: (ctx, config) => {
      const begun = performance.now()
      const done = () => started(performance.now() - begun)
      try {
        const starting = settle(ctx, start(loaded.plugin, ctx, config), fail)
        if (!starting) return done()
        return Promise.race([starting.then(done), whenAborted(given)])
      } catch (error) {
        return error instanceof Reported ? Promise.reject(error) : fail(error)
      }
    },
  }
}

/** The services that a plugin and its row ask for; where the row says nothing of the intercept, the plugin's stays. */
export function neededBy(inject: Plugin['inject'], more: Row['inject']): Record<string, unknown> {
  const needs = injectMap(inject)
  for (const [name, config] of Object.entries(more)) needs[name] = config ?? needs[name] ?? null
  return needs
}

/** The services that a plugin's `inject` names, as a map to intercept config or null. */
function injectMap(inject: Plugin['inject']): Record<string, unknown> {
  if (!inject) return {}
  if (Array.isArray(inject)) return Object.fromEntries(inject.map(name => [name, null]))
  const names: Record<string, unknown> = {}
  // Classes inherit what their parents inject.
  for (const name in inject) names[name] = (inject as Record<string, unknown>)[name] ?? null
  return names
}

function start(plugin: Plugin, ctx: Context, config: unknown): unknown {
  if (typeof plugin !== 'function') return plugin.apply(ctx, config)
  if (!isClass(plugin)) return (plugin as Plugin.Function)(ctx, config)
  const instance = new (plugin as Plugin.Constructor)(ctx, config)
  for (const hook of instance?.[initHooks] ?? []) hook()
  return instance?.[Service.init]?.()
}

function isClass(plugin: Plugin.Function | Plugin.Constructor): boolean {
  if (/^class\b/.test(Function.prototype.toString.call(plugin))) return true
  const prototype = (plugin as { prototype?: object }).prototype
  return prototype !== undefined && Object.getOwnPropertyNames(prototype).some(name => name !== 'constructor')
}

type Fail = (error: unknown) => never

/** Takes disposers over as effects, which are bounded when they run, and waits for promises. */
function settle(ctx: Context, result: unknown, fail: Fail): Promise<void> | undefined {
  own(ctx, result)
  if (typeof result !== 'object' || result === null) return undefined
  if ('then' in result) return Promise.resolve(result).then(value => own(ctx, value), fail)
  if (Symbol.iterator in result) {
    for (const item of result as Iterable<unknown>) own(ctx, item)
    return undefined
  }
  if (Symbol.asyncIterator in result) return settleEach(ctx, result as AsyncIterable<unknown>, fail)
  return undefined
}

async function settleEach(ctx: Context, results: AsyncIterable<unknown>, fail: Fail): Promise<void> {
  try {
    for await (const item of results) own(ctx, item)
  } catch (error) {
    if (error instanceof Reported) throw error
    fail(error)
  }
}

function own(ctx: Context, result: unknown) {
  if (typeof result !== 'function') return
  // A start that was given up may still end, and bring a disposer that nobody would call.
  if (ctx.fiber.uid === null) result()
  else ctx.effect(() => result as () => void, 'apply()')
}

function whenAborted(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    if (signal.aborted) reject(new Reported())
    else signal.addEventListener('abort', () => reject(new Reported()), { once: true })
  })
}

function explainFailure(row: Row, loaded: LoadedPlugin, error: unknown): HarnessError {
  const where = `${row.at} (row ${row.id})`
  if (isHarnessError(error)) {
    if (error.where?.includes(row.at)) return error
    const { code, problem, fix, cause } = error
    return new HarnessError(code, problem, { where: error.where ? `${where}: ${error.where}` : where, fix, cause })
  }
  const frame = ownFrame(error)
  const service = /^cannot get property "(\w+)" without inject/.exec(errorMessage(error))?.[1]
  return new HarnessError('TREE_APPLY_FAILED', `${loaded.name ?? row.name} failed to start: ${errorMessage(error)}`, {
    where: frame ? `${where}, ${frame}` : where,
    fix: service
      ? `add '${service}' to the plugin's \`inject\`, or \`inject: [${service}]\` to the row`
      : 'correct the plugin or its config, or set `disabled: true` or `required: false` on the row',
    cause: error,
  })
}
