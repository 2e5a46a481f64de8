/** Group commit: what all sessions of a store have pending is written in one round. */

export interface Committer {
  /** Writes what is pending and starts what has to follow. Never throws. */
  commitInBackground(): void
}

/** One timer, however many sessions: it is set by the first event and not put off by later ones. */
export class Rounds {
  private readonly pending = new Set<Committer>()
  private readonly batchMs: number
  private timer: NodeJS.Timeout | undefined

  constructor(batchMs: number) {
    this.batchMs = batchMs
  }

  add(member: Committer): void {
    this.pending.add(member)
    this.timer ??= setTimeout(() => this.run(), this.batchMs)
  }

  /** Has nothing pending any more. */
  drop(member: Committer): void {
    if (!this.pending.delete(member) || this.pending.size) return
    clearTimeout(this.timer)
    this.timer = undefined
  }

  private run(): void {
    this.timer = undefined
    const members = [...this.pending]
    this.pending.clear()
    for (const member of members) member.commitInBackground()
  }
}
