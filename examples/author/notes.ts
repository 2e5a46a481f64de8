/** `ctx.notes`: what somebody wanted remembered, for as long as the row is there. */

import { type Context, HarnessError, Service } from '@cambium/core'
import type {} from '@cambium/loader'

export const name = 'notes'
export const provide = ['notes']

export interface Note {
  readonly id: number
  readonly text: string
  /** Id of the agent that made it, if one did. */
  readonly by: string | undefined
  /** Milliseconds since 1970. */
  readonly madeAt: number
}

declare module 'cordis' {
  interface Context {
    /** What somebody wanted remembered. */
    notes: Notes
  }
  interface Events {
    /** notify: a note was made. */
    'notes/made'(note: Note): void
    /** notify: a note is gone. */
    'notes/dropped'(note: Note): void
  }
}

export class Notes extends Service {
  private readonly kept: Map<number, Note>

  constructor(ctx: Context, kept: Map<number, Note>) {
    super(ctx, 'notes')
    this.kept = kept
  }

  make(text: string, by?: string): Note {
    const id = Math.max(0, ...this.kept.keys()) + 1
    const note = { id, text, by, madeAt: Date.now() }
    this.kept.set(id, note)
    this.ctx.emit('notes/made', note)
    return note
  }

  list(): Note[] {
    return [...this.kept.values()]
  }

  /** @throws `NOTE_UNKNOWN` */
  drop(id: number): Note {
    const note = this.kept.get(id)
    if (!note) {
      const ids = [...this.kept.keys()].join(', ')
      throw new HarnessError('NOTE_UNKNOWN', `there is no note ${id}`, {
        fix: ids ? `name one of these: ${ids}` : 'make a note first',
      })
    }
    this.kept.delete(id)
    this.ctx.emit('notes/dropped', note)
    return note
  }
}

export function apply(ctx: Context) {
  // Outlives this run of the plugin: after a reload the new code finds the notes of the old one.
  const kept = ctx.loader.keep('notes', () => new Map<number, Note>())
  new Notes(ctx, kept)
}
