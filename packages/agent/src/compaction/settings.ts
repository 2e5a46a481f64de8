/** What a person may set about compaction. */

import { MAX_TIMER_MS } from '@cambium/core'
import Schema from 'schemastery'

export interface Settings {
  enabled: boolean
  threshold: number
  retain: number
  pinned: number
  pinnedTokens: number
  summaryTokens: number
  model?: string
  attempts: number
  failures: number
  restTurns: number
  timeoutMs: number
}

export const Settings: Schema<Settings> = Schema.object({
  enabled: Schema.boolean().default(true).description('Compacts by itself; `/compact` works in any case'),
  threshold: Schema.number()
    .min(0.1)
    .max(0.95)
    .default(0.8)
    .description('Share of what the window has for input above which a conversation is compacted'),
  retain: Schema.number()
    .min(0)
    .max(0.5)
    .default(0.16)
    .description('Share of the window for the last steps, which stay word for word'),
  pinned: Schema.number()
    .min(0)
    .max(0.5)
    .default(0.15)
    .description('Share of the window for what the person said, word for word beside the summary'),
  pinnedTokens: Schema.natural().default(20_000).description('… and the most tokens that this may be'),
  summaryTokens: Schema.natural().min(256).default(8_192).description('The most tokens of a summary'),
  model: Schema.string()
    .pattern(/^[^/\s]+\/\S+$/)
    .description(
      "`provider/model` that writes the summaries; the conversation's own by default, which has most of it cached",
    ),
  attempts: Schema.natural()
    .min(1)
    .max(3)
    .default(3)
    .description(
      'How often a turn is compacted in vain, or a refused request tried again shorter, before it is said to be too long',
    ),
  failures: Schema.natural()
    .min(1)
    .default(3)
    .description('Failed summaries in a row after which no model is asked for `restTurns` turns'),
  restTurns: Schema.natural().min(1).default(5).description('Turns without a summary after too many failed ones'),
  timeoutMs: Schema.natural()
    .min(1)
    .max(MAX_TIMER_MS)
    .default(180_000)
    .description('How long a summary may take, in milliseconds, all attempts together'),
})
