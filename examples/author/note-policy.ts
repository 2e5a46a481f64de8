/** Keeps what looks like a key out of the notes. */

import type { Context } from '@cambium/core'
import type {} from '@cambium/tools'

export const name = 'note-policy'

const KEY = /\b(sk|pk|ghp)[-_]\w{8,}/

export function apply(ctx: Context) {
  ctx.on('tools/pre-execute', async (exec, next) => {
    if (exec.name !== 'note' || !KEY.test(JSON.stringify(exec.arguments))) return next()
    return { kind: 'deny', reason: 'That looks like a key, and notes are no place for keys.' }
  })
}
