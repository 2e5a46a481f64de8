/** A tree from YAML through the real loader, with its log kept for the test to read. */

import type { LogRecord } from '@cambium/core'
import { type BootOptions, bootTree as boot, type BootedTree as Loaded, type TreeSource } from '@cambium/loader'
import * as invariants from '@cambium/observe/invariants'

export interface BootedTree extends Loaded {
  /** Every record so far, one line each: `warn tools: …`. */
  logs(): string
  /** Drops the row of that id and mounts it again, as a reload does. */
  restart(id: string): Promise<void>
}

/**
 * Starts a tree in this process; text is read as if it stood in `./cordis.yml`. Whoever boots it disposes it. Where it
 * has sessions, what would break the promises of their logs is refused, unless the tree says itself what becomes of it.
 *
 * @throws as the loader's `bootTree`
 */
export async function bootTree(from: string | TreeSource, options: BootOptions = {}): Promise<BootedTree> {
  const records: LogRecord[] = []
  const source = typeof from === 'string' ? { text: from } : from
  const tree = await boot(source, { level: 'info', write: record => void records.push(record), ...options })
  const { ctx } = tree
  if (ctx.get('sessions') && !ctx.get('invariants')) await ctx.plugin(invariants, { mode: 'throw' })
  return Object.assign(tree, {
    logs: () => records.map(record => `${record.level} ${record.name}: ${record.text}`).join('\n'),
    restart: async (id: string) => void (await tree.ctx.loader.reload({ remount: new Set([id]) })),
  })
}
