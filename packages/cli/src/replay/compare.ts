/** What of two logs must be the same, and where they part first. */

import type { ContentBlock } from '@cambium/llm'
import { isIntact, type SessionEvent } from '@cambium/session'
import type { Recording } from './recording.ts'

/** Both texts of the first thing that differs. */
export interface Divergence {
  readonly turn: number
  readonly step: number
  /** In words: `the result of grep`. */
  readonly what: string
  /** Undefined where nothing more was recorded. */
  readonly expected?: string
  /** Undefined where nothing came. */
  readonly came?: string
}

export interface Comparable {
  readonly turn: number
  readonly step: number
  readonly seq: number
  /** Results come when their tools end; everything else is in one order. */
  readonly lane: 'main' | 'results'
  readonly noun: string
  readonly parts: readonly (readonly [what: string, text: string])[]
}

/**
 * What sessions own lies elsewhere in each. A text that comes from the recording names the files of the recorded one, or of
 * the one that it is a copy of; what is said anew, those of the replay.
 */
const SESSION_FILES = /[^\s"'()]*\/[^\s"'()/]+\.files\//g

/** Gives each event of a log that counts its place and its words. */
export class Reader {
  private turn = 0
  private step = 0
  private readonly names = new Map<string, string>()

  read(event: SessionEvent): Comparable | undefined {
    if (!isIntact(event)) return undefined
    if (event.type === 'turn/start') this.turn = event.data.turn
    if (event.type === 'turn/start' || event.type === 'step/end') this.step = 0
    if (event.type === 'step/start') this.step = event.data.step
    if (event.type === 'tool/call') this.names.set(event.data.callId, event.data.name)
    const said = this.say(event)
    if (!said) return undefined
    const [noun, ...parts] = said
    const { turn, step } = this
    const lane = event.type === 'tool/result' ? 'results' : 'main'
    return { turn, step, seq: event.seq, lane, noun, parts: parts.map(([what, text]) => [what, this.placeless(text)]) }
  }

  private placeless(text: string): string {
    return text.includes('.files/') ? text.replace(SESSION_FILES, '<files of the session>/') : text
  }

  private say(event: SessionEvent): [noun: string, ...parts: [string, string][]] | undefined {
    switch (event.type) {
      case 'user/message': {
        const { source, content } = event.data.message
        const who = source.kind === 'plugin' ? `plugin ${source.plugin}` : source.kind
        return ['a message', ['who a message is from', who], ['a message', textOf(content)]]
      }
      case 'request/header': {
        const { config, system = '', tools = [] } = event.data
        const each = tools.map(tool => [`the tool ${tool.name}`, json(tool)] as [string, string])
        const names = tools.map(({ name }) => name).join('\n')
        return ['a request', ['the model', json(config)], ['the system prompt', system], ['the tools', names], ...each]
      }
      case 'assistant/message': {
        const { message, finish, usage, interrupted } = event.data
        const end = interrupted ? 'interrupted' : finish
        const content = textOf(message.content)
        return ['an answer', ['an answer', content], ['the end of an answer', end], ['the usage', json(usage ?? null)]]
      }
      case 'request/failed':
        return ['a failure', ['a failure', event.data.failure.code]]
      case 'tool/call': {
        const { name, arguments: args } = event.data
        return ['a call', ['the tool that is called', name], [`the arguments of ${name}`, args]]
      }
      case 'tool/rewritten':
        return ['changed arguments', ['the arguments in use', json(event.data.arguments)]]
      case 'tool/result': {
        const [block] = event.data.message.content
        if (block?.type !== 'tool-result') return undefined
        const name = this.names.get(block.toolCallId) ?? block.toolCallId
        const outcome = event.data.error?.code ?? (block.isError ? 'error' : 'success')
        const result = [`the result of ${name}`, textOf(block.content)] as [string, string]
        return [`the result of ${name}`, [`the outcome of ${name}`, `${outcome}\n${result[1]}`], result]
      }
      case 'context/replaced':
        return ['a compaction', ['what stands for the conversation', textOf(event.data.message.content)]]
      case 'turn/end':
        return ['the end of the turn', ['why the turn ended', json(event.data.reason)]]
      default:
        return undefined
    }
  }
}

/** What each recorded turn has to come to, by the seq at which it begins. */
export function expectedOf({ events, turns }: Recording, headers: boolean): Map<number, Comparable[]> {
  const reader = new Reader()
  let next = 0
  return new Map(
    turns.map(({ from, to }) => {
      const own: Comparable[] = []
      for (; next <= to; next++) {
        const item = reader.read(events[next]!)
        if (item && next >= from && counts(item, headers)) own.push(item)
      }
      return [from, own]
    }),
  )
}

/** What requests are made with is compared only where that is asked for. */
export const counts = ({ noun }: Comparable, headers: boolean): boolean => headers || noun !== 'a request'

/** Compares as it comes; stops at the first difference. */
export class Comparison {
  divergence: Divergence | undefined
  private readonly lanes = { main: [] as Comparable[], results: [] as Comparable[] }
  private readonly next = { main: 0, results: 0 }
  private muted = false

  /** What has to come, behind what is expected already. */
  expect(list: readonly Comparable[]): void {
    this.lanes.main = list.filter(({ lane }) => lane === 'main')
    this.lanes.results = list.filter(({ lane }) => lane === 'results')
    this.next.main = 0
    this.next.results = 0
    this.muted = false
  }

  /** What comes until the next `expect` is not compared. */
  mute(): void {
    this.muted = true
  }

  /** The counterpart of what came, where both are the same. */
  take(came: Comparable): Comparable | undefined {
    if (this.muted || this.divergence) return undefined
    const expected = this.lanes[came.lane][this.next[came.lane]++]
    if (!expected) {
      this.diverge({ ...at(came), what: `${came.noun} that was not recorded`, came: last(came) })
      return undefined
    }
    if (expected.noun !== came.noun) {
      this.diverge({
        ...at(expected),
        what: `${expected.noun} was recorded, ${came.noun} came`,
        expected: last(expected),
        came: last(came),
      })
      return undefined
    }
    const differs = difference(expected, came)
    if (!differs) return expected
    this.diverge({ ...at(expected), ...differs })
    return undefined
  }

  /** Nothing more comes: what is still expected is missing. */
  end(): void {
    if (this.muted || this.divergence) return
    const missing = [this.lanes.main[this.next.main], this.lanes.results[this.next.results]]
    const [first] = missing.filter(item => item !== undefined).sort((a, b) => a.seq - b.seq)
    if (first)
      this.diverge({ ...at(first), what: `${first.noun} was recorded and did not come`, expected: last(first) })
  }

  diverge(divergence: Divergence): void {
    this.divergence ??= divergence
  }
}

const at = ({ turn, step }: Comparable) => ({ turn, step })
const last = ({ parts }: Comparable) => parts.at(-1)?.[1] ?? ''

function difference(expected: Comparable, came: Comparable): Omit<Divergence, 'turn' | 'step'> | undefined {
  const count = Math.max(expected.parts.length, came.parts.length)
  for (let index = 0; index < count; index++) {
    const [what, text] = expected.parts[index] ?? []
    const [other, now] = came.parts[index] ?? []
    if (text !== now || what !== other) {
      return {
        what: what ?? other ?? '',
        ...(text === undefined ? {} : { expected: text }),
        ...(now === undefined ? {} : { came: now }),
      }
    }
  }
  return undefined
}

const json = (value: unknown) => JSON.stringify(value, null, 2)

function textOf(content: readonly ContentBlock[]): string {
  return content
    .map(block => {
      if (block.type === 'text') return block.text
      if (block.type === 'image') return `[image ${block.mediaType}, ${block.data.length} characters]`
      if (block.type === 'reasoning') return `[reasoning] ${block.text}`
      if (block.type === 'tool-call') return `[call] ${block.name} ${block.arguments}`
      return json(block)
    })
    .join('\n')
}
