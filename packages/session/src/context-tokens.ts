/** How full the context is: the size of a session's next request, from its log. */

import type { Measurement, MeterAnchor, Route, TokenMeter, ToolSchema } from '@cambium/llm'
import { isIntact } from './core-types.ts'
import type { SessionEvent, SessionEventMap } from './event.ts'
import type { Session } from './session.ts'
import { Surface } from './surface.ts'

/** How the next request is made, where that differs from the last one in the log. */
export interface NextRequest {
  readonly route?: Route
  readonly system?: string
  readonly tools?: readonly ToolSchema[]
}

type Header = SessionEventMap['request/header']

/** What the log has told as far as `next`. */
interface Fold {
  next: number
  readonly surface: Surface
  header: Header | undefined
  /** The last answer that was counted, with what had been sent for it. */
  anchor: MeterAnchor | undefined
}

/** Counted answers of an older log that teach a meter which has not met their model. */
const LESSONS = 9

const folds = new WeakMap<Session, Fold>()

/**
 * Input tokens of a session's next request: what compaction and a view of the context go by. It rests on the last answer
 * that the provider counted, whatever was streamed, failed or replaced since, and estimates only what came after it;
 * right after `resume` and `context/replaced` too. `meter` is `ctx.llm.meter`. Costs what is new in the log, so that it
 * may be asked at every step.
 */
export function contextTokens(session: Session, meter: TokenMeter, next: NextRequest = {}): Measurement {
  const { header, anchor } = settle(session, meter)
  const system = 'system' in next ? next.system : header?.system
  const tools = next.tools ?? header?.tools ?? []
  return meter.measure({
    route: next.route ?? header?.config ?? { provider: '', model: '' },
    ...(system === undefined ? {} : { system }),
    tools,
    messages: session.deriveMessages(),
    anchor,
  })
}

function settle(session: Session, meter: TokenMeter): Fold {
  let fold = folds.get(session)
  if (!fold) {
    fold = { next: 0, surface: new Surface(), header: undefined, anchor: undefined }
    folds.set(session, fold)
  }
  if (fold.next === session.seq) return fold
  const events = session.events(fold.next).filter(isIntact)
  // What this process has sent itself it has learnt from already.
  const lessons = fold.next === 0 ? LESSONS : 1
  const counted = new Set(events.filter(isCounted).slice(-lessons))
  const strange = new Set<string>()
  for (const event of events) {
    if (event.type === 'request/header') fold.header = event.data
    if (event.type === 'assistant/message' && counted.has(event)) {
      const anchor = anchorOf(fold, event)
      if (anchor) {
        fold.anchor = anchor
        const { route, usage } = anchor
        const name = `${route.provider}/${route.model}`
        if (!meter.knows(route)) strange.add(name)
        if (strange.has(name)) meter.learn(route, anchor, usage)
      }
    }
    fold.surface.add(event)
  }
  fold.next = session.seq
  return fold
}

function isCounted(event: SessionEvent): boolean {
  if (event.type !== 'assistant/message' || !event.data.usage) return false
  const { inputTokens, cacheReadTokens, cacheWriteTokens } = event.data.usage
  return inputTokens + cacheReadTokens + cacheWriteTokens > 0
}

function anchorOf({ header, surface }: Fold, { data }: SessionEvent<'assistant/message'>): MeterAnchor | undefined {
  const { usage, message } = data
  if (!header || !usage) return undefined
  const { config, system, tools } = header
  const { provider, model } = config
  return {
    route: { provider, model },
    ...(system === undefined ? {} : { system }),
    ...(tools === undefined ? {} : { tools }),
    messages: surface.deriveMessages(),
    usage,
    answer: message,
  }
}
