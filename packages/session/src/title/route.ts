/** Which model names a session. */

import type { LlmCallConfig, LlmService, ModelInfo, Route } from '@cambium/llm'

/** How a title is asked for, or undefined when there is no model to spare. */
export async function titleConfig(
  llm: LlmService,
  used: Route | undefined,
  named: string | undefined,
): Promise<LlmCallConfig | undefined> {
  if (named !== undefined) {
    const { route } = await llm.resolve(named)
    return thrifty(route, llm.modelInfo(route))
  }
  if (!used) return undefined
  const provider = llm.list().find(one => one.provider === used.provider)
  // A server on this machine would let the conversation wait; a demo has no title to give.
  if (provider?.kind !== 'remote') return undefined
  const own = llm.modelInfo(used)
  // Of a server behind an address of one's own nothing is known, neither its price nor that it has another model.
  if (!own?.price && !own?.contextWindow) return undefined
  const [cheapest] = provider.models.filter(({ price }) => price).sort((a, b) => costOf(a) - costOf(b))
  const info = cheapest && costOf(cheapest) < costOf(own) ? cheapest : own
  return thrifty({ provider: used.provider, model: info.id }, info)
}

/** Of a title: some hundred tokens in, a few out. */
function costOf({ price }: ModelInfo): number {
  return price ? price.input * 10 + price.output : Number.POSITIVE_INFINITY
}

/** With as little thought as the model has; what it cannot leave out needs room, or there would be no title. */
function thrifty({ provider, model }: Route, info: ModelInfo | undefined): LlmCallConfig {
  const { efforts = [] } = info ?? {}
  const effort = ['none', 'minimal', 'low'].find(word => efforts.includes(word))
  const thinks = efforts.length > 0 && effort !== 'none'
  return { provider, model, maxTokens: thinks ? 1_500 : 60, ...(effort ? { effort } : {}) }
}
