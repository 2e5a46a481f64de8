/** A session as Markdown that reads well wherever Markdown is shown. */

import type { JsonValue } from '@cambium/core'
import { type ContentBlock, type ResultBlock, textOf } from '@cambium/llm'
import type { StoredSession } from '@cambium/session'
import { callText, exitOf } from '../call-text.ts'
import type { Outcome } from '../outcome.ts'
import { duration, oneLine, plural } from '../printable.ts'
import { dateTime } from './amounts.ts'
import { type CallItem, endText, type StoryItem, speakerOf, storyOf } from './story.ts'
import { imageNote, plainText, routeName, thoughtsOf, usageLine } from './story-text.ts'

export interface StoryMarkdownOptions {
  readonly title: string
  readonly redacted: boolean
  readonly usage: Outcome
  readonly present: (tool: string, args: JsonValue) => string | undefined
}

export function* storyMarkdown(stored: StoredSession, options: StoryMarkdownOptions): Generator<string> {
  const { header } = stored
  yield `# ${inline(options.title)}\n\n`
  yield `- session ${code(header.id)} in ${code(header.cwd)}\n- begun ${dateTime(header.createdAt)}\n`
  if (header.parent) yield `- a copy of ${code(header.parent.id)}\n`
  yield `- ${usageLine(options.usage)}\n`
  if (options.redacted) yield '- known keys and tokens were taken out\n'
  for (const item of storyOf(stored)) yield* part(item, options)
}

function* part(item: StoryItem, options: StoryMarkdownOptions): Generator<string> {
  switch (item.kind) {
    case 'turn':
      yield `\n## Turn ${item.turn}\n\n${dateTime(item.time)}\n`
      break
    case 'said': {
      const { message } = item
      if (message.source.kind === 'user') yield `\n**You**\n\n${quote(textIn(message.content))}\n`
      else yield `\n${folded(speakerOf(message), quote(textIn(message.content)))}\n`
      break
    }
    case 'withdrawn':
      yield `\n*Withdrawn before it was read: ${inline(oneLine(textOf(item.message), 200))}*\n`
      break
    case 'answer': {
      const thoughts = thoughtsOf(item.message)
      const text = textOf(item.message).trim()
      if (text || item.interrupted) yield `\n**${inline(speakerOf(item.message))}**\n`
      if (thoughts) yield `\n${folded('thoughts', quote(thoughts))}\n`
      if (text) yield `\n${closed(text)}\n`
      if (item.interrupted) yield '\n*Interrupted here.*\n'
      if (item.cutOff) yield "\n*Cut off by the model's output limit.*\n"
      break
    }
    case 'call':
      yield* call(item, options)
      break
    case 'model':
      if (item.insteadOf) yield note(`${routeName(item.route)} stands in for ${routeName(item.insteadOf)}`)
      else if (item.before) yield note(`The model is ${routeName(item.route)} from here on`)
      break
    case 'failed':
      yield note(`Attempt ${item.attempt} failed: ${item.message}`)
      break
    case 'replaced':
      yield `\n---\n\n*Compacted: the model reads this in place of ${plural(item.messages, 'message')} above.*\n`
      yield `\n${quote(textIn(item.message.content))}\n`
      break
    case 'shortened':
      yield note(`Compacted: the model reads ${plural(item.messages, 'message')} above shorter from here on.`)
      break
    case 'resumed':
      for (const notice of item.notices) yield note(`Taken up again: ${notice}`)
      break
    case 'copied':
      yield '\n---\n\n*Up to here it is a copy; what follows is its own.*\n'
      break
    case 'end': {
      const text = endText(item.reason)
      if (text) yield note(`Turn ${item.turn} ${text}`)
    }
  }
}

