/** What the agent is doing, on a terminal: a line for each call, and one redrawn line with time and tokens. */

import type {} from '@cambium/agent/compaction'
import type { JsonValue } from '@cambium/core'
import { addUsage, type TokenUsage, textOf } from '@cambium/llm'
import type { LiveEvent, SessionEvent } from '@cambium/session'
import pc from 'picocolors'
import { callText, exitOf } from './call-text.ts'
import { NO_USAGE, type Outcome, POLICY_CODES } from './outcome.ts'
import { count, duration, oneLine, plural } from './printable.ts'
import type { StatusLine } from './status-line.ts'

export { foldOutcome, type Outcome } from './outcome.ts'
export { retryLine } from './retry-line.ts'
export { StatusLine } from './status-line.ts'

const FRAMES = '⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏'
const FRAME_MS = 100
const MAX_CALL = 160
const MAX_SPEECH = 400

export interface ProgressOptions {
  readonly line: StatusLine
  readonly color: boolean
  /** A call in one line, as its tool presents it; undefined where the tool has nothing to say. */
  readonly present?: (tool: string, args: JsonValue) => string | undefined
  readonly now?: () => number
}

interface OpenCall {
  readonly text: string
  readonly startedAt: number
  progress: string
}

/** Another attempt is to come, or has been made and not yet answered. */
interface Waiting extends Pick<LiveEvent<'request/retry'>['data'], 'attempt' | 'maxAttempts' | 'next'> {
  readonly until: number
}

export class Progress {
  private readonly line: StatusLine
  private readonly color: ReturnType<typeof pc.createColors>
  private readonly present: NonNullable<ProgressOptions['present']>
  private readonly now: () => number
  private readonly startedAt: number
  private readonly calls = new Map<string, OpenCall>()
  private usage = NO_USAGE
  private streamed = 0
  private activity = 'starting'
  private waiting: Waiting | undefined
  private frame = 0
  private timer: NodeJS.Timeout | undefined

  constructor({ line, color, present, now }: ProgressOptions) {
    this.line = line
    this.color = pc.createColors(color)
    this.present = present ?? (() => undefined)
    this.now = now ?? Date.now
    this.startedAt = this.now()
  }

  /** Shows what is about to be run, and begins to redraw. `stop` has to follow. */
  start(heading: string): void {
    this.line.print(this.color.dim(oneLine(heading, MAX_SPEECH)))
    this.timer = setInterval(() => this.draw(), FRAME_MS)
    this.timer.unref()
    this.draw()
  }

  /** Takes the redrawn line away. Idempotent. */
  stop(): void {
    clearInterval(this.timer)
    this.timer = undefined
    this.line.set('')
  }

  /** Follows the session; never throws, whatever the event holds. */
  event(event: SessionEvent | LiveEvent): void {
    switch (event.type) {
      case 'step/start':
        this.activity = 'thinking'
        this.streamed = 0
        break
      case 'assistant/chunk':
        this.waiting = undefined
        this.chunk(event.data.chunk)
        break
      case 'request/failed':
        // What it had streamed is void, and what it cost is not.
        this.streamed = 0
        this.activity = 'thinking'
        if (event.data.usage) this.usage = addUsage(this.usage, event.data.usage)
        break
      case 'request/retry':
        this.waiting = { ...event.data, until: this.now() + event.data.delayMs }
        break
      case 'assistant/message':
        this.message(event.data)
        break
      case 'tool/call':
        this.calls.set(event.data.callId, {
          text: this.describe(event.data.name, event.data.arguments),
          startedAt: this.now(),
          progress: '',
        })
        break
      case 'tool/progress': {
        const call = this.calls.get(event.data.callId)
        if (call) call.progress = lastLine(event.data.data)
        return
      }
      case 'tool/result':
        this.result(event.data)
        break
      case 'compaction/started':
        this.activity = 'making the conversation shorter'
        break
      case 'compaction/ended':
        this.waiting = undefined
        this.activity = 'thinking'
        this.compacted(event.data)
        break
      case 'turn/end':
        this.waiting = undefined
        this.activity = 'finishing'
        break
      default:
        return
    }
    if (event.type !== 'assistant/chunk') this.draw()
  }

  /** One line that sums up, for the end. */
  summary(outcome: Outcome, session: string): string {
    const { dim, green, red } = this.color
    const { usage, cost } = outcome
    const facts = [
      plural(outcome.steps, 'step'),
      duration(this.now() - this.startedAt),
      ...(tokens(usage) ? [tokens(usage)] : []),
      ...(cost ? [`$${cost.toFixed(4)}`] : []),
      `session ${session}`,
    ]
    const mark = outcome.exitCode === 0 ? green('done') : red(outcome.stopReason)
    return `${mark} ${dim(`· ${facts.join(' · ')}`)}`
  }

