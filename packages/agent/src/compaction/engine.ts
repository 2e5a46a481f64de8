/** One compaction, from the plan to what came of it. Loaded when it is first needed. */

import { randomUUID } from 'node:crypto'
import { type Context, errorMessage, waterfall } from '@cambium/core'
import type { LlmService, Message, UserBlock, UserMessage } from '@cambium/llm'
import type { SessionEventMap } from '@cambium/session'
import type { Agent } from '@cambium/tools'
import { type Budgets, budgetsFor } from './budgets.ts'
import type {
  CompactionReason,
  CompactionResult,
  CompactionTier,
  Envelope,
  LearnedWindow,
  SpentOnCompaction,
} from './contract.ts'
import { cutFor } from './cuts.ts'
import { keepWhole } from './keep.ts'
import { lastResort } from './last-resort.ts'
import { checkpoint, saidIn } from './pins.ts'
import { type Room, roomOf } from './room.ts'
import type { Settings } from './settings.ts'
import { sizeOf } from './size.ts'
import { SummaryFailed, summarise } from './summariser.ts'
import { type Edit, Survey } from './survey.ts'

export interface Need {
  readonly reason: CompactionReason
  /** What the next request is made with. */
  readonly envelope: Envelope
  /** With what a summary is asked for. */
  readonly writer: Envelope
  readonly room: Room | undefined
  /** What the next request may have at most, so that this was worth while. */
  readonly goal: number
  /** The next request would be refused, or was: something has to be done. */
  readonly must: boolean
  /** A model may be asked. */
  readonly mayAsk: boolean
  /** 1, or more where a shorter request was refused again. */
  readonly level: number
  /** Tokens that the request is known to have at least. */
  readonly least?: number
  readonly learned?: LearnedWindow
  readonly focus?: string
  readonly signal: AbortSignal
}

export interface Outcome extends CompactionResult {
  readonly error?: { readonly code: string; readonly message: string }
  readonly aborted?: true
}

/** Tiers that ask nobody are enough when they leave this share of the goal, so that they do not come again at once. */
const RELIEF = 0.75
/** Less than this share of a request is not worth a summary. */
const LEAST_GAIN = 0.05
const LEAST_SUMMARY = 100
/** Fewer tokens are no matter for a model, whatever a provider says that they come to. */
const LEAST_HEAD = 250
/** What a person asks to be summed up keeps this share of the messages, however large the window is. */
const MANUAL_RETAIN = 0.25
/** A summary's request leaves this much more for a model that thinks before it writes. */
const THINKING_ROOM = 1.5

interface Plan {
  readonly survey: Survey
  readonly cut: number
  readonly budgets: Budgets
  readonly mild: { readonly tier: CompactionTier; readonly edits: readonly Edit[] } | undefined
  readonly asks: boolean
}

export class Engine {
  private readonly ctx: Context
  private readonly llm: LlmService
  private readonly settings: Settings

  constructor(ctx: Context, settings: Settings) {
    this.ctx = ctx
    this.llm = ctx.llm
    this.settings = settings
  }

  /** Never throws; what was logged before stays as it is where nothing better was found. */
  async run(agent: Agent, need: Need): Promise<Outcome> {
    const { session } = agent
    const { envelope, reason, room, learned, focus, must } = need
    const plan = this.plan(agent, need)
    const { survey } = plan
    const before = Math.round(survey.size)
    const nothing = (why: string): Outcome => ({ before, after: before, why })
    if (!plan.mild && !plan.asks && !must) return nothing('there is too little to sum up')
    const { provider, model } = envelope.config
    const id = randomUUID()
    session.append('compaction/started', {
      id,
      reason,
      provider,
      model,
      before,
      ...(room ? { limit: room.limit } : {}),
      ...(focus ? { focus } : {}),
      ...(learned ? { learned } : {}),
    })
    const spent: SpentOnCompaction[] = []
    let done: Pick<Outcome, 'tier' | 'error' | 'aborted'> = {}
    try {
      done = await this.shorten(agent, need, plan, spent)
    } catch (error) {
      done = { error: { code: 'UNKNOWN', message: errorMessage(error) } }
    }
    // The provider's count of the refused request holds for what is left of it.
    const now = sizeOf(session, this.llm, envelope) * survey.ratio
    const after = Math.round(done.tier ? now : survey.size)
    const ended: SessionEventMap['compaction/ended'] = {
      id,
      before,
      after,
      fits: after <= need.goal || (room !== undefined && after <= room.threshold),
      ...done,
      ...(spent.length ? { spent } : {}),
    }
    session.append('compaction/ended', ended)
    return { before, after, ...done }
  }

  private plan(agent: Agent, need: Need): Plan {
    const { envelope, goal, level, least, reason, mayAsk, room } = need
    const survey = new Survey(agent.session, this.llm, envelope, least)
    const budgets = budgetsFor(this.settings, room, goal, survey.base)
    const all = survey.priceOf(0, survey.prices.length)
    const manual = reason === 'manual'
    const retain = manual ? Math.min(budgets.retain, MANUAL_RETAIN * all) : level > 1 ? 0 : budgets.retain
    const cut = cutFor(survey.prices, survey.cuts, { tokens: retain, unread: survey.unread })
    const gain = survey.priceOf(0, cut) - budgets.summary
    const much = gain >= LEAST_GAIN * Math.min(goal, survey.size) && survey.ownPriceOf(0, cut) >= LEAST_HEAD
    const worth = !survey.isSummedUp(cut) && (manual || much)
    const asks = mayAsk && worth && budgets.summary >= LEAST_SUMMARY
    return { survey, budgets, cut, asks, mild: manual ? undefined : this.mild(survey, cut, goal) }
  }

