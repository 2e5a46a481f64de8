/** The event log: this plugin mounts `ctx.sessions`, which keeps sessions in memory; a store plugin keeps them on disk. */

import type { Context } from '@cambium/core'
import Schema from 'schemastery'
import { publishRetries } from './retries.ts'
import { SessionService } from './sessions.ts'

export { contextTokens, type NextRequest } from './context-tokens.ts'
export { isIntact } from './core-types.ts'
export * from './event.ts'
export { type PendingMessage, pendingInbox } from './inbox.ts'
export { type EventDraft, interruptedClosers, TOOL_NOT_STARTED, TOOL_OUTCOME_UNKNOWN } from './repair.ts'
export { type RewindPoint, type RewindTarget, type Rewound, rewindPoint } from './rewind.ts'
export * from './service.ts'
export * from './session.ts'
export { isSessionId, newSessionId } from './session-id.ts'
export { foldSurface } from './surface.ts'
export { type TranscriptEntry, transcript } from './transcript.ts'
export { type TurnOutline, type TurnPrompt, turnsOf } from './turns.ts'

export const name = 'session'
export const provide = ['sessions']

export type Config = object
export const Config: Schema<Config> = Schema.object({})

export function apply(ctx: Context): void {
  let service: SessionService | undefined
  // Acquired first and so undone last: those that depend on the service have ended their sessions themselves by then.
  ctx.effect(() => () => service?.endAll(), 'live sessions')
  service = new SessionService(ctx)
  publishRetries(ctx, service)
}
