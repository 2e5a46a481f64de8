/** What a log has said so far, as far as the rules need it. A damaged log's events are taken as they are: old ones are not judged. */

import { isIntact, type Session, type SessionEvent } from '@cambium/session'
import { SurfaceModel } from './surface-model.ts'

export interface CallState {
  /** As the model wrote them; undefined where a damaged log has lost the answer. */
  readonly name: string | undefined
  readonly arguments: string | undefined
  begun: boolean
}

export class LogState {
  /** Seq of the first event that is not in here yet. */
  next = 0
  /** 0 where none is open. */
  turn = 0
  lastTurn = 0
  step = 0
  lastStep = 0
  answered = false
  /** The last attempt of the step that was given up. */
  failed = 0
  /** The calls of the open step's answer that have no result yet, in the model's order; and those that have one. */
  readonly calls = new Map<string, CallState>()
  readonly settled = new Set<string>()
  /** Of the whole session. */
  readonly callIds = new Set<string>()
  /** Received, and neither admitted nor withdrawn; and how each of the others left. */
  readonly pending = new Set<string>()
  readonly left = new Map<string, 'admitted' | 'withdrawn'>()
  header: SessionEvent<'request/header'> | undefined
  /** Seq of the compaction that is under way. */
  compaction: number | undefined
  readonly surface = new SurfaceModel()

  /** Takes over what the session has logged meanwhile: each event once. */
  catchUp(session: Session): this {
    if (this.next === session.seq) return this
    // What is appended was checked; what a session starts from may be damaged.
    const old = this.next === 0
    // As an agent's inbox does: what a fork's parent had received stays the parent's.
    const inherited = session.header.parent?.events ?? 0
    for (const event of session.events(this.next)) {
      if (!old || isIntact(event)) this.add(event, event.seq >= inherited)
    }
    this.next = session.seq
    return this
  }

  private add(event: SessionEvent, own: boolean): void {
    this.surface.add(event)
    switch (event.type) {
      case 'turn/start':
        this.turn = event.data.turn
        this.lastTurn = Math.max(this.lastTurn, event.data.turn)
        this.lastStep = 0
        this.enterStep(0)
        break
      case 'turn/end':
        this.turn = 0
        this.enterStep(0)
        break
      case 'step/start':
        if (!this.turn) break
        this.lastStep = event.data.step
        this.enterStep(event.data.step)
        break
      case 'step/end':
        this.enterStep(0)
        break
      case 'user/message':
        this.pending.delete(event.data.message.id)
        this.left.set(event.data.message.id, 'admitted')
        break
      case 'assistant/message':
        this.inStep(event.data.step)
        this.answered = true
        for (const block of event.data.message.content) {
          if (block.type !== 'tool-call') continue
          this.callIds.add(block.id)
          this.calls.set(block.id, { name: block.name, arguments: block.arguments, begun: false })
        }
        break
      case 'tool/call': {
        this.inStep(event.data.step)
        const { callId } = event.data
        const call = this.calls.get(callId)
        this.callIds.add(callId)
        if (call) call.begun = true
        else this.calls.set(callId, { name: undefined, arguments: undefined, begun: true })
        break
      }
      case 'tool/result': {
        const [block] = event.data.message.content
        if (block?.type === 'tool-result' && this.calls.delete(block.toolCallId)) this.settled.add(block.toolCallId)
        break
      }
      case 'request/header':
        this.header = event
        break
      case 'request/failed':
        this.failed = Math.max(this.failed, event.data.attempt)
        break
      case 'inbox/changed':
        for (const { message } of event.data.inserted ?? []) {
          if (own) this.pending.add(message.id)
          this.left.delete(message.id)
        }
        for (const id of event.data.withdrawn ?? []) {
          this.pending.delete(id)
          if (!this.left.has(id)) this.left.set(id, 'withdrawn')
        }
        break
      case 'session/resumed':
        // Who was compacting is gone.
        this.compaction = undefined
        break
      default:
        this.bracket(event)
    }
  }

  private bracket({ type, seq }: { readonly type: string; readonly seq: number }): void {
    if (type === 'compaction/started') this.compaction = seq
    if (type === 'compaction/ended') this.compaction = undefined
  }

  private enterStep(step: number): void {
    this.step = step
    this.answered = false
    this.failed = 0
    this.calls.clear()
    this.settled.clear()
  }

  /** The line that began the step may be lost; what happened in it says which it was. */
  private inStep(step: number): void {
    if (!this.turn || this.step) return
    this.enterStep(step)
    this.lastStep = step
  }
}
