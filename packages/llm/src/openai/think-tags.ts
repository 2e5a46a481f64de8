/** Takes reasoning out of a text that begins with `<think>`, wherever its pieces are cut. */

const OPEN = '<think>'
const CLOSE = '</think>'

export interface Said {
  readonly type: 'text' | 'reasoning'
  readonly text: string
}

export class ThinkTags {
  /** Where it stands: before the first word, in the reasoning, right behind it, in the answer. */
  private state: 'start' | 'thinking' | 'behind' | 'answer' = 'start'
  /** What may still turn out to be a tag, or white space that belongs to none of the two. */
  private held = ''
  /** Something was said, so that white space counts. */
  private spoken = false

  push(text: string): Said[] {
    if (this.state === 'answer') return [{ type: 'text', text }]
    this.held += text
    const out: Said[] = []
    if (this.state === 'start') this.open()
    if (this.state === 'thinking') this.think(out)
    if (this.state === 'behind') {
      this.held = this.held.trimStart()
      if (this.held) this.state = 'answer'
    }
    if (this.state === 'answer') this.say(out, 'text')
    return out
  }

  /** What is left when nothing of the text follows. */
  end(): Said[] {
    const out: Said[] = []
    this.say(out, this.state === 'thinking' ? 'reasoning' : 'text')
    this.state = 'answer'
    return out
  }

  private open(): void {
    const begun = this.held.trimStart()
    if (begun.startsWith(OPEN)) {
      this.state = 'thinking'
      this.held = begun.slice(OPEN.length)
    } else if (!OPEN.startsWith(begun)) this.state = 'answer'
  }

  private think(out: Said[]): void {
    if (!this.spoken) this.held = this.held.trimStart()
    const end = this.held.indexOf(CLOSE)
    if (end >= 0) {
      const rest = this.held.slice(end + CLOSE.length)
      this.held = this.held.slice(0, end)
      this.say(out, 'reasoning')
      this.held = rest
      this.state = 'behind'
      return
    }
    let kept = Math.min(this.held.length, CLOSE.length - 1)
    while (!CLOSE.startsWith(this.held.slice(this.held.length - kept))) kept--
    const rest = this.held.slice(this.held.length - kept)
    this.held = this.held.slice(0, this.held.length - kept)
    this.say(out, 'reasoning')
    this.held = rest
  }

  private say(out: Said[], type: Said['type']): void {
    if (this.held) out.push({ type, text: this.held })
    this.spoken ||= this.held !== ''
    this.held = ''
  }
}
