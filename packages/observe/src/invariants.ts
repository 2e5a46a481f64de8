/** Holds a session to what its log promises, while it runs: for tests and development. */

import type { Context } from '@cambium/core'
import type {} from '@cambium/session'
import Schema from 'schemastery'

export const name = 'invariants'
export const inject = ['sessions', 'llm']

export interface Config {
  mode: 'throw' | 'report'
}
export const Config: Schema<Config> = Schema.object({
  mode: Schema.union(['throw', 'report']).default('report').description('What a breach does'),
})

export function apply(_ctx: Context, _config: Config) {}
