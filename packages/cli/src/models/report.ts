/** What `cambium models` tells of a provider. */

import type { LlmFailure, ModelInfo, ProviderInfo } from '@cambium/llm'

/** How a provider is let in, and where that comes from; never the key itself. */
export interface KeyState {
  readonly state: 'present' | 'missing' | 'not needed'
  readonly from?: 'environment' | 'file' | 'configuration' | 'login'
  /** Name of the variable, or of the stored key. */
  readonly name?: string
}

export interface ProviderReport {
  readonly provider: string
  readonly kind: ProviderInfo['kind']
  readonly ready: boolean
  readonly key: KeyState
  /** What to do to make it ready. */
  readonly fix?: string
  /** It was asked for its list. */
  readonly asked: boolean
  /** Why it did not tell. */
  readonly failure?: LlmFailure
  readonly models: readonly (ModelInfo & { readonly auto?: true })[]
}
