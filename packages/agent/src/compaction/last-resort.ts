/** Makes a conversation short enough without asking a model, whatever it holds. */

import type { Message, UserBlock, UserMessage } from '@cambium/llm'
import type { Budgets } from './budgets.ts'
import { digestOf } from './digest.ts'
import { checkpoint, saidIn } from './pins.ts'
import { capMessage, longestText } from './shorten.ts'
import type { Edit, Survey } from './survey.ts'

export interface LastResortOptions {
  /** What the next request may have. */
  readonly goal: number
  /** In front of it the conversation is old. */
  readonly cut: number
  readonly budgets: Budgets
  readonly model: string
  readonly whereIs: (message: UserMessage) => Promise<string>
  readonly carry: (dropped: readonly Message[]) => Promise<readonly UserBlock[]>
  /** Leaves nothing but the checkpoint: what was tried before was refused again. */
  readonly all: boolean
}

const SHORTEST_CHARS = 200
/** Tokens. */
const LEAST_OUTLINE = 100
const STEP = 1.6
const AGAIN = 'ask for a smaller part of it'

/**
 * The mildest change that reaches the goal, or, where none does, the one that brings most; undefined when none brings
 * anything. First old results and thoughts; then an outline of what is old; then what is new, shorter; then nothing but the
 * outline and the person's words.
 */
export async function lastResort(survey: Survey, options: LastResortOptions): Promise<readonly Edit[] | undefined> {
  const { goal, cut, all } = options
  let best: readonly Edit[] | undefined
  let least = survey.size
  const reaches = (edits: readonly Edit[]): boolean => {
    const size = survey.sizeWith(edits)
    if (edits.length && size < least) {
      best = edits
      least = size
    }
    return size <= goal
  }
  if (!all) {
    if (reaches(survey.withoutOldReasoning(cut))) return best
    for (const place of new Set([cut, survey.unread])) {
      const outline = await outlineOf(survey, place, options)
      if (reaches(outline)) return best
      if (place !== survey.unread) continue
      for (const tail of shorterTails(survey, place, await placesOf(survey, place, options))) {
        if (reaches([...outline, ...tail])) return best
      }
    }
  }
  for (let share = 1; share > 0.05; share /= 2) {
    if (reaches(await outlineOf(survey, survey.nodes.length, options, share))) return best
  }
  return best
}

/** A checkpoint in the place of all that stands in front of `place`; none where there is nothing to gain. */
async function outlineOf(survey: Survey, place: number, options: LastResortOptions, share = 1): Promise<Edit[]> {
  const dropped = survey.messages.slice(0, place)
  if (!dropped.length || (survey.isSummedUp(place) && place < survey.nodes.length)) return []
  const { budgets, model, whereIs, carry } = options
  const message = await checkpoint({
    form: 'digest',
    text: kept => digestOf(dropped, share * Math.max(budgets.summary, LEAST_OUTLINE), model, kept),
    said: saidIn(dropped, survey.session),
    pinnedTokens: share * budgets.pinned,
    lastTokens: share * budgets.last,
    carry: await carry(dropped),
    carryTokens: share * budgets.carry,
    price: one => survey.price(one),
    whereIs,
  })
  return survey.price(message) < survey.priceOf(0, place) ? [{ from: 0, to: place - 1, message }] : []
}

/** Where the whole of each thing that a person said can be read, as far as one of them may have to be cut. */
async function placesOf(survey: Survey, from: number, { goal, whereIs }: LastResortOptions) {
  const places = new Map<Message, string>()
  for (const [at, message] of survey.messages.entries()) {
    if (at < from || message.role !== 'user' || !isSaid(message)) continue
    if (survey.prices[at]! * 2 > goal - survey.base) places.set(message, await whereIs(message))
  }
  return places
}

const isSaid = ({ source }: Message) =>
  source.kind === 'user' || (source.kind === 'compaction' && source.form === 'shortened')

/** The messages from `from` on with ever shorter texts: first those of tools and plugins, then what the person said as well. */
function* shorterTails(survey: Survey, from: number, places: ReadonlyMap<Message, string>): Generator<Edit[]> {
  const tail = survey.messages.slice(from)
  const edit = (chars: number, which: (message: Message) => boolean): Edit[] =>
    tail.flatMap((message, at) => {
      if (message.role !== 'user' || !which(message)) return []
      const where = isSaid(message) ? (places.get(message) ?? '') : AGAIN
      const made = capMessage(message, { chars, images: false, where })
      return made === message ? [] : [{ from: from + at, to: from + at, message: made }]
    })
  const longest = (which: (message: Message) => boolean) =>
    Math.max(0, ...tail.map(message => (message.role === 'user' && which(message) ? longestText(message) : 0)))
  const others = (message: Message) => !isSaid(message)
  let rest: Edit[] = []
  for (let chars = longest(others); chars >= SHORTEST_CHARS; chars /= STEP) {
    rest = edit(Math.floor(chars), others)
    yield rest
  }
  for (let chars = longest(isSaid); chars >= SHORTEST_CHARS; chars /= STEP) {
    yield [...rest, ...edit(Math.floor(chars), isSaid)]
  }
}
