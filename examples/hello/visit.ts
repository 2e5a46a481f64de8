/** Calls the tool as a model would, through the whole pipeline, and shows what came of it. */

import type { Context } from '@cambium/core'
import { textOf } from '@cambium/llm'
import type {} from '@cambium/loader'
import type {} from '@cambium/tools'

export const name = 'visit'
export const inject = ['tools']

export function apply(ctx: Context) {
  ctx.app.main(async () => {
    for (const name of ['Ada', 'Mallory']) {
      const result = await ctx.tools.execute({ name: 'greet', arguments: JSON.stringify({ name }) })
      console.log(`${result.isError ? 'denied ' : 'allowed'}  greet ${name}: ${textOf(result)}`)
    }
    return 0
  })
}
