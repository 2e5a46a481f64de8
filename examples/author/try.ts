/** Calls tools by hand: each line of standard input is the name of a tool and its arguments as JSON. */

import { createInterface } from 'node:readline'
import type { Context } from '@cambium/core'
import { textOf } from '@cambium/llm'
import type {} from '@cambium/loader'
import type {} from '@cambium/tools'

export const name = 'try'
export const inject = ['tools']

export function apply(ctx: Context) {
  ctx.app.claim('stdin')
  ctx.app.main(async signal => {
    const lines = createInterface({ input: process.stdin })
    signal.addEventListener('abort', () => lines.close(), { once: true })
    for await (const line of lines) {
      const [, tool, args = ''] = /^\s*(\S+)\s*(.*)$/.exec(line) ?? []
      if (tool) console.log(textOf(await ctx.tools.execute({ name: tool, arguments: args })))
    }
    return 0
  })
}
