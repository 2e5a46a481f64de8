/** Reloads plugins when their files change, and rows when the tree's files do; what did not change keeps running. */

import { fileURLToPath } from 'node:url'
import { type Context, HarnessError } from '@cambium/core'
import Schema from 'schemastery'
import { TreeLoader } from './tree/tree-loader.ts'

export const name = 'hmr'

export interface Config {
  debounceMs: number
}
export const Config: Schema<Config> = Schema.object({
  debounceMs: Schema.natural()
    .min(10)
    .max(10_000)
    .default(120)
    .description('How long nothing may happen to any file before what was saved is reloaded, in milliseconds'),
})

export async function apply(ctx: Context, { debounceMs }: Config) {
  if (!(ctx.loader instanceof TreeLoader)) {
    throw new HarnessError('HMR_LOADER', 'this is the hot reload of another installation than the one that runs', {
      fix: 'name the plugin as the running cordis has it, or use its option --watch',
    })
  }
  const { hotReload } = await import('./hot/hot-reload.ts')
  const reload = await hotReload(fileURLToPath(ctx.baseUrl!))
  const tree = { root: ctx.root, loader: ctx.loader, log: ctx.logger, debounceMs }
  ctx.effect(() => reload.join(tree), 'watches files')
  // What a tree is made of is known once it stands, and changes with it.
  ctx.on('loader/changed', () => reload.look())
  ctx.on('loader/refused', () => reload.look())
}