function* call(
  { name, arguments: args, rewrittenBy, result }: CallItem,
  options: StoryMarkdownOptions,
): Generator<string> {
  const text = callText(name, args, given => options.present(name, given), 400)
  const facts = [
    rewrittenBy ? `changed by ${rewrittenBy}` : '',
    result ? (result.isError ? 'failed' : exitOf(result.meta)) : 'no result',
    result?.durationMs === undefined ? '' : duration(result.durationMs),
  ].filter(Boolean)
  yield `\n**${inline(name)}** ${text ? code(text) : ''}${facts.length ? ` · ${inline(facts.join(', '))}` : ''}\n`
  const output = result ? textIn(result.content).replace(/\s+$/, '') : ''
  if (!output) return
  const lines = output.split('\n').length
  const block = fenced(output)
  yield `\n${lines > LONG_LINES ? folded(plural(lines, 'line'), block) : block}\n`
}

/** More of a result would hide what was said about it. */
const LONG_LINES = 15

function textIn(content: readonly (ContentBlock | ResultBlock)[]): string {
  return content
    .flatMap(block =>
      block.type === 'text' ? [plainText(block.text)] : block.type === 'image' ? [imageNote(block)] : [],
    )
    .join('\n\n')
}

const note = (text: string) => `\n*${inline(oneLine(text, 1_000))}*\n`

/** Text of one line in which nothing is markup. */
const inline = (text: string) => oneLine(text, 1_000).replace(/[\\`*_{}[\]<>|#~]/g, '\\$&')

/** As code in a line: what holds backticks stands between more of them. */
function code(text: string): string {
  const ticks = '`'.repeat(longest(text, /`+/g) + 1)
  const pad = text.startsWith('`') || text.endsWith('`') ? ' ' : ''
  return `${ticks}${pad}${oneLine(text, 1_000)}${pad}${ticks}`
}

/** Its fence is longer than any inside. */
function fenced(text: string): string {
  const fence = '`'.repeat(Math.max(3, longest(text, /`+/g) + 1))
  return `${fence}text\n${clean(text)}\n${fence}`
}

function longest(text: string, pattern: RegExp): number {
  let length = 0
  for (const [run] of text.matchAll(pattern)) length = Math.max(length, run.length)
  return length
}

/** A container that ends whatever was left open in it. */
const quote = (text: string) =>
  clean(text)
    .trim()
    .split('\n')
    .map(line => (line ? `> ${line}` : '>'))
    .join('\n')

const folded = (title: string, body: string) =>
  `<details><summary>${title.replace(/[&<>]/g, char => `&#${char.charCodeAt(0)};`)}</summary>\n\n${body}\n\n</details>`

/** Commands of a terminal have no place in a document. */
const clean = (text: string) =>
  text.replaceAll('\r\n', '\n').replace(/(?![\n\t])\p{Cc}|[\u202a-\u202e\u2066-\u2069]/gu, '\ufffd')

const FENCE = /^ {0,3}(`{3,}|~{3,})(.*)$/
/** A tag, a comment or the like; not an address in angle brackets. */
const HTML = /<(?=[!?/]|[a-z][a-z\d-]*(?:[\s/>]|$))/gi

/** A model's own Markdown, as it is, but what it leaves open does not swallow what follows, and HTML is text. */
function closed(text: string): string {
  let fence: string | undefined
  const lines = clean(text)
    .split('\n')
    .map(line => {
      const [, marks = '', rest = ''] = FENCE.exec(line) ?? []
      if (fence) {
        if (marks.startsWith(fence) && !rest.trim()) fence = undefined
        return line
      }
      if (marks && !(marks.startsWith('`') && rest.includes('`'))) {
        fence = marks
        return line
      }
      return outsideCode(line, part => part.replace(HTML, '\\<'))
    })
  return [...lines, ...(fence ? [fence] : [])].join('\n')
}

/** Code stands between two runs of as many backticks. */
function outsideCode(line: string, change: (part: string) => string): string {
  const runs = [...line.matchAll(/`+/g)].map(({ index, 0: { length } }) => ({ index, length }))
  const last = new Map<number, number>()
  for (const [at, { length }] of runs.entries()) last.set(length, at)
  let out = ''
  let done = 0
  for (let at = 0; at < runs.length; at++) {
    const { index, length } = runs[at]!
    if (last.get(length)! <= at) continue
    let end = at + 1
    while (runs[end]!.length !== length) end++
    const after = runs[end]!.index + length
    out += change(line.slice(done, index)) + line.slice(index, after)
    done = after
    at = end
  }
  return out + change(line.slice(done))
}
