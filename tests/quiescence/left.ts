/** What one run of the tree has left behind. */
export interface Left {
  readonly states: readonly { id: string; state: string; declares: readonly string[]; provides: readonly string[] }[]
  readonly disposeMs: number
  readonly reason: unknown
  readonly effects: readonly string[]
  readonly handles: readonly string[]
  readonly listeners: { readonly before: Record<string, number>; readonly after: Record<string, number> }
  readonly resources: { readonly before: readonly string[]; readonly after: readonly string[] }
  readonly programs: readonly string[]
  readonly files: readonly string[]
  readonly temporary: readonly string[]
  readonly logs: string
}
