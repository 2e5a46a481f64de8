/** A permission gate: it judges every call before it runs. */

import type { Context } from '@cambium/core'
import type { ToolExecution } from '@cambium/tools'

export const name = 'permission-gate'

const isAllowed = ({ arguments: args }: ToolExecution) => !JSON.stringify(args).includes('Mallory')

export function apply(ctx: Context) {
  ctx.on('tools/pre-execute', async (exec, next) => {
    if (!isAllowed(exec)) return { kind: 'deny', reason: 'Mallory is not greeted here.' }
    return next()
  })
}
