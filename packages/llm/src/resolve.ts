/** From what a person calls a model to a route. */

import { HarnessError, nearest } from '@cambium/core'
import type { LlmAdapter } from './adapter.ts'
import type { LlmFailure, Route } from './stream.ts'
import { toFailure } from './web/failure.ts'

type Adapters = ReadonlyMap<string, LlmAdapter>
type Resolved = { route: Route; notice?: string }

/** What a model server on this machine may take to say that it is there. */
const LOCAL_MS = 300
/** What a named provider may take to say what it has. */
const DISCOVER_MS = 2_000

export async function resolveRoute(selection: string, adapters: Adapters): Promise<Resolved> {
  const wanted = selection.trim()
  if (!wanted || wanted === 'auto') return choose(adapters)
  const slash = wanted.indexOf('/')
  const provider = slash < 0 ? wanted : wanted.slice(0, slash)
  const model = slash < 0 ? '' : wanted.slice(slash + 1)
  const adapter = adapters.get(provider)
  if (!adapter) return byModel(wanted, adapters)
  if (model) return { route: { provider, model } }
  const found = await defaultModel(adapter, DISCOVER_MS)
  if (found.model) return { route: { provider, model: found.model } }
  const { failure } = found
  if (!failure) {
    throw new HarnessError('LLM_UNKNOWN_ROUTE', `${provider} names no model of its own`, {
      fix: `say which one: ${provider}/<model>`,
    })
  }
  const fix = failure.fix ? `${failure.fix}, or say which one: ${provider}/<model>` : `say which: ${provider}/<model>`
  throw new HarnessError('LLM_UNKNOWN_ROUTE', `${provider} does not say which models it has: ${failure.message}`, {
    fix,
  })
}

/** A model's name without its provider: the first provider that lists it, one with a credential before the others. */
function byModel(wanted: string, adapters: Adapters): Resolved {
  const offers = [...adapters].filter(([, adapter]) => adapter.models().some(model => model.id === wanted))
  const [provider] = offers.find(([, adapter]) => adapter.ready()) ?? offers[0] ?? []
  if (provider) return { route: { provider, model: wanted }, notice: `${wanted} is used through ${provider}` }
  const names = [...adapters.keys()]
  const models = [...adapters].flatMap(([name, adapter]) => adapter.models().map(model => `${name}/${model.id}`))
  const slash = wanted.indexOf('/')
  const near = nearest(slash < 0 ? wanted : wanted.slice(0, slash), names)
  const meant = near ? near + (slash < 0 ? '' : wanted.slice(slash)) : nearModel(wanted, models)
  const known = names.length ? `known providers: ${names.join(', ')}` : 'mount an adapter, such as @cambium/llm/openai'
  const problem = `no provider is called "${slash < 0 ? wanted : wanted.slice(0, slash)}"`
  if (meant) throw new HarnessError('LLM_UNKNOWN_ROUTE', problem, { fix: `did you mean ${meant}? ${known}` })
  const model = slash < 0 ? ', nor a model that is known without asking' : ''
  throw new HarnessError('LLM_UNKNOWN_ROUTE', problem + model, { fix: `write <provider>/<model>; ${known}` })
}

function nearModel(wanted: string, models: readonly string[]): string | undefined {
  const ids = models.map(model => model.slice(model.indexOf('/') + 1))
  const id = nearest(wanted, ids)
  return id === undefined ? undefined : models[ids.indexOf(id)]
}

async function choose(adapters: Adapters): Promise<Resolved> {
  for (const [provider, adapter] of adapters) {
    if (adapter.kind !== 'remote' || !adapter.ready()) continue
    const { model } = await defaultModel(adapter, DISCOVER_MS)
    if (model) return { route: { provider, model } }
  }
  const locals = [...adapters].filter(([, adapter]) => adapter.kind === 'local')
  const answers = await Promise.all(locals.map(([, adapter]) => defaultModel(adapter, LOCAL_MS)))
  for (const [index, [provider]] of locals.entries()) {
    const model = answers[index]?.model
    if (model)
      return { route: { provider, model }, notice: `no key is set, so ${provider}/${model} on this machine is used` }
  }
  const fix = firstFix(adapters) ?? 'mount an adapter with a key'
  for (const [provider, adapter] of adapters) {
    if (adapter.kind !== 'demo') continue
    const model = adapter.models()[0]?.id ?? 'demo'
    return {
      route: { provider, model },
      notice: `no key is set, so the scripted demo model answers; for a real one ${fix}`,
    }
  }
  throw new HarnessError(
    'LLM_MISSING_CREDENTIAL',
    'no model can be used: no key is set and no local model server answers',
    {
      fix: `${fix} (or the key of another provider), start Ollama or LM Studio, or name a model with provider/model`,
    },
  )
}

function firstFix(adapters: Adapters): string | undefined {
  for (const adapter of adapters.values()) {
    const fix = adapter.credentialFix()
    if (fix) return fix
  }
  return undefined
}

/** What is taken when nobody names one; where that is not known and nobody tells, why. */
async function defaultModel(adapter: LlmAdapter, ms: number): Promise<{ model?: string; failure?: LlmFailure }> {
  const known = adapter.kind === 'local' ? undefined : adapter.defaultModel()
  if (known) return { model: known }
  try {
    const models = await adapter.discover(AbortSignal.timeout(ms))
    return models[0] ? { model: models[0].id } : {}
  } catch (error) {
    // It does not answer: what it is known to have is the next best, and for a local one that is nothing.
    const [next] = adapter.kind === 'local' ? [] : adapter.models()
    return next ? { model: next.id } : { failure: toFailure(error) }
  }
}
