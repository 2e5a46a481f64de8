/** A session as lines for a terminal, or for whoever reads it without one. */

import type { JsonValue } from '@cambium/core'
import { type AssistantMessage, type ContentBlock, type ResultBlock, textOf } from '@cambium/llm'
import type { SessionSummary, StoredSession } from '@cambium/session'
import { callText, exitOf } from '../call-text.ts'
import { type Outcome, POLICY_CODES } from '../outcome.ts'
import { count, duration, escapeCommands, escapeControls, oneLine, plural } from '../printable.ts'
import { dateTime, fileSize } from './amounts.ts'
import { type CallItem, endText, type StoryItem, speakerOf, storyOf } from './story.ts'
import type { Colors } from './work.ts'

export interface StoryTextOptions {
  readonly summary: SessionSummary
  /** Sessions that were made from it. */
  readonly copies: readonly SessionSummary[]
  readonly short: (id: string) => string
  readonly usage: Outcome
  readonly turn?: number
  /** Results, thoughts and summaries are shown whole. */
  readonly full: boolean
  readonly width: number
  readonly colors: Colors
  readonly present: (tool: string, args: JsonValue) => string | undefined
}

const RESULT_LINES = 3
const NARROWEST = 40
const WIDEST = 120

export function* storyText(stored: StoredSession, options: StoryTextOptions): Generator<string> {
  if (options.turn === undefined) yield* heading(stored, options)
  const page = new Page(options)
  for (const item of storyOf(stored, options)) yield* page.show(item)
  yield `\n${options.colors.dim(usageLine(options.usage))}\n`
}

function* heading({ header, events }: StoredSession, options: StoryTextOptions): Generator<string> {
  const { summary, copies, short, colors } = options
  const { title, updatedAt, bytes, holder } = summary
  yield `${colors.bold(escapeControls(title ?? '(nothing said yet)'))}\n`
  yield `${colors.dim(`session ${header.id} · ${escapeControls(header.cwd)}`)}\n`
  const times = `begun ${dateTime(header.createdAt)}, last written ${dateTime(updatedAt)}`
  yield `${colors.dim(`${times} · ${plural(events.length, 'event')} · ${fileSize(bytes)}`)}\n`
  if (holder) yield `${colors.yellow(`being written by ${escapeControls(holder)}`)}\n`
  if (header.parent)
    yield `${colors.dim(`a copy of ${short(header.parent.id)}, with its first ${plural(header.parent.events, 'event')}`)}\n`
  if (copies.length) yield `${colors.dim(`copied to ${copies.map(({ id }) => short(id)).join(', ')}`)}\n`
}

/** Marks that reorder what follows them on the line. */
const REORDERING = /[\u202a-\u202e\u2066-\u2069]/g

/** Text of many lines that cannot command a terminal, nor look like something else than it is. */
const safe = (text: string) =>
  escapeCommands(text.replaceAll('\r\n', '\n')).replace(REORDERING, mark => `\\u{${mark.charCodeAt(0).toString(16)}}`)

class Page {
  private readonly options: StoryTextOptions
  private readonly width: number
  /** Whose name stands above what comes next. */
  private speaker = ''

  constructor(options: StoryTextOptions) {
    this.options = options
    this.width = Math.min(WIDEST, Math.max(NARROWEST, options.width))
  }

  *show(item: StoryItem): Generator<string> {
    const { colors, short, full } = this.options
    switch (item.kind) {
      case 'turn':
        this.speaker = ''
        yield `\n${this.rule(`turn ${item.turn} · ${dateTime(item.time)}`)}\n`
        break
      case 'said': {
        const { message } = item
        const user = message.source.kind === 'user'
        this.speaker = ''
        yield `\n${(user ? colors.cyan : colors.dim)(`${escapeControls(speakerOf(message))}:`)}\n`
        yield* this.blocks(message.content, user || full ? Number.POSITIVE_INFINITY : RESULT_LINES)
        break
      }
      case 'withdrawn':
        yield `\n${colors.dim(`withdrawn before it was read: ${clip(textOf(item.message), this.width - 30)}`)}\n`
        break
      case 'answer':
        yield* this.answer(item)
        break
      case 'call':
        yield* this.call(item)
        break
      case 'model': {
        const name = routeName(item.route)
        if (item.insteadOf) yield this.note(`${name} stands in for ${routeName(item.insteadOf)}`)
        else if (item.before) yield this.note(`the model is ${name} from here on; it was ${routeName(item.before)}`)
        break
      }
      case 'failed':
        yield `${colors.yellow(`  attempt ${item.attempt} failed: ${clip(item.message, this.width - 22)}`)}\n`
        break
      case 'replaced':
        yield `\n${this.rule(`compacted: the model reads this in place of ${plural(item.messages, 'message')} above`)}\n`
        yield* this.blocks(item.message.content, full ? Number.POSITIVE_INFINITY : RESULT_LINES)
        break
      case 'shortened':
        yield this.note(`compacted: the model reads ${plural(item.messages, 'message')} above shorter from here on`)
        break
      case 'resumed':
        yield this.note(`taken up again · ${dateTime(item.time)}`)
        for (const notice of item.notices) yield `${colors.yellow(`  ${escapeControls(notice)}`)}\n`
        break
      case 'copied':
        yield `\n${this.rule(`copied from ${short(item.from)}; what follows is this session's own`)}\n`
        break
      case 'end': {
        const text = endText(item.reason)
        if (text) yield `\n${colors.red(`turn ${item.turn} ${oneLine(text, 4 * this.width)}`)}\n`
      }
    }
  }

