/** One layer over the shipped tree, and what became of it. */

/** How a layer is called in what is shown. `option` is `--set`. */
export type LayerName = 'shipped' | 'user' | 'project' | 'patch' | 'option'

export interface LayerOptions {
  /** Where the project is looked for. */
  readonly cwd: string
  readonly env: Readonly<Record<string, string | undefined>>
  /** Files of `--patch`, absolute. */
  readonly patch: readonly string[]
  readonly set: readonly string[]
  /** Layers that are left out: the project's, or the user's as well. */
  readonly without: 'none' | 'project' | 'all'
}

/** What became of a layer's file; of a project's, the last three say why it is not applied. */
export type LayerState = 'applied' | 'absent' | 'left out' | 'not trusted' | 'changed since it was trusted' | 'unusable'

export interface LayerFile {
  readonly layer: LayerName
  readonly file: string
  readonly state: LayerState
  /** What is wrong with one that is unusable. */
  readonly problem?: string
}
