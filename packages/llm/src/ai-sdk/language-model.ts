/**
 * The part of the AI SDK's provider interface that is used here, in its second, third and fourth version. They differ in
 * how a file, a usage and a reason to stop are written.
 *
 * @see `LanguageModelV2`, `LanguageModelV3` and `LanguageModelV4` of the npm package `@ai-sdk/provider`
 */

import type { JsonObject } from '@cambium/core'

export const VERSIONS = ['v2', 'v3', 'v4'] as const
export type Version = (typeof VERSIONS)[number]

export interface LanguageModel {
  readonly specificationVersion: Version
  /** `anthropic.messages`: what comes before the dot is the key of its options and metadata. */
  readonly provider: string
  doStream(options: CallOptions): PromiseLike<{ readonly stream: ReadableStream<unknown> }>
}

export interface CallOptions {
  prompt: PromptMessage[]
  tools?: JsonObject[]
  toolChoice?: { type: 'auto' }
  maxOutputTokens?: number
  temperature?: number
  stopSequences?: string[]
  abortSignal: AbortSignal
  /** Since the fourth version. */
  reasoning?: string
  providerOptions?: JsonObject
}

export interface PromptMessage {
  role: 'system' | 'user' | 'assistant' | 'tool'
  content: string | JsonObject[]
  providerOptions?: JsonObject
}

/** What a stream says, one at a time; each part has a `type`. */
export type StreamPart = Readonly<Record<string, unknown>> & { readonly type: string }
