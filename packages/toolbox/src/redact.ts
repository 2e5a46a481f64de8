/** Takes known keys and tokens out of what tools answer, before the model, the log or anybody else sees it. */

import { type Context, type JsonValue, redactJson } from '@cambium/core'
import type { PostToolDecision, ToolResult } from '@cambium/tools'

export const name = 'toolbox-redact'

export function apply(ctx: Context) {
  // Outermost: what another listener puts in the place of a result is looked at as well.
  ctx.on('tools/post-execute', async (_exec, result, next) => redacted(await next(), result), { prepend: true })
}

function redacted(decision: PostToolDecision, result: ToolResult): PostToolDecision {
  const { contexts } = decision
  const shared = contexts ? { contexts: contexts.map(clean) } : {}
  if (decision.kind === 'block') return { ...decision, ...shared, feedback: clean(decision.feedback) }
  const value = decision.value ?? result.value
  // A new value without content is rendered when it is accepted.
  const content = decision.content ?? (decision.value === undefined ? result.content : undefined)
  const meta = decision.meta ?? result.meta
  const shown = { value: clean(value), content: clean(content), meta: clean(meta) }
  if (shown.value === value && shown.content === content && shown.meta === meta) return { ...decision, ...shared }
  return {
    ...decision,
    ...shared,
    ...(shown.content === undefined ? {} : { content: shown.content }),
    ...(shown.meta === undefined ? {} : { meta: shown.meta }),
    // The rest of what a failed call says stands in its content.
    ...(shown.value === undefined || result.isError ? {} : { value: shown.value }),
  }
}

/** Messages and blocks are data like any other. */
const clean = <T>(data: T): T => redactJson(data as JsonValue | undefined) as T
