/** Messages, streams and the door to models. As a plugin it mounts `ctx.llm`. */

import type { Context } from '@cambium/core'
import { LlmRuntime } from './service.ts'

export * from './adapter.ts'
export * from './answer/assembler.ts'
export * from './message.ts'
export * from './meter.ts'
export { lookUpModel } from './models/table.ts'
export { normaliseMessages, normaliseRequest } from './request/normalise.ts'
export type { FallbackNotice, RetryNotice } from './retry/notice.ts'
export { RETRY_POLICY, RetryCourse, type RetryPolicy } from './retry/policy.ts'
export type { Recourse, RecoveryService, RequestCourse } from './retry/recovery.ts'
export { type RetryOptions, streamWithRetry } from './retry/stream.ts'
export { LlmRuntime, type LlmService, type ProviderInfo } from './service.ts'
export * from './stream.ts'
export {
  type FailureSubject,
  failureFromErrorObject,
  failureFromNetwork,
  failureFromResponse,
  LlmError,
  toFailure,
} from './web/failure.ts'

export const name = 'llm'
export const provide = ['llm']

export function apply(ctx: Context) {
  new LlmRuntime(ctx)
}
