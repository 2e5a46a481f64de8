/** How long a session's next request is. */

import type { LlmService } from '@cambium/llm'
import { contextTokens, type Session } from '@cambium/session'
import type { Envelope } from './contract.ts'

export function sizeOf(session: Session, llm: LlmService, { config, system, tools }: Envelope): number {
  const next = { route: config, ...(system === undefined ? {} : { system }), tools }
  return contextTokens(session, llm.meter, next).tokens
}
