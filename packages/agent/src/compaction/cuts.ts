/** Where a conversation may be cut: nowhere between a call and its result. */

import type { Message } from '@cambium/llm'

/**
 * For each place from 0 (before the first message) to the end, whether what stands before it and what stands behind it
 * are whole: no call here whose result is there.
 */
export function balancedCuts(messages: readonly Message[]): boolean[] {
  const crossed = new Array<number>(messages.length + 2).fill(0)
  const calledAt = new Map<string, number>()
  const answeredAt = new Map<number, number>()
  for (const [at, message] of messages.entries()) {
    for (const block of message.content) {
      if (block.type === 'tool-call') calledAt.set(block.id, at)
      // A second result of the same call belongs to it as well.
      else if (block.type === 'tool-result' && calledAt.has(block.toolCallId)) {
        const call = calledAt.get(block.toolCallId)!
        answeredAt.set(call, Math.max(at, answeredAt.get(call) ?? 0))
      }
    }
  }
  for (const [call, answer] of answeredAt) {
    crossed[call + 1]!++
    crossed[answer + 1]!--
  }
  const cuts: boolean[] = []
  let open = 0
  for (let at = 0; at <= messages.length; at++) {
    open += crossed[at]!
    cuts.push(open === 0)
  }
  return cuts
}

/** The last place not behind `at` where nothing is cut through. */
export function cutAtOrBefore(cuts: readonly boolean[], at: number): number {
  let place = Math.min(at, cuts.length - 1)
  while (place > 0 && !cuts[place]) place--
  return Math.max(0, place)
}

/** Where that begins which the model has not answered: the calls that are open with their results, and what was said last. */
export function unreadFrom(messages: readonly Message[], cuts: readonly boolean[]): number {
  const last = messages.findLastIndex(({ role }) => role === 'assistant')
  const checkpoint = messages.findLastIndex(({ source }) => isCheckpoint(source))
  if (last < 0) return cutAtOrBefore(cuts, checkpoint + 1)
  const calls = messages[last]!.content.some(block => block.type === 'tool-call')
  return cutAtOrBefore(cuts, calls ? last : Math.max(last, checkpoint) + 1)
}

/** Up to where the turns before this one go: the place behind the last answer that called nothing. */
export function answeredUpTo(messages: readonly Message[]): number {
  return (
    1 +
    messages.findLastIndex(
      ({ role, content }) => role === 'assistant' && !content.some(block => block.type === 'tool-call'),
    )
  )
}

/** Leaves as much as possible behind the cut, up to `tokens`, and all that is unread. */
export function cutFor(
  prices: readonly number[],
  cuts: readonly boolean[],
  { tokens, unread }: { tokens: number; unread: number },
): number {
  let best = unread
  let behind = 0
  for (let at = prices.length - 1; at >= 0; at--) {
    behind += prices[at]!
    if (behind > tokens) break
    if (cuts[at] && at < best) best = at
  }
  return best
}

/** True for a message of ours that stands for a part of the conversation. */
export function isCheckpoint(source: Message['source']): boolean {
  return source.kind === 'compaction' && source.form !== 'shortened'
}
