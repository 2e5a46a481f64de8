/** A tool that a model can call, with a setting of its row. */

import type { Context } from '@cambium/core'
import { defineTool } from '@cambium/tools'
import Schema from 'schemastery'

export const name = 'sample-plugin'
export const inject = ['tools']
/** Services that it provides: `cordis check` tells by it what a tree is missing. */
export const provide: readonly string[] = []

export interface Config {
  greeting: string
}
export const Config: Schema<Config> = Schema.object({
  greeting: Schema.string().default('Hello').description('What is said before the name'),
})

export function apply(ctx: Context, { greeting }: Config) {
  ctx.tools.register(
    defineTool({
      name: 'sample_plugin',
      description: 'Greets somebody by name.',
      parameters: { name: { type: 'string', required: true } },
      readOnly: true,
      execute: ({ name }) => `${greeting}, ${name}!`,
    }),
  )
}
