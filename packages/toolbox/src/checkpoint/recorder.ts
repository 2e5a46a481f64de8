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
  /** It may change anything. */
  watched: boolean
}

/** From the first look at the folder in a turn to the one that tells what all commands since have changed. */
interface Watch {
  readonly turn: number
  /** Of the first command. */
  readonly callId: string
  readonly snapshot: string
}

/** What the log says of the open turn. */
interface TurnFold {
  /** Seq of its start. */
  readonly from: number
  next: number
  readonly kept: Set<string>
  readonly left: Map<string, LeftFile>
  snapshot: string | undefined
  watch: Watch | undefined
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
  private ending: Promise<void> = Promise.resolve()
  /** Commands that are running, … */
  private running = 0
  /** … and whether one has ended since the last look. What an earlier process or plugin has seen is not known. */
  private ran = true

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
    if (this.session.last(WATCHED)) await this.inTurn(() => this.tellEarlier())
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

  /** Anything may change until {@link settle}. @throws when the log cannot be written, or when `signal` aborts */
  async watch(call: FileCall, signal: AbortSignal): Promise<void> {
    await this.inTurn(() => this.see(call, signal))
    await this.sessions.flush(this.session)
  }

  /** A call has ended. What commands changed is told at the end of their turn, so that many are looked at once. */
  async settle(call: FileCall, signal: AbortSignal): Promise<void> {
    if (call.watched) {
      this.running--
      this.ran = true
    }
    await this.safely(async () => {
      if (call.touched.size) this.tellTouched(call)
      const over = call.turn === 0 || call.turn !== this.session.open.turn
      // Of a cancelled turn nothing comes that could be waited for.
      if (call.watched && !this.running && (over || signal.aborted)) await this.tell(this.turnFold(), { late: call })
    })
  }

  /** The model has nothing more to do: what commands have changed is told while the turn is still open. */
  stopping(): Promise<void> {
    return this.safely(() => this.tell(this.turnFold(), {}))
  }

  /** A turn has ended in whatever way. What has not been told yet counts as before its end, whenever it is found out. */
  turnEnded(seq: number): void {
    const fold = this.turnFold()
    this.ending = this.safely(async () => {
      if (fold.watch) await this.tell(fold, { since: seq - 1 })
      this.trim()
    })
  }

  /** When what the turns so far have changed is told. */
  ended(): Promise<void> {
    return this.ending
  }

  /** What a command did that was cut off with an earlier process is told now. */
  catchUp(): Promise<void> {
    return this.inTurn(() => this.settleCutOff())
  }

