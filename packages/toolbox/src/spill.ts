/** Keeps a result that is too long for the model in a file of its session, and shows its beginning, its end and the place. */

import {
  type Context,
  errorMessage,
  HarnessError,
  isHarnessError,
  type JsonObject,
  type JsonValue,
  redact,
  Service,
} from '@cambium/core'
import type { Session } from '@cambium/session'
import {
  type Agent,
  cleanText,
  type PostToolDecision,
  renderValue,
  type ToolExecution,
  type ToolResult,
} from '@cambium/tools'
import Schema from 'schemastery'
import { slimMeta } from './spill/meta.ts'
import { cutBlocks, cutText, type Kept, textBytes, textOf } from './spill/preview.ts'
import { SpillFolder, type SpillLimits } from './spill/store.ts'

export const name = 'toolbox-spill'
export const inject = ['tools', 'sessions']
export const provide = ['spill']

/** A session's long texts: files that the model can read, that go with the session, and that hold no known secret. */
export interface SpillStore {
  /** Where they lie, for who writes there itself; not made yet. The oldest go when the files of a session become too many. */
  folder(session: Session): string
  /** Keeps a text, or the beginning of one that is too long. @throws `SPILL_FAILED` */
  keep(session: Session, label: string, text: string): Promise<Kept>
}

export interface Config extends SpillLimits {
  maxBytes: number
  headShare: number
  except: string[]
}

export const Config: Schema<Config> = Schema.object({
  maxBytes: Schema.natural()
    .min(8_192)
    .default(50_000)
    .description('Text of one result that the model gets, in bytes, with what is said about the rest'),
  headShare: Schema.percent()
    .default(0.5)
    .description('Which part of what is shown of a longer one is its beginning; the others are its end'),
  except: Schema.array(Schema.string())
    .default(['read'])
    .description(
      'Tools whose results are left as they are: the one that shows the files must not lead to another file',
    ),
  maxFileBytes: Schema.natural()
    .default(64 * 2 ** 20)
    .description('Bound of one file; of a longer text the beginning is kept'),
  maxTotalBytes: Schema.natural()
    .default(512 * 2 ** 20)
    .description('Bound of all files of a session; the oldest give way, and a sentence stays in their place'),
})

declare module 'cordis' {
  interface Context {
    /** Files for what is too long for the model, one folder a session; absent where nothing is kept. */
    spill: SpillStore
  }
}

export function apply(ctx: Context, config: Config) {
  const spill = new SessionSpill(ctx, config)
  const { maxBytes, headShare } = config
  const { tools } = ctx

  const keep = async (exec: ToolExecution, agent: Agent, text: string) => {
    const ways = ['read', 'grep'].filter(tool => tools.get(tool, agent))
    try {
      return { ways, kept: await spill.keepClean(agent.session, exec.name, text) }
    } catch (error) {
      // What the call did is done: it does not fail because its result cannot be stored.
      ctx.logger.warn(`the whole result of tool "${exec.name}" is lost: ${errorMessage(error)}`)
      const why = isHarnessError(error) ? error.problem : errorMessage(error)
      return { ways, lost: why.split('\n', 1)[0]!.slice(0, 300) }
    }
  }

  const bounded = async (exec: ToolExecution, agent: Agent, result: ToolResult, decision: PostToolDecision) => {
    if (decision.kind === 'block') {
      if (textBytes(decision.feedback) <= maxBytes) return decision
      const text = redact(cleanText(decision.feedback))
      return { ...decision, feedback: cutText(text, { maxBytes, headShare, ...(await keep(exec, agent, text)) }) }
    }
    const { value } = decision
    const given = decision.content ?? (value === undefined ? undefined : renderValue(value))
    const content = given ?? result.content
    // Before anything is cut, so that no half of a secret is left. What the tool said is fit for a model already.
    const clean = (text: string) => redact(given ? cleanText(text) : text)
    const meta = decision.meta ?? result.meta
    let blocks = content
    let path: string | undefined
    if (!config.except.includes(exec.name) && textBytes(textOf(content)) > maxBytes) {
      const cleaned = content.map(block => (block.type === 'text' ? { ...block, text: clean(block.text) } : block))
      const text = textOf(cleaned)
      const place = textBytes(text) > maxBytes ? await keep(exec, agent, text) : undefined
      if (place) blocks = cutBlocks(cleaned, { maxBytes, headShare, ...place })
      path = place?.kept?.path
    }
    // The log keeps `meta` beside the content, and `value` nowhere: that one stays whole for whoever called.
    const slim = slimMeta(meta, maxBytes, path)
    if (blocks === content && slim === meta) return decision
    return {
      ...decision,
      ...(blocks === content && decision.content === undefined ? {} : { content: blocks }),
      ...(slim === undefined ? {} : { meta: slim }),
    }
  }

  // Not prepended: `redact` is outside of it, and what stands in a later row within.
  ctx.on('tools/post-execute', async (exec, result, next) => {
    const decision = await next()
    const { agent } = exec
    // What another call has asked for goes to code, and is bounded with what that makes of it.
    if (!agent || exec.parent || !decision) return decision
    const written = spillOf(decision.kind === 'accept' ? (decision.meta ?? result.meta) : undefined)
    if (written) await spill.makeRoom(agent.session, written)
    return bounded(exec, agent, result, decision)
  })
}

/** The file that a tool has written itself. */
function spillOf(meta: JsonValue | undefined): string | undefined {
  const path = typeof meta === 'object' && meta !== null ? (meta as JsonObject)['spill'] : undefined
  return typeof path === 'string' ? path : undefined
}

class SessionSpill extends Service implements SpillStore {
  private readonly limits: SpillLimits
  private readonly base: Context

  constructor(ctx: Context, limits: SpillLimits) {
    super(ctx, 'spill')
    this.base = ctx
    this.limits = limits
  }

  folder(session: Session): string {
    return this.of(session).path
  }

  keep(session: Session, label: string, text: string): Promise<Kept> {
    return this.keepClean(session, label, redact(text))
  }

  /** As `keep`, for a text without secrets. */
  async keepClean(session: Session, label: string, text: string): Promise<Kept> {
    try {
      return await this.of(session).keep(label, text)
    } catch (cause) {
      const why = isHarnessError(cause) ? cause.problem : errorMessage(cause)
      throw new HarnessError('SPILL_FAILED', `it could not be stored: ${why}`, { cause })
    }
  }

  async makeRoom(session: Session, written: string): Promise<void> {
    await this.of(session).makeRoom(written)
  }

  private of(session: Session): SpillFolder {
    return new SpillFolder(this.base.sessions.folder(session), this.limits)
  }
}
