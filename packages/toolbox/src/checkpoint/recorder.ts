/** Keeps what one session's files were before its calls touch them, and logs it. */

import { errorMessage, HarnessError } from '@cambium/core'
import type { FileHistory } from '@cambium/machine/checkpoint'
import { sameState } from '@cambium/machine/checkpoint'
import type { Session, Sessions } from '@cambium/session'
import { inPieces, KEPT, type KeptFile, LEFT, type LeftFile, stateOf, WATCHED } from './events.ts'
import { contentsOf, pastAt } from './past.ts'

/** A call on its way, as far as files are concerned. */
export interface FileCall {
  readonly recorder: Recorder
  readonly turn: number
  readonly callId: string
  /** Paths it was about to change through `ctx.fs`. */
  readonly touched: Set<string>
  /** The folder was seen before it. */
  watched: boolean
}

/** What the log says of the open turn. */
interface TurnFold {
  /** Seq of its start. */
  readonly from: number
  next: number
  readonly kept: Set<string>
  readonly left: Map<string, LeftFile>
  snapshot: string | undefined
}

export class Recorder {
  private readonly session: Session
  private readonly sessions: Sessions
  private readonly warn: (text: string) => void
  private readonly open: () => FileHistory
  private opened: FileHistory | undefined
  private fold: TurnFold | undefined
  /** Snapshots and comparisons, one at a time. */
  private busy: Promise<unknown> = Promise.resolve()

  constructor(session: Session, open: () => FileHistory, sessions: Sessions, warn: (text: string) => void) {
    this.session = session
    this.open = open
    this.sessions = sessions
    this.warn = warn
  }

  /** Opened when it is first needed: most calls change nothing. */
  get history(): FileHistory {
    this.opened ??= this.open()
    return this.opened
  }

  /** A path is about to change. @throws when the log cannot be written: nothing must change then */
  async touch(call: FileCall, path: string, kind: 'file' | 'directory'): Promise<void> {
    const name = this.history.name(path)
    const names = kind === 'file' ? [name] : this.history.missing(name)
    const fresh = names.filter(one => !call.touched.has(one))
    if (!fresh.length) return
    for (const one of fresh) call.touched.add(one)
    const files: KeptFile[] = []
    for (const one of fresh) {
      if (this.isKept(call.turn, one)) files.push({ path: one, kind: 'again' })
      else files.push({ path: one, ...(await this.history.keep(one)) })
    }
    for (const file of files) {
      if (file.kind === 'unknown') this.warn(`${file.path} cannot be put back later: ${file.why}`)
    }
    this.session.append(KEPT, { turn: call.turn, callId: call.callId, files })
    await this.sessions.flush(this.session)
  }

  /** Anything may change. @throws when the log cannot be written, or when `signal` aborts */
  async watch(call: FileCall, signal: AbortSignal): Promise<void> {
    await this.inTurn(() => this.see(call, signal))
    await this.sessions.flush(this.session)
  }

  /** Tells what a call has left. Never throws: the call has happened. */
  async settle(call: FileCall): Promise<void> {
    try {
      await this.inTurn(() => this.tell(call))
    } catch (error) {
      this.warn(`what the call changed is not known: ${errorMessage(error)}`)
    }
  }

  /** What a command did that was cut off with an earlier process is told now. */
  catchUp(): Promise<void> {
    return this.inTurn(() => this.settleCutOff())
  }

  /** The log of a turn has grown by what was kept: the oldest goes when it is too much. */
  trim(): void {
    if (!this.opened) return
    const dropped = this.history.trim(() => contentsOf(this.session.events()))
    if (dropped) this.warn(`what ${dropped} files were before earlier turns is not kept any more: the bound is reached`)
  }

  /** After whatever is under way. */
  async close(): Promise<void> {
    await this.busy
    if (!this.opened && !this.session.last(WATCHED)) return
    // A command whose end is not told shows in the copy of the tree alone.
    if (!pastAt(this.session.events(), [], this.session.seq).cutOff) this.history.close()
  }

  private inTurn<T>(work: () => Promise<T>): Promise<T> {
    const result = this.busy.then(work)
    this.busy = result.catch(() => {})
    return result
  }

