/** The provider's own entry, and what is known of a model by its name: how it thinks and what it refuses. */

import type { ModelInfo } from '../stream.ts'
import type { ProviderEntry } from '../web/provider.ts'

/** How a model is told to think. `budget`: by a number of tokens; `adaptive`: by an effort alone. */
export type ThinkingMode = 'adaptive' | 'budget' | 'none'

export interface Traits {
  readonly claude: boolean
  readonly mode: ThinkingMode
  /** Thinks unless it is told not to. */
  readonly byDefault: boolean
  /** How it is told not to; undefined for one that always thinks. */
  readonly off: 'absent' | 'disabled' | 'between_tools' | undefined
  /** Efforts that it has; undefined where nobody knows. */
  readonly efforts: readonly string[] | undefined
  /** Sends signatures alone unless it is asked for a summary of its thoughts. */
  readonly hides: boolean
  /** Refuses a thought when something before it has changed, unless it is asked to forget such thoughts instead. */
  readonly bound: boolean
  /** Takes `temperature`. */
  readonly samples: boolean
  /** Goes on with an answer that stands last. */
  readonly prefill: boolean
}

/** Tokens of thought by effort, for models that take a number. */
export const BUDGETS: Readonly<Record<string, number>> = { low: 4_096, medium: 10_240, high: 20_480, max: 32_768 }

const ADAPTIVE_EFFORTS = ['low', 'medium', 'high', 'xhigh', 'max']

/** Models that this protocol's other providers have: what they refuse is found out by asking. */
const OTHERS: Traits = {
  claude: false,
  mode: 'budget',
  byDefault: false,
  off: 'absent',
  efforts: Object.keys(BUDGETS),
  hides: false,
  bound: false,
  samples: true,
  prefill: true,
}

/** @see https://platform.claude.com/docs/en/build-with-claude/thinking-troubleshooting, as of November 2026 */
export function traitsOf(model: string): Traits {
  const { family, version } = nameOf(model) ?? {}
  if (version === undefined) return OTHERS
  const always = family === 'fable' || family === 'mythos'
  const adaptive = version >= 406 || always
  const mode = adaptive ? 'adaptive' : version >= 307 ? 'budget' : 'none'
  return {
    claude: true,
    mode,
    byDefault: version >= 500 || always,
    off: always || (family === 'opus' && version >= 505) ? undefined : offOf(family, version),
    efforts: adaptive ? ADAPTIVE_EFFORTS.filter(effort => effort !== 'xhigh' || version >= 407) : budgetEfforts(mode),
    hides: version >= 407 || always,
    bound: version >= (always ? 501 : 505),
    samples: version < 407 && !always,
    prefill: version < 406 && !always,
  }
}

function offOf(family: string | undefined, version: number): Traits['off'] {
  if (version < 500) return 'absent'
  return family === 'sonnet' && version >= 505 ? 'between_tools' : 'disabled'
}

const budgetEfforts = (mode: ThinkingMode) => (mode === 'budget' ? Object.keys(BUDGETS) : [])

/** An alias without a number means the newest there is. */
const NEWEST = 505

/** Family and version (`4.5` as 405) of `claude-sonnet-4-5`, `anthropic/claude-3.7-sonnet`, `claude-opus-4@20250514`. */
function nameOf(model: string): { family: string; version: number } | undefined {
  const name = /claude-.*/i.exec(model)?.[0].toLowerCase()
  if (!name) return undefined
  const older = /^claude-(\d)(?:[-.](\d))?(?!\d)(?:-([a-z]+))?/.exec(name)
  if (older) return { family: older[3] ?? '', version: Number(older[1]) * 100 + Number(older[2] ?? 0) }
  const newer = /^claude-([a-z]+)(?:-(\d{1,2})(?:[-.](\d{1,2}))?(?!\d))?/.exec(name)
  const version = newer?.[2] === undefined ? NEWEST : Number(newer[2]) * 100 + Number(newer[3] ?? 0)
  return { family: newer?.[1] ?? '', version }
}

/** Most tokens of an answer where neither the request nor the model's description says. */
export function usualMaxTokens(model: string): number {
  const { version } = nameOf(model) ?? {}
  if (version === undefined) return 8_192
  return version >= 307 ? 32_000 : version >= 305 ? 8_192 : 4_096
}

/** The efforts of a model as a person may name them. */
function model(id: string): ModelInfo {
  const { efforts = [], off } = traitsOf(id)
  return { id, efforts: off === undefined ? efforts : ['none', ...efforts] }
}

export const ANTHROPIC: ProviderEntry = {
  provider: 'anthropic',
  baseURL: 'https://api.anthropic.com/v1',
  keys: ['ANTHROPIC_API_KEY'],
  bases: ['ANTHROPIC_BASE_URL'],
  path: '/v1',
  kind: 'remote',
  models: [
    model('claude-sonnet-5-5'),
    model('claude-opus-5-5'),
    model('claude-haiku-5-5'),
    model('claude-opus-5'),
    model('claude-sonnet-5'),
    model('claude-sonnet-4-5'),
    model('claude-opus-4-5'),
    model('claude-haiku-4-5'),
  ],
}