  private chunk(chunk: LiveEvent<'assistant/chunk'>['data']['chunk']) {
    if (chunk.type === 'text-delta') {
      this.activity = 'answering'
      this.streamed += chunk.text.length
    } else if (chunk.type === 'reasoning-delta') {
      this.activity = 'thinking'
      this.streamed += chunk.text.length
    } else if (chunk.type === 'tool-call-delta') {
      this.activity = 'writing a tool call'
      this.streamed += chunk.argumentsDelta.length
    }
  }

  private message(data: SessionEvent<'assistant/message'>['data']) {
    this.streamed = 0
    this.activity = 'thinking'
    if (data.usage) this.usage = addUsage(this.usage, data.usage)
    if (data.finish !== 'tool-calls') return
    // What is said beside a call is not the answer: it is shown here, since standard output gets the answer alone.
    const speech = textOf(data.message).trim()
    if (speech) this.line.print(this.color.dim(oneLine(speech.replace(/\s+/g, ' '), MAX_SPEECH)))
  }

  private compacted({ tier, before, after, error, spent = [] }: SessionEvent<'compaction/ended'>['data']) {
    for (const { usage } of spent) this.usage = addUsage(this.usage, usage)
    const { dim } = this.color
    if (error) this.line.print(dim(oneLine(`no summary of the conversation: ${error.message}`, MAX_SPEECH)))
    if (tier) this.line.print(dim(`the conversation is shorter: ${count(before)} tokens before, ${count(after)} now`))
  }

  private result(data: SessionEvent<'tool/result'>['data']) {
    const [block] = data.message.content
    if (block?.type !== 'tool-result') return
    const call = this.calls.get(block.toolCallId)
    this.calls.delete(block.toolCallId)
    const { dim, green, red, yellow } = this.color
    const took = dim(duration(data.durationMs ?? (call ? this.now() - call.startedAt : 0)))
    const text = call?.text ?? 'a call'
    const exit = exitOf(data.meta)
    if (!block.isError && !exit) return this.line.print(`${green('✓')} ${text} ${took}`)
    const [why = ''] = (exit || data.error?.message || textIn(block.content)).split('\n', 1)
    const mark = POLICY_CODES.has(data.error?.code ?? '') ? yellow('⊘') : red('✗')
    this.line.print(`${mark} ${text} ${took}${why ? `\n  ${dim(oneLine(why, MAX_CALL))}` : ''}`)
  }

  private describe(name: string, json: string): string {
    const rest = callText(name, json, args => this.present(name, args), MAX_CALL)
    return `${this.color.bold(oneLine(name, 64))} ${rest}`
  }

  private draw() {
    if (!this.timer) return
    const frame = FRAMES[this.frame++ % FRAMES.length]
    const { cyan, dim } = this.color
    const facts = [duration(this.now() - this.startedAt), tokens(this.usage, this.streamed)].filter(Boolean).join(' · ')
    this.line.set(`${cyan(frame ?? '')} ${this.doing()} ${dim(`· ${facts}`)}`)
  }

  private doing(): string {
    const [call] = this.calls.values()
    if (!call) return this.waiting ? waitingLine(this.waiting, this.now()) : this.activity
    const more = this.calls.size > 1 ? ` and ${this.calls.size - 1} more` : ''
    const since = duration(this.now() - call.startedAt)
    return `${call.text}${more} ${this.color.dim(`${since}${call.progress ? ` · ${call.progress}` : ''}`)}`
  }
}

function waitingLine({ attempt, maxAttempts, next, until }: Waiting, now: number): string {
  if (attempt === 1) return oneLine(`asking ${next.provider}/${next.model}`, MAX_CALL)
  const left = Math.ceil((until - now) / 1000)
  return `trying again${left > 0 ? ` in ${left} s` : ''} (${attempt}/${maxAttempts})`
}

/** `1.2k in, 340 out`; an answer under way is counted by its length. */
function tokens(usage: TokenUsage, streamed = 0): string {
  const input = usage.inputTokens + usage.cacheReadTokens + usage.cacheWriteTokens
  const output = usage.outputTokens + Math.ceil(streamed / 4)
  return input + output ? `${count(input)} tokens in, ${count(output)} out` : ''
}

function textIn(content: readonly { type: string; text?: string }[]): string {
  return content.find(block => block.type === 'text')?.text?.trimStart() ?? ''
}

/** The last line of a running tool's output, where its progress has that form. */
function lastLine(data: JsonValue): string {
  const tail = typeof data === 'string' ? data : (data as { tail?: unknown } | null)?.tail
  return typeof tail === 'string' ? oneLine(tail.trimEnd().split('\n').at(-1)?.trimStart() ?? '', 80) : ''
}
