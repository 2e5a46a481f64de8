/** Which tools there are and which a scope sees: the one resolver behind showing, finding and running. */

import {
  type Context,
  HarnessError,
  type JsonObject,
  nearest,
  rowOf,
  ScopedRegistry,
  type ScopeKey,
  scopeChain,
  scopeOf,
  sleep,
} from '@cambium/core'
import type { ToolSchema } from '@cambium/llm'
import type { ToolDefinition, ToolExecution } from './definition.ts'
import { snapshot } from './result.ts'
import { ScopedList } from './scoped-list.ts'
import type { ToolFilter } from './service.ts'
import { isObject } from './validate.ts'

/** A body that runs now. */
export interface Running {
  /** Settles with the body; never rejects. */
  readonly ended: Promise<unknown>
  abort(reason: unknown): void
  /** Set when its plugin goes. `asking`: it waits for that itself, and nobody waits for it. `late`: it had its time. */
  leaving?: 'asking' | 'late'
}

export interface Offer {
  readonly definition: ToolDefinition
  /** The part that a model sees, frozen when it was registered. */
  readonly schema: ToolSchema
  /** The id of the row that offers it. */
  readonly row: string | undefined
  readonly running: Set<Running>
}

interface View {
  readonly chain: readonly ScopeKey[]
  readonly version: number
  readonly offers: ReadonlyMap<string, Offer>
  readonly schemas: readonly ToolSchema[]
}

export type Guard = (exec: ToolExecution) => string | undefined

/** After a body was told to stop because its plugin goes, it gets this long to do so. */
const STOP_MS = 1_000

export class Catalogue {
  readonly guards = new ScopedList<Guard>()
  /** Of all scopes. */
  readonly offers = new Set<Offer>()
  private readonly registry: ScopedRegistry<Offer>
  private readonly filters: ScopedList<ToolFilter>
  private readonly views = new WeakMap<ScopeKey, View>()
  private readonly none = {}
  private readonly drainMs: number
  private version = 0

  constructor(drainMs: number, changed: () => void) {
    this.drainMs = drainMs
    const bump = () => {
      this.version++
      changed()
    }
    this.registry = new ScopedRegistry({ noun: 'tool', duplicateCode: 'TOOL_DUPLICATE', changed: bump })
    this.filters = new ScopedList(bump)
  }

  register(ctx: Context, definition: ToolDefinition): () => void {
    const schema = readSchema(ctx, definition)
    const offer: Offer = { definition, schema, row: rowOf(ctx)?.id, running: new Set() }
    // Disposers run last-acquired first: the tool goes, then its running calls end, then what the plugin opened before.
    const ended = ctx.effect(() => () => this.drain(offer), `calls of ${definition.name}`) as unknown as () => void
    try {
      const leave = this.registry.register(ctx, definition.name, offer)
      this.offers.add(offer)
      return () => {
        leave()
        ended()
      }
    } catch (error) {
      ended()
      throw error
    }
  }

  private drain(offer: Offer): Promise<void> | undefined {
    this.offers.delete(offer)
    const { definition, running } = offer
    const calls = [...running].filter(({ leaving }) => leaving !== 'asking')
    if (!calls.length) return undefined
    const all = Promise.all(calls.map(call => call.ended))
    return (async () => {
      const late = calls.every(({ leaving }) => leaving === 'late')
      if (!late && (await endsWithin(all, this.drainMs))) return
      const reason = new HarnessError('TOOL_WITHDRAWN', `tool "${definition.name}" was unloaded while it ran`)
      for (const call of calls) call.abort(reason)
      await endsWithin(all, STOP_MS)
    })()
  }

  restrict(ctx: Context, filter: ToolFilter): () => void {
    const scope = scopeOf(ctx)
    const plugin = ctx.fiber.name
    if (!scope) {
      throw new HarnessError('TOOL_RESTRICT_GLOBAL', 'tools can be restricted for a scope only, not for everybody', {
        where: plugin,
        fix: 'call agent.ctx.tools.restrict(…), or disable the row that offers the tool',
      })
    }
    const { allow, deny } = filter
    if (!allow && !deny) {
      throw new HarnessError('TOOL_INVALID', 'a restriction needs allow or deny', {
        where: plugin,
        fix: 'pass { allow: [names] }, { deny: [names] } or both; an empty allow hides every inherited tool',
      })
    }
    // Against everything above the scope, hidden or not: what a parent may not use can still be named, and stays hidden.
    const known = [...this.registry.entries(scopeChain(scope)[1]).keys()]
    for (const name of [...(allow ?? []), ...(deny ?? [])]) {
      if (known.includes(name)) continue
      const own = this.registry.own(scope).includes(name)
      const meant = nearest(name, known)
      throw new HarnessError('TOOL_UNKNOWN', `there is no inherited tool "${name}" to restrict`, {
        where: plugin,
        fix: own
          ? "leave it out: a scope's own tools are never restricted by it"
          : meant
            ? `did you mean "${meant}"?`
            : `known are: ${known.join(', ') || 'none'}`,
      })
    }
    const copy = { ...(allow ? { allow: [...allow] } : {}), ...(deny ? { deny: [...deny] } : {}) }
    return this.filters.add(ctx, copy, 'tool restriction')
  }

