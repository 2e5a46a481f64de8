/** Ends what costs too much: steps, time, tokens and money, per turn and per session, with a last word from the model. */

import type {} from '@cambium/agent'
import type {} from '@cambium/agent/compaction'
import type { Context } from '@cambium/core'
import { type LlmService, price, type TokenUsage } from '@cambium/llm'
import { isIntact, type Session } from '@cambium/session'
import type {} from '@cambium/session/title'
import type { Agent } from '@cambium/tools'
import Schema from 'schemastery'

export const name = 'budget'
export const inject = ['agents', 'llm']

export interface Limits {
  maxSteps?: number
  maxWallMs?: number
  maxTokens?: number
  maxCost?: number
}
const Limits: Schema<Limits> = Schema.object({
  maxSteps: Schema.natural().min(1).description('Requests to the model'),
  maxWallMs: Schema.natural()
    .min(1)
    .max(2 ** 31 - 1)
    .description('Time since the start, in milliseconds'),
  maxTokens: Schema.natural().min(1).description('Input and output tokens, cached ones included'),
  maxCost: Schema.number().min(0).description('US dollars; counts only requests whose price is known'),
})

export interface Config {
  turn: Limits
  session: Limits
}
export const Config: Schema<Config> = Schema.object({
  turn: Limits.default({ maxSteps: 200 }).description('Limits of one turn'),
  session: Limits.default({}).description('Limits of a session, over all its turns'),
})

/** Share of a time budget that is kept for summing up, and the most that it may be. */
const WRAP_UP_SHARE = 0.1
const WRAP_UP_MAX_MS = 15_000

interface Tally {
  steps: number
  tokens: number
  cost: number
  /** By the clock that nobody sets. */
  startedAt: number
}

/** What a session has spent, folded from its log as far as `next`. */
interface Account {
  next: number
  turn: Tally
  session: Tally
  route: { provider: string; model: string } | undefined
}

export function apply(ctx: Context, config: Config) {
  const { llm, agents } = ctx
  const accounts = new WeakMap<Session, Account>()
  const timers = new Map<Session, ReturnType<typeof setTimeout>>()

  const disarm = (session: Session) => {
    clearTimeout(timers.get(session))
    timers.delete(session)
  }
  ctx.effect(() => () => [...timers.keys()].forEach(disarm), 'budget timers')

  ctx.on('session/event', (session, event) => {
    if (event.type === 'turn/end') disarm(session)
    if (event.type !== 'turn/start') return
    const account = settle(accounts, llm, session)
    const rest = Math.min(
      config.turn.maxWallMs ?? Number.POSITIVE_INFINITY,
      (config.session.maxWallMs ?? Number.POSITIVE_INFINITY) - (performance.now() - account.session.startedAt),
    )
    if (!Number.isFinite(rest)) return
    const end = () => agents.get(session.id)?.cancel({ by: 'limit', reason: 'the time limit was reached' }, KEEP)
    timers.set(session, setTimeout(end, Math.max(0, rest)).unref())
  })
  ctx.on('session/disposed', disarm)

  ctx.on('agent/pre-step', async (input, next) => {
    const account = settle(accounts, llm, input.agent.session)
    const reason = exceeded('turn', config.turn, account.turn) ?? exceeded('session', config.session, account.session)
    return reason ? { kind: 'wrap-up', reason } : next()
  })
}

const KEEP = { keepInbox: true } satisfies Parameters<Agent['cancel']>[1]

function exceeded(what: 'turn' | 'session', limits: Limits, spent: Tally): string | undefined {
  const { maxSteps, maxWallMs, maxTokens, maxCost } = limits
  if (maxSteps !== undefined && spent.steps >= maxSteps) {
    return maxSteps === 1 ? `the one step of this ${what} is used up` : `${maxSteps} steps of this ${what} are used up`
  }
  if (maxTokens !== undefined && spent.tokens >= maxTokens) return `${maxTokens} tokens of this ${what} are used up`
  if (maxCost !== undefined && spent.cost >= maxCost) return `$${maxCost} of this ${what} are used up`
  if (maxWallMs !== undefined) {
    const reserve = Math.min(maxWallMs * WRAP_UP_SHARE, WRAP_UP_MAX_MS)
    if (performance.now() - spent.startedAt >= maxWallMs - reserve)
      return `the ${maxWallMs / 1000} s of this ${what} are over`
  }
  return undefined
}

function settle(accounts: WeakMap<Session, Account>, llm: LlmService, session: Session): Account {
  const fresh = (startedAt: number): Tally => ({ steps: 0, tokens: 0, cost: 0, startedAt })
  const account = accounts.get(session) ?? {
    next: 0,
    turn: fresh(performance.now()),
    session: fresh(performance.now()),
    route: undefined,
  }
  accounts.set(session, account)
  if (account.next === session.seq) return account
  for (const event of session.events(account.next)) {
    if (!isIntact(event)) continue
    if (event.type === 'turn/start') account.turn = fresh(performance.now() - Math.max(0, Date.now() - event.time))
    if (event.type === 'request/header') account.route = event.data.config
    if (event.type === 'step/start') {
      account.turn.steps++
      account.session.steps++
    }
    if (event.type === 'assistant/message' || event.type === 'request/failed') {
      if (event.data.usage) spend(account, event.data.usage, account.route, llm)
    }
    if (event.type === 'compaction/ended') {
      for (const { usage, ...route } of event.data.spent ?? []) spend(account, usage, route, llm)
    }
    if (event.type === 'session/title' && event.data.usage) spend(account, event.data.usage, event.data.route, llm)
  }
  account.next = session.seq
  return account
}

function spend(account: Account, usage: TokenUsage, route: Account['route'], llm: LlmService) {
  const tokens = usage.inputTokens + usage.cacheReadTokens + usage.cacheWriteTokens + usage.outputTokens
  const cost = (route && price(usage, llm.modelInfo(route))) ?? 0
  for (const tally of [account.turn, account.session]) {
    tally.tokens += tokens
    tally.cost += cost
  }
}