  /** The log of a turn has grown by what was kept: the oldest goes when it is too much. */
  private trim(): void {
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

  /** Never throws: the calls have happened. */
  private async safely(work: () => Promise<void>): Promise<void> {
    try {
      await this.inTurn(work)
    } catch (error) {
      this.warn(`what was changed is not known: ${errorMessage(error)}`)
    }
  }

  private async see(call: FileCall, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted()
    const { turn, callId } = call
    const { history, session } = this
    try {
      await this.settleCutOff()
      const { snapshot, watch } = this.turnFold()
      // Of this turn, and from this process or from the one before.
      if ((turn || this.running) && snapshot && (await history.recall(snapshot))) {
        if (!watch) session.append(WATCHED, { turn, callId, snapshot })
      } else {
        const { id, files, copiedBytes, notes, unkept } = await history.begin(signal)
        session.append(WATCHED, { turn, callId, snapshot: id, files, copiedBytes, notes, unkept })
        this.ran = false
      }
      call.watched = true
      this.running++
    } catch (error) {
      if (signal.aborted) throw error
      const note = `what commands change is not known: ${errorMessage(error)}`
      this.warn(note)
      session.append(WATCHED, { turn, callId, notes: [note] })
    }
  }

  /** Before a write of which is known what it changes: what commands have done before it is told first. */
  private async tellEarlier(): Promise<void> {
    await this.settleCutOff()
    const fold = this.turnFold()
    if (fold.watch && this.ran) await this.tell(fold, { goesOn: true })
  }

  /** What a command of an earlier turn did whose end is not told: it was cut off with its process. */
  private async settleCutOff(): Promise<void> {
    const started = this.session.last(WATCHED)
    const ended = this.session.last(LEFT)
    if (!started?.data.snapshot || (ended && ended.seq > started.seq && ended.data.done)) return
    const { watch } = this.turnFold()
    if (watch && watch.turn === this.session.open.turn && (watch.turn || this.running)) return
    const { cutOff } = pastAt(this.session.events(), [], this.session.seq)
    if (!cutOff || !(await this.history.recall(cutOff.snapshot))) return
    const { changes } = await this.history.changes(() => true)
    const { turn, callId, seq } = cutOff
    const end = this.session.events(seq).find(({ type }) => type === 'turn/end')
    const since = end ? end.seq - 1 : seq
    const kept = changes.flatMap(({ path, before }): KeptFile[] => (before ? [{ path, ...before }] : []))
    for (const files of inPieces(kept)) this.session.append(KEPT, { turn, callId, files, since })
    const left = changes.map(({ path, after }): LeftFile => ({ path, ...after }))
    for (const files of inPieces(left)) this.session.append(LEFT, { turn, callId, files, since })
    this.session.append(LEFT, { turn, callId, files: [], done: true, since })
  }

  private tellTouched({ turn, callId, touched }: FileCall): void {
    const { left } = this.turnFold()
    const files = [...touched].map((path): LeftFile => ({ path, ...this.history.state(path) }))
    for (const piece of inPieces(changedOf(files, left))) this.session.append(LEFT, { turn, callId, files: piece })
  }

  /** What commands have changed since the last look. Until it is told that they are done, an end of the process cuts them off. */
  private async tell(fold: TurnFold, { goesOn, since, late }: Telling): Promise<void> {
    const { watch } = fold
    // Of a command that outlived its turn, whose watch is over; a later one tells it with its own.
    if (!watch && (!late || late.turn === this.session.open.turn || this.turnFold().watch)) return
    const { turn, callId } = watch ?? late!
    const head = { turn, callId, ...(since === undefined ? {} : { since }) }
    let notes: readonly string[] = []
    if (this.ran || this.running) {
      this.ran = false
      const isKept = (path: string) => turn > 0 && fold.kept.has(path)
      const { changes, notes: unseen } = await this.history.changes(path => !isKept(path))
      notes = unseen
      const kept = changes.flatMap(({ path, before }): KeptFile[] => {
        return before && !isKept(path) ? [{ path, ...before }] : []
      })
      const left = changes.map(({ path, after }): LeftFile => ({ path, ...after }))
      for (const files of inPieces(kept)) this.session.append(KEPT, { ...head, files })
      if (since === undefined) this.turnFold()
      for (const files of inPieces(changedOf(left, fold.left))) this.session.append(LEFT, { ...head, files })
    }
    const told = notes.length ? { notes } : {}
    if (!goesOn) this.session.append(LEFT, { ...head, files: [], done: true, ...told })
    else if (notes.length) this.session.append(LEFT, { ...head, files: [], ...told })
  }

  private isKept(turn: number, path: string): boolean {
    return turn > 0 && this.turnFold().kept.has(path)
  }

  /** From the log, so that a plugin that was reloaded in the middle of a turn goes on where it was. */
  private turnFold(): TurnFold {
    const from = this.session.last('turn/start')?.seq ?? 0
    if (this.fold?.from !== from)
      this.fold = { from, next: from, kept: new Set(), left: new Map(), snapshot: undefined, watch: undefined }
    const { fold } = this
    for (const event of this.session.events(fold.next)) {
      if (event.type === WATCHED) {
        const { turn, callId, snapshot } = event.data
        fold.snapshot = snapshot ?? fold.snapshot
        if (snapshot) fold.watch = { turn, callId, snapshot }
      }
      if (event.type !== KEPT && event.type !== LEFT) continue
      if (event.type === LEFT && event.data.done && event.data.callId === fold.watch?.callId) fold.watch = undefined
      if (event.data.since !== undefined) continue
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

interface Telling {
  /** The turn does, and more commands may come. */
  readonly goesOn?: boolean
  readonly since?: number
  readonly late?: FileCall
}

/** Those that are other than what was last told of them. */
function changedOf(files: readonly LeftFile[], known: ReadonlyMap<string, LeftFile>): LeftFile[] {
  return files.filter(file => {
    const before = known.get(file.path)
    return !before || !sameState(stateOf(before), stateOf(file))
  })
}

export const turnOpen = (session: Session) =>
  new HarnessError('CHECKPOINT_TURN_OPEN', `session ${session.id} is in the middle of turn ${session.open.turn}`, {
    fix: 'wait until the turn has ended, or cancel it, before files are put back',
  })
