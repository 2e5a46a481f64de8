/** What is asked of a running tree, and what it comes to. */

/** Ids of the rows that one transaction touched; a row is named once. */
export interface TreeChange {
  readonly added: readonly string[]
  readonly removed: readonly string[]
  /** Mounted anew: they changed, or a row above them did, or it was asked for. */
  readonly remounted: readonly string[]
  /** Unchanged, but in another place among the others; mounted anew, so that registrations keep the order of rows. */
  readonly moved: readonly string[]
}

export type ChangeCause = 'apply' | 'reload' | 'create' | 'update' | 'remove'

/** A row as a file would say it. */
export interface RowInput {
  readonly id?: string
  readonly name: string
  readonly config?: unknown
  readonly disabled?: boolean
  readonly required?: boolean
  readonly label?: string
  readonly inject?: readonly string[] | Readonly<Record<string, unknown>>
  readonly isolate?: Readonly<Record<string, true | string>>
  readonly intercept?: Readonly<Record<string, unknown>>
}

export interface ChangeOptions {
  /** Also writes the change to the file that the row stands in; nothing is written when the tree refuses it. */
  readonly persist?: boolean
}

/** Where a new row goes; at the end of the tree by default. */
export interface CreateOptions extends ChangeOptions {
  /** Id of the group or include whose last row it becomes. */
  readonly into?: string
  /** Id of the row that it stands before. */
  readonly before?: string
  readonly after?: string
}

export interface ReloadOptions {
  /** Ids of rows to mount anew though nothing of them changed in the files. */
  readonly remount?: ReadonlySet<string>
  /** Aborts when a newer change waits: a start that has taken some seconds by then, or does later, is given up. */
  readonly giveWay?: AbortSignal
}
