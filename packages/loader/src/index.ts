/** `cordis.yml` trees: reading, mounting, and the `cordis` command. */

export { App, type AppOptions } from './app.ts'
export { type BootedTree, type BootOptions, bootTree, type LoadedTree, loadTree } from './boot.ts'
export { claim, type Owner } from './claim.ts'
export { expandPattern, loadEnvFile } from './commands/files.ts'
export type { Env } from './file/expression.ts'
export type { TreeSource } from './file/load.ts'
export { type ReadOptions, readTree, type TreeFile } from './file/read.ts'
export { ROW_KEYS, type Row } from './file/row.ts'
export { labelOf, placeOf, type Source, type Spot } from './file/source.ts'
export type { Entry, Expression, MapValue, Value } from './file/value.ts'
export { checkTrees, type TreeCheck } from './inspect/check.ts'
export { mistakesOf } from './mistakes.ts'
export { type Installation, setInstallation, shippedPlugins } from './modules/installation.ts'
export { findPlugin, type ImportModule, ignoreTsconfig, type LoadedPlugin } from './modules/module.ts'
export { type Resolution, resolveModule, urlPath } from './modules/resolve.ts'
export type { ShippedPlugin } from './modules/shipped.ts'
export { type StartOptions, startTrees } from './start.ts'
export type { MountState, RowState } from './tree/row-state.ts'
export { type ApplyOptions, createTree, type Tree, type TreeOptions } from './tree/tree.ts'
export type {
  ChangeCause,
  ChangeOptions,
  CreateOptions,
  ReloadOptions,
  RowInput,
  TreeChange,
} from './tree/tree-change.ts'
export type { TreeLoader } from './tree/tree-loader.ts'
export type { Work } from './work.ts'