  private async see(call: FileCall, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted()
    const { turn, callId } = call
    const { history, session } = this
    try {
      await this.settleCutOff()
      const { snapshot } = this.turnFold()
      // Of this turn, and from this process or from the one before.
      if (turn && snapshot && (await history.recall(snapshot))) {
        session.append(WATCHED, { turn, callId, snapshot })
      } else {
        const { id, files, copiedBytes, notes, unkept } = await history.begin(signal)
        session.append(WATCHED, { turn, callId, snapshot: id, files, copiedBytes, notes, unkept })
      }
      call.watched = true
    } catch (error) {
      if (signal.aborted) throw error
      const note = `what commands change is not known: ${errorMessage(error)}`
      this.warn(note)
      session.append(WATCHED, { turn, callId, notes: [note] })
    }
  }

  /** What a command of an earlier process did before it was cut off. */
  private async settleCutOff(): Promise<void> {
    const started = this.session.last(WATCHED)
    const ended = this.session.last(LEFT)
    if (!started?.data.snapshot || (ended && ended.seq > started.seq && ended.data.done)) return
    if (started.data.snapshot === this.history.snapshot) return
    const { cutOff } = pastAt(this.session.events(), [], this.session.seq)
    if (!cutOff || !(await this.history.recall(cutOff.snapshot))) return
    const { changes } = await this.history.changes(() => true)
    const { turn, callId, seq: since } = cutOff
    const kept = changes.flatMap(({ path, before }): KeptFile[] => (before ? [{ path, ...before }] : []))
    for (const files of inPieces(kept)) this.session.append(KEPT, { turn, callId, files, since })
    const left = changes.map(({ path, after }): LeftFile => ({ path, ...after }))
    for (const files of inPieces(left)) this.session.append(LEFT, { turn, callId, files, since })
    this.session.append(LEFT, { turn, callId, files: [], done: true, since })
  }

  private async tell({ turn, callId, touched, watched }: FileCall): Promise<void> {
    const left = new Map<string, LeftFile>()
    let unseen: readonly string[] = []
    if (watched) {
      const { changes, notes } = await this.history.changes(path => !this.isKept(turn, path))
      const kept = changes.flatMap(({ path, before }): KeptFile[] => {
        return before && !this.isKept(turn, path) ? [{ path, ...before }] : []
      })
      for (const files of inPieces(kept)) this.session.append(KEPT, { turn, callId, files })
      for (const { path, after } of changes) left.set(path, { path, ...after })
      unseen = notes
    }
    for (const path of touched) left.set(path, { path, ...this.history.state(path) })
    const known = this.turnFold().left
    const told = [...left.values()].filter(file => {
      const before = known.get(file.path)
      return !before || !sameState(stateOf(before), stateOf(file))
    })
    for (const files of inPieces(told)) this.session.append(LEFT, { turn, callId, files })
    const notes = unseen.length ? { notes: unseen } : {}
    if (watched) this.session.append(LEFT, { turn, callId, files: [], done: true, ...notes })
  }

  private isKept(turn: number, path: string): boolean {
    return turn > 0 && this.turnFold().kept.has(path)
  }

  /** From the log, so that a plugin that was reloaded in the middle of a turn goes on where it was. */
  private turnFold(): TurnFold {
    const from = this.session.last('turn/start')?.seq ?? 0
    if (this.fold?.from !== from)
      this.fold = { from, next: from, kept: new Set(), left: new Map(), snapshot: undefined }
    const { fold } = this
    for (const event of this.session.events(fold.next)) {
      if (event.type === WATCHED) fold.snapshot = event.data.snapshot ?? fold.snapshot
      if ((event.type !== KEPT && event.type !== LEFT) || event.data.since !== undefined) continue
      for (const file of event.data.files) {
        if (event.type === LEFT) fold.left.set(file.path, file as LeftFile)
        else {
          if (event.data.restores === undefined) fold.kept.add(file.path)
          fold.left.delete(file.path)
        }
      }
    }
    fold.next = this.session.seq
    return fold
  }
}

export const turnOpen = (session: Session) =>
  new HarnessError('CHECKPOINT_TURN_OPEN', `session ${session.id} is in the middle of turn ${session.open.turn}`, {
    fix: 'wait until the turn has ended, or cancel it, before files are put back',
  })
