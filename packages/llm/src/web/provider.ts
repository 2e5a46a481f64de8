/** A provider as it is known without asking anybody: where it is, which key it wants, what it offers. */

import type { ImageRules, LlmAdapter } from '../adapter.ts'
import type { ModelInfo } from '../stream.ts'

export interface ProviderEntry {
  readonly provider: string
  readonly baseURL: string
  /** Variables that may hold the key, the usual one first; none for a server that asks for no key. */
  readonly keys: readonly string[]
  /** Variables that may hold another address. */
  readonly bases: readonly string[]
  /** Appended to an address from the environment that lacks it. */
  readonly path?: string
  readonly kind: LlmAdapter['kind']
  /** Further lists of a server, from the root of its address, that say more of its models. */
  readonly alsoLists?: readonly string[]
  /** The first is taken when none is named. */
  readonly models: readonly ModelInfo[]
  readonly images?: ImageRules
}