  private mild(survey: Survey, cut: number, goal: number): Plan['mild'] {
    const results = survey.shorterResults(cut)
    if (results.length && survey.sizeWith(results) <= RELIEF * goal) return { tier: 'results', edits: results }
    const reasoning = survey.withoutOldReasoning(cut)
    const enough = reasoning.length && survey.sizeWith(reasoning) <= RELIEF * goal
    return enough ? { tier: 'reasoning', edits: reasoning } : undefined
  }

  private async shorten(
    agent: Agent,
    need: Need,
    plan: Plan,
    spent: SpentOnCompaction[],
  ): Promise<Pick<Outcome, 'tier' | 'error' | 'aborted'>> {
    const { signal, must, goal, room } = need
    let done: Pick<Outcome, 'tier' | 'error' | 'aborted'> = {}
    if (plan.mild) {
      commit(agent, plan.survey, plan.mild.edits)
      return { tier: plan.mild.tier }
    }
    if (plan.asks) {
      try {
        commit(agent, plan.survey, [await this.summary(agent, need, plan, spent)])
        done = { tier: 'summary' }
      } catch (error) {
        if (signal.aborted) return { aborted: true }
        if (!(error instanceof SummaryFailed)) throw error
        done = { error: error.failure }
      }
    }
    if (!must) return done
    const survey = this.resurvey(agent, need, plan.survey)
    const enough = room && need.reason === 'pressure' ? room.limit : goal
    if (survey.size <= enough) return done
    const edits = await this.lastResort(agent, need, survey)
    if (signal.aborted && !done.tier) return { aborted: true }
    if (!edits) return done
    commit(agent, survey, edits)
    return { ...done, tier: 'digest' }
  }

  /** As the first one, with the conversation as it is now. */
  private resurvey(agent: Agent, need: Need, before: Survey): Survey {
    const { session } = agent
    const measured = sizeOf(session, this.llm, need.envelope)
    return new Survey(session, this.llm, need.envelope, measured * before.ratio)
  }

  private async lastResort(agent: Agent, need: Need, survey: Survey) {
    const { goal, room, level, envelope, signal } = need
    const budgets = budgetsFor(this.settings, room, goal, survey.base)
    const { retain: tokens } = budgets
    const cut = cutFor(survey.prices, survey.cuts, { tokens, unread: survey.unread })
    return lastResort(survey, {
      goal,
      cut,
      budgets,
      model: envelope.config.model,
      all: level > 2,
      ...this.sources(agent, signal),
    })
  }

  private sources(agent: Agent, signal: AbortSignal) {
    const { ctx } = this
    return {
      whereIs: (message: UserMessage) => keepWhole(ctx, agent.session, message),
      carry: async (dropped: readonly Message[]): Promise<readonly UserBlock[]> => {
        const none = async (): Promise<readonly UserBlock[]> => []
        try {
          return (await waterfall(ctx, agent, 'compaction/carry', { agent, dropped, signal }, none)) ?? []
        } catch (error) {
          // A plugin that cannot read its file again must not keep the conversation too long.
          ctx.logger.warn(`a listener of compaction/carry failed: ${errorMessage(error)}`)
          return []
        }
      },
    }
  }

  private async summary(agent: Agent, need: Need, plan: Plan, spent: SpentOnCompaction[]): Promise<Edit> {
    const { survey, budgets, cut } = plan
    const { writer, signal, focus } = need
    const maxTokens = Math.ceil(budgets.summary * THINKING_ROOM)
    const { config } = writer
    const room = roomOf({ ...config, maxTokens }, this.llm.modelInfo(config), need.learned, 1)
    const dropped = survey.messages.slice(0, cut)
    const text = await summarise(this.ctx, {
      agent,
      messages: dropped,
      envelope: writer,
      limit: room?.limit,
      maxTokens,
      focus,
      timeoutMs: this.settings.timeoutMs,
      signal,
      spent: one => void spent.push(one),
    })
    const { whereIs, carry } = this.sources(agent, signal)
    const message = await checkpoint({
      form: 'summary',
      text: () => text,
      said: saidIn(dropped, agent.session),
      pinnedTokens: budgets.pinned,
      lastTokens: budgets.last,
      carry: await carry(dropped),
      carryTokens: budgets.carry,
      price: one => survey.price(one),
      whereIs,
    })
    if (signal.aborted) throw signal.reason
    if (survey.price(message) >= survey.priceOf(0, cut)) {
      throw new SummaryFailed({ code: 'SUMMARY_TOO_LONG', message: 'the summary is no shorter than what it sums up' })
    }
    return { from: 0, to: cut - 1, message }
  }
}

/** All in one go. @throws SummaryFailed when the conversation is no longer what was surveyed; then nothing is changed */
function commit({ session }: Agent, survey: Survey, edits: readonly Edit[]): void {
  const now = session.surface()
  const { nodes } = survey
  if (edits.some(({ from, to }) => now[from]?.seq !== nodes[from]!.seq || now[to]?.seq !== nodes[to]!.seq)) {
    throw new SummaryFailed({ code: 'CHANGED', message: 'the conversation was changed by somebody else meanwhile' })
  }
  for (const { from, to, message } of edits) {
    if (message.role === 'system') continue
    session.append('context/replaced', { from: nodes[from]!.seq, to: nodes[to]!.seq, message })
  }
}
