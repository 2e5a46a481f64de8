/** A conversation as it stands before it is made shorter: its messages, what each costs, and what a change would bring. */

import type { LlmService, Message } from '@cambium/llm'
import type { Session, SurfaceNode } from '@cambium/session'
import type { Envelope } from './contract.ts'
import { answeredUpTo, balancedCuts, isCheckpoint, unreadFrom } from './cuts.ts'
import { shortenResult, withoutReasoning } from './shorten.ts'
import { sizeOf } from './size.ts'

/** One message in the place of those from node `from` to node `to`, by their places on the surface, both inclusive. */
export interface Edit {
  readonly from: number
  readonly to: number
  readonly message: Message
}

/** How far a provider's count may be from ours before the difference is held to be something that is not ours to change. */
const SCALE = { least: 0.5, most: 2 }

export class Survey {
  readonly session: Session
  readonly nodes: readonly SurfaceNode[]
  readonly messages: readonly Message[]
  /** Tokens of each message. */
  readonly prices: readonly number[]
  /** Tokens of the next request. */
  readonly size: number
  /** How much more that is than we measure. */
  readonly ratio: number
  /** Of it, all that is no message: system prompt, tools, and what the provider counts beside ours. */
  readonly base: number
  readonly cuts: readonly boolean[]
  /** The place of the first message that the model has not answered. */
  readonly unread: number
  private readonly scale: number
  private readonly llm: LlmService
  private readonly envelope: Envelope

  /** `least`: what the request is known to have at least, by the provider that refused it. */
  constructor(session: Session, llm: LlmService, envelope: Envelope, least = 0) {
    this.session = session
    this.llm = llm
    this.envelope = envelope
    this.nodes = session.surface()
    this.messages = this.nodes.map(({ message }) => message)
    const measured = sizeOf(session, llm, envelope)
    this.size = Math.max(least, measured)
    this.ratio = this.size / (measured || 1)
    const { config, system, tools } = envelope
    const request = { ...(system === undefined ? {} : { system }), tools, messages: session.deriveMessages() }
    const estimated = llm.meter.estimate(config, request) || 1
    // What was refused for its length is taken to be long in every part: there is nothing else to go by.
    const most = least > measured ? Number.POSITIVE_INFINITY : SCALE.most
    this.scale = Math.min(most, Math.max(SCALE.least, this.size / estimated))
    this.prices = this.messages.map(message => this.price(message))
    this.base = Math.max(0, this.size - sum(this.prices))
    this.cuts = balancedCuts(this.messages)
    this.unread = unreadFrom(this.messages, this.cuts)
  }

  /** Tokens of a message, as the provider counts. */
  price(message: Message): number {
    if (!message.content.length) return 0
    return this.scale * this.llm.meter.estimate(this.envelope.config, { messages: [message] })
  }

  /** The same by our own measure, whatever the provider counts. */
  ownPriceOf(from: number, to: number): number {
    return this.priceOf(from, to) / this.scale
  }

  priceOf(from: number, to: number): number {
    return sum(this.prices.slice(from, to))
  }

  /** Tokens of the next request after these changes, of which none may overlap. */
  sizeWith(edits: readonly Edit[]): number {
    return edits.reduce(
      (size, { from, to, message }) => size - this.priceOf(from, to + 1) + this.price(message),
      this.size,
    )
  }

  /** Old results shorter, in front of `cut`. */
  shorterResults(cut: number): Edit[] {
    return this.rewrite(cut, shortenResult)
  }

  /** … and answers of turns that are over without what was thought. What a running turn has thought goes back with its calls. */
  withoutOldReasoning(cut: number): Edit[] {
    const answered = answeredUpTo(this.messages)
    return this.rewrite(cut, (message, at) => (at < answered ? withoutReasoning(message) : message), shortenResult)
  }

  /** True when nothing lies in front of `cut` but what stands for something already. */
  isSummedUp(cut: number): boolean {
    return this.messages.slice(0, cut).every(({ source, content }) => isCheckpoint(source) || !content.length)
  }

  private rewrite(cut: number, ...ways: ((message: Message, at: number) => Message)[]): Edit[] {
    return this.messages.slice(0, cut).flatMap((message, at) => {
      const made = ways.reduce((so, way) => way(so, at), message)
      return made === message || this.price(made) >= this.prices[at]! ? [] : [{ from: at, to: at, message: made }]
    })
  }
}

const sum = (values: readonly number[]) => values.reduce((a, b) => a + b, 0)