  view(scope: ScopeKey | undefined): View {
    const key = scope ?? this.none
    const chain = scopeChain(scope)
    const known = this.views.get(key)
    if (known && known.version === this.version && known.chain === chain) return known
    const offers = this.resolve(chain)
    const schemas = [...offers.values()].map(offer => offer.schema)
    // What did not change for this scope keeps its identity, so that a request header is not logged anew.
    const same = known && sameItems(known.schemas, schemas)
    const view = {
      chain,
      version: this.version,
      offers,
      schemas: same ? known.schemas : (Object.freeze(schemas) as readonly ToolSchema[]),
    }
    this.views.set(key, view)
    return view
  }

  private resolve(chain: readonly ScopeKey[]): Map<string, Offer> {
    let seen = new Map<string, Offer>(this.ownOf(undefined))
    for (const key of [...chain].reverse()) {
      for (const { allow, deny } of this.filters.own(key)) {
        seen = new Map([...seen].filter(([name]) => (!allow || allow.includes(name)) && !deny?.includes(name)))
      }
      for (const [name, offer] of this.ownOf(key)) seen.set(name, offer)
    }
    return new Map([...seen].sort(([a], [b]) => (a < b ? -1 : 1)))
  }

  private ownOf(scope: ScopeKey | undefined): [string, Offer][] {
    return this.registry.own(scope).map(name => [name, this.registry.get(name, scope)!])
  }
}

async function endsWithin(work: Promise<unknown>, ms: number): Promise<boolean> {
  const stop = new AbortController()
  const ended = await Promise.race([work.then(() => true), sleep(ms, stop.signal).then(() => false)])
  stop.abort()
  return ended
}

function sameItems(a: readonly unknown[], b: readonly unknown[]): boolean {
  return a.length === b.length && a.every((item, i) => item === b[i])
}

const NAME = /^[a-zA-Z0-9_-]{1,64}$/

/** Checks a definition whole, since a broken one must fail where it is offered and not in the middle of a turn. */
function readSchema(ctx: Context, definition: ToolDefinition): ToolSchema {
  const row = rowOf(ctx)
  const where = row ? `${ctx.fiber.name} (${row.at})` : ctx.fiber.name
  const invalid = (problem: string, fix: string, cause?: unknown) =>
    new HarnessError('TOOL_INVALID', problem, { where, fix, cause })
  if (typeof definition !== 'object' || definition === null) {
    throw invalid('a tool definition must be an object', 'pass what defineTool({ … }) returns')
  }
  const { name, description, parameters, output, timeoutMs } = definition
  if (typeof name !== 'string' || !NAME.test(name)) {
    const shown = typeof name === 'string' ? JSON.stringify(name) : String(name)
    throw invalid(`a tool has the name ${shown}`, 'name it with 1 to 64 letters, digits, "_" or "-"')
  }
  const field = (problem: string, fix: string, cause?: unknown) => invalid(`tool "${name}": ${problem}`, fix, cause)
  if (typeof description !== 'string') {
    throw field('description is no string', 'say in a sentence what the tool does')
  }
  if (!isObject(parameters) || parameters['type'] !== 'object') {
    throw field(
      'parameters is no JSON Schema of type object',
      'pass { type: "object", properties: { … } }, or use defineTool',
    )
  }
  if (output !== undefined && !isObject(output))
    throw field('output is no JSON Schema', 'pass an object or leave it out')
  for (const key of ['execute', 'isConcurrencySafe', 'presentCall'] as const) {
    const given = (definition as unknown as Record<string, unknown>)[key]
    if (typeof given === 'function' || (given === undefined && key !== 'execute')) continue
    throw field(
      `${key} is no function`,
      key === 'execute' ? 'give the tool its code' : 'pass a function or leave it out',
    )
  }
  if (timeoutMs !== undefined && !(Number.isFinite(timeoutMs) && timeoutMs > 0)) {
    throw field('timeoutMs is no positive number', 'give milliseconds or leave it out')
  }
  try {
    if (output) snapshot(output, 'output')
    return Object.freeze({ name, description, parameters: snapshot(parameters, 'parameters') as JsonObject })
  } catch (cause) {
    throw field((cause as HarnessError).problem, 'use plain JSON in schemas', cause)
  }
}
