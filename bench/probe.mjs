/** A row that tells what the process holds: each line of standard input is answered with counts, after a collection. */

import { readFileSync } from 'node:fs'
import { createInterface } from 'node:readline'

export const name = 'probe'
export const inject = ['tools']

export function apply(ctx) {
  const lines = createInterface({ input: process.stdin })
  lines.on('line', asked => {
    // Twice: what the first one finalises the second one frees.
    globalThis.gc()
    globalThis.gc()
    console.log(`held ${asked} ${JSON.stringify(held(ctx.root))}`)
  })
  ctx.effect(() => () => lines.close(), 'probe')
}

function held(root) {
  const fibers = [...root.registry.values()].flatMap(runtime => [...runtime.fibers])
  return {
    heapBytes: process.memoryUsage().heapUsed,
    listeners: sum(Object.values(root.events._hooks).map(hooks => hooks.length)),
    effects: sum([root.fiber, ...fibers].map(fiber => fiber.getEffects().length)),
    plugins: fibers.length,
    handles: process.getActiveResourcesInfo().length,
    children: childrenOf(process.pid),
  }
}

const sum = numbers => numbers.reduce((total, number) => total + number, 0)

/** Where the system tells it. */
function childrenOf(pid) {
  try {
    return readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ').filter(Boolean).length
  } catch {
    return undefined
  }
}