  private *answer({ message, interrupted, cutOff }: Extract<StoryItem, { kind: 'answer' }>): Generator<string> {
    const { colors, full } = this.options
    const thoughts = thoughtsOf(message)
    const text = textOf(message).trim() !== ''
    if (text || thoughts || interrupted) {
      // From step to step of one model, its calls and results follow each other without its name.
      const who = speakerOf(message)
      if (text || who !== this.speaker) yield `\n${colors.green(`${escapeControls(who)}:`)}\n`
      this.speaker = who
    }
    if (thoughts) {
      const shown = full ? `${safe(thoughts)}\n` : clip(thoughts.replace(/\s+/g, ' '), this.width - 10)
      yield `${colors.dim(`thinking: ${shown}`)}\n`
    }
    if (text) yield* this.blocks(message.content, Number.POSITIVE_INFINITY)
    if (interrupted) yield `${colors.red('(interrupted here)')}\n`
    if (cutOff) yield `${colors.red("(cut off by the model's output limit)")}\n`
  }

  private *call({ name, arguments: args, rewrittenBy, result }: CallItem): Generator<string> {
    const { colors, present, full } = this.options
    const text = clip(
      callText(name, args, given => present(name, given), 2_000),
      full ? 2_000 : this.width - name.length - 26,
    )
    const by = rewrittenBy ? colors.dim(` (changed by ${escapeControls(rewrittenBy)})`) : ''
    const line = `${colors.bold(oneLine(name, 64))} ${text}${by}`
    if (!result) {
      yield `  ${colors.yellow('…')} ${line} ${colors.yellow('no result')}\n`
      return
    }
    const exit = exitOf(result.meta)
    const denied = POLICY_CODES.has(result.code ?? '')
    const mark = denied ? colors.yellow('⊘') : result.isError || exit ? colors.red('✗') : colors.green('✓')
    const facts = [exit, result.durationMs === undefined ? '' : duration(result.durationMs)].filter(Boolean).join(', ')
    yield `  ${mark} ${line} ${colors.dim(facts)}`.trimEnd()
    yield '\n'
    const shown = full ? Number.POSITIVE_INFINITY : RESULT_LINES
    for (const row of firstLines(result.content, shown)) {
      yield `${colors.dim(`      ${full ? safe(row) : clip(row, this.width - 6)}`)}\n`
    }
  }

  /** At most so many lines, and how many more there are. */
  private *blocks(content: readonly ContentBlock[], max: number): Generator<string> {
    for (const row of firstLines(content, max)) yield `${safe(row)}\n`
  }

  private note(text: string): string {
    return `\n${this.options.colors.dim(`· ${text}`)}\n`
  }

  private rule(text: string): string {
    const { colors } = this.options
    return colors.dim(`── ${text} ${'─'.repeat(Math.max(2, Math.min(this.width, 100) - text.length - 4))}`)
  }
}

/** At most so many lines, and how many more there are. A long result is looked at no further than that takes. */
function* firstLines(content: readonly (ContentBlock | ResultBlock)[], max: number): Generator<string> {
  let left = max
  let more = 0
  for (const block of content) {
    const text = block.type === 'text' ? block.text : block.type === 'image' ? imageNote(block) : undefined
    if (text === undefined) continue
    let end = text.length
    while (text[end - 1] === '\n') end--
    for (let at = 0; at <= end; ) {
      const found = text.indexOf('\n', at)
      const stop = found < 0 || found > end ? end : found
      if (left > 0) yield plainText(text.slice(at, stop))
      else more++
      left--
      at = stop + 1
    }
  }
  if (more) yield `… ${plural(more, 'more line')}`
}

const COLOURS = new RegExp(`${String.fromCharCode(0x1b)}\\[[\\d;]*m`, 'g')

/** Without the colours that a program wrote for its terminal. */
export const plainText = (text: string): string => text.replace(COLOURS, '')

/** On one line, and no longer than that. */
function clip(text: string, width: number): string {
  const characters = [...escapeControls(text.slice(0, width + 1))]
  return characters.length > width ? `${characters.slice(0, width - 1).join('')}…` : characters.join('')
}

export function thoughtsOf({ content }: AssistantMessage): string {
  return content
    .flatMap(block => (block.type === 'reasoning' ? [block.text] : []))
    .join('\n')
    .trim()
}

export function imageNote({ mediaType, data }: { readonly mediaType: string; readonly data: string }): string {
  return `[${mediaType}, ${fileSize(Math.floor((data.length * 3) / 4))}]`
}

export const routeName = ({ provider, model }: { readonly provider: string; readonly model: string }) =>
  escapeControls(`${provider}/${model}`)

/** What all of it took. */
export function usageLine({ turns, steps, toolCalls, usage, cost }: Outcome): string {
  const input = usage.inputTokens + usage.cacheReadTokens + usage.cacheWriteTokens
  const cached = usage.cacheReadTokens ? ` (${count(usage.cacheReadTokens)} from the cache)` : ''
  return [
    plural(turns, 'turn'),
    plural(steps, 'step'),
    plural(toolCalls, 'call'),
    ...(input + usage.outputTokens ? [`${count(input)} tokens in${cached}, ${count(usage.outputTokens)} out`] : []),
    ...(cost ? [`$${cost.toFixed(4)}`] : []),
  ].join(' · ')
}
