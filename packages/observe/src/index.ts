/** Watching without touching. */

export type { Config as InvariantsConfig } from './invariants.ts'
