/** A tool: what a model can call. */

import type { Context } from '@cambium/core'
import { defineTool } from '@cambium/tools'

export const name = 'greeter'
export const inject = ['tools']

export function apply(ctx: Context) {
  ctx.tools.register(
    defineTool({
      name: 'greet',
      description: 'Greets somebody by name.',
      parameters: { name: { type: 'string', required: true } },
      readOnly: true,
      execute: ({ name }) => `Hello, ${name}!`,
    }),
  )
}
