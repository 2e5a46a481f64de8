/** The message that stands for the older part of a conversation: a summary, and what the person said, word for word. */

import { createUserMessage, type Message, newMessageId, type UserBlock, type UserMessage } from '@cambium/llm'
import { isIntact, type Session } from '@cambium/session'
import { capMessage, originOf } from './shorten.ts'

/**
 * What a person said in `messages` and what earlier checkpoints among them repeat, oldest first and as it was sent: a
 * shortened message is looked up in the log.
 */
export function saidIn(messages: readonly Message[], session: Session): UserMessage[] {
  const wanted = new Set<string>()
  for (const message of messages) {
    const { source } = message
    if (source.kind === 'user') wanted.add(message.id)
    else if (source.kind === 'compaction') {
      for (const id of source.pinned ?? []) wanted.add(id)
      if (source.form === 'shortened') wanted.add(originOf(message))
    }
  }
  if (!wanted.size) return []
  const said = new Map<string, UserMessage>()
  for (const event of session.events()) {
    if (event.type !== 'user/message' || !isIntact(event)) continue
    const { message } = event.data
    if (wanted.has(message.id) && message.source.kind === 'user') said.set(message.id, message)
  }
  return [...said.values()]
}

export interface CheckpointParts {
  readonly form: 'summary' | 'digest'
  /** `kept`: ids of what the person said and stands beside it. */
  readonly text: (kept: ReadonlySet<string>) => string
  /** Oldest first. */
  readonly said: readonly UserMessage[]
  /** Tokens for what was said, and for the last of it, which is what the model works at. */
  readonly pinnedTokens: number
  readonly lastTokens: number
  readonly carry: readonly UserBlock[]
  readonly carryTokens: number
  readonly price: (message: Message) => number
  /** Where the whole of a message that is shortened can be read. */
  readonly whereIs: (message: UserMessage) => Promise<string>
}

const FORMS = {
  summary: 'What was said before this point was summed up to save room. Go on from here as if you had it all in mind.',
  digest:
    'What was said before this point was left out to save room, and no model was there to sum it up: what follows is an ' +
    'outline. Look again at what you need.',
}

export async function checkpoint(parts: CheckpointParts): Promise<UserMessage> {
  const { form, text, carry, carryTokens, price } = parts
  const { kept, left } = await pinned(parts)
  const ids = kept.map(originOf)
  const content: UserBlock[] = [note(`[${FORMS[form]}]`), note(`<${form}>\n${text(new Set(ids))}\n</${form}>`)]
  if (carry.length) content.push(...fitted(asMessage(carry), carryTokens, price, '').content)
  if (kept.length) {
    const older = left ? ` ${left} earlier ones are left out.` : ''
    content.push(
      note(`[What the person said until then, word for word and in order.${older} It has been read already.]`),
    )
    for (const message of kept) content.push(...message.content.filter(({ type }) => type !== 'tool-result'))
    content.push(note('[The conversation goes on from here.]'))
  }
  return createUserMessage({ content, source: { kind: 'compaction', form, ...(ids.length ? { pinned: ids } : {}) } })
}

const note = (text: string): UserBlock => ({ type: 'text', text })
const asMessage = (content: readonly UserBlock[]): UserMessage =>
  createUserMessage({ content, source: { kind: 'compaction', form: 'shortened' } })

/** Tokens below which a part of a message tells nothing. */
const LEAST_PART = 60
/** What the person said last has so much room in any case. */
const LEAST_LAST = 120

/** The newest that have room, whole; the first that has not, cut in the middle, is the last. */
async function pinned({ said, pinnedTokens, lastTokens, price, whereIs }: CheckpointParts) {
  const kept: UserMessage[] = []
  let left = pinnedTokens
  for (let at = said.length - 1; at >= 0; at--) {
    const message = said[at]!
    const room = at === said.length - 1 ? Math.max(left, lastTokens, LEAST_LAST) : left
    const tokens = price(message)
    if (tokens <= room) {
      kept.unshift(message)
      left -= tokens
      continue
    }
    if (room >= LEAST_PART) {
      const where = await whereIs(message)
      kept.unshift(fitted(message, room, price, where))
    }
    break
  }
  return { kept, left: said.length - kept.length }
}

/** The message with so much of each text that all of it has room. */
export function fitted(
  message: UserMessage,
  tokens: number,
  price: (message: Message) => number,
  where: string,
): UserMessage {
  if (price(message) <= tokens) return message
  const longest = message.content.reduce(
    (most, block) => Math.max(most, block.type === 'text' ? block.text.length : 0),
    0,
  )
  for (let chars = longest; chars > 16; chars = Math.floor(chars / 1.5)) {
    const cut = capMessage(message, { chars, images: chars === longest, where })
    if (price(cut) <= tokens) return cut
  }
  const content = [note(`[A message that has no room here${where ? `; ${where}` : ''}.]`)]
  return {
    ...message,
    id: newMessageId(),
    content,
    source: { kind: 'compaction', form: 'shortened', of: originOf(message) },
  }
}
