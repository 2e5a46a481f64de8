/** `cordis.yml` trees: reading, mounting, and the `cordis` command. */

export { App, type AppOptions } from './app.ts'
export { type BootedTree, type BootOptions, bootTree, type LoadedTree, loadTree } from './boot.ts'
export { checkTrees, type TreeCheck } from './check.ts'
export { claim, type Owner } from './claim.ts'
export type { Env } from './expression.ts'
export { expandPattern, loadEnvFile } from './files.ts'
export { type Installation, setInstallation, shippedPlugins } from './installation.ts'
export type { TreeSource } from './load.ts'
export { mistakesOf } from './mistakes.ts'
export { findPlugin, type ImportModule, ignoreTsconfig, type LoadedPlugin } from './module.ts'
export type { MountState } from './mount.ts'
export { type ReadOptions, readTree, type TreeFile } from './read.ts'
export { type Resolution, resolveModule } from './resolve.ts'
export { ROW_KEYS, type Row } from './row.ts'
export type { ShippedPlugin } from './shipped.ts'
export { labelOf, placeOf, type Source, type Spot } from './source.ts'
export { type StartOptions, startTrees } from './start.ts'
export { type ApplyOptions, createTree, type RowState, type Tree, type TreeOptions } from './tree.ts'
export type {
  ChangeCause,
  ChangeOptions,
  CreateOptions,
  ReloadOptions,
  RowInput,
  TreeChange,
  TreeLoader,
} from './tree-loader.ts'
export type { Entry, Expression, MapValue, Value } from './value.ts'
export type { Work } from './work.ts'
