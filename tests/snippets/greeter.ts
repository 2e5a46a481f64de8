import type { Context } from '@cambium/core'
import { defineTool } from '@cambium/tools'

export const name = 'greeter'
export const inject = ['tools']

export function apply(ctx: Context) {
  ctx.tools.register(
    defineTool({
      name: 'greet',
      description: 'Greets somebody.',
      parameters: { who: { type: 'string', required: true }, times: { type: 'integer', default: 1 } },
      readOnly: true,
      isConcurrencySafe: () => true,
      execute: ({ who, times }) => `hello ${who}\n`.repeat(times),
    }),
  )
}
