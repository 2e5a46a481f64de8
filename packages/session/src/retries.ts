/** Tells the viewers of a session when one of its requests is tried again, or goes on with another route. */

import type { Context } from '@cambium/core'
import type { SessionId } from './event.ts'
import type { Sessions } from './service.ts'

/** For as long as `ctx` lives. */
export function publishRetries(ctx: Context, sessions: Pick<Sessions, 'get'>): void {
  const live = (id: string | undefined) => (id === undefined ? undefined : sessions.get(id as SessionId))
  ctx.on('llm/retry', ({ provider, model, ...notice }, _config, id) => {
    const route = { provider, model }
    live(id)?.publish('request/retry', { ...notice, route, next: route })
  })
  ctx.on('llm/fallback', ({ from, to, ...notice }, _config, id) => {
    live(id)?.publish('request/retry', { ...notice, route: from, next: to, attempt: 1, delayMs: 0 })
  })
}
