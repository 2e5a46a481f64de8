/**
 * The one way out: makes any history and any tools a request that every provider accepts, whatever is in the log.
 *
 * Afterwards: each tool call is followed by exactly one result, right behind its assistant message and in its order;
 * ids are unique; nothing is empty; text is valid Unicode; tool names, arguments and schemas are valid. Input objects
 * are never changed, and come back as they are where nothing was wrong, so that adapters may remember by identity.
 * There is always a message.
 */

import type { ImageRules } from '../adapter.ts'
import {
  type AssistantMessage,
  type CallId,
  createUserMessage,
  type ImageBlock,
  type Message,
  type ToolCallBlock,
  toolResultOf,
  type UserMessage,
} from '../message.ts'
import type { LlmRequest, ToolSchema } from '../stream.ts'
import type { LlmError } from '../web/failure.ts'
import { cleanMessage, resultMessage, wireToolName } from './clean.ts'
import { withoutForeignReplay, withoutImages } from './fitted.ts'
import { fitImages } from './images.ts'
import { repairSchema } from './schema.ts'
import { wellFormed } from './unicode.ts'

export interface Normalised {
  readonly request: LlmRequest
  /** Our name of each tool whose name had to be changed, by the name that was sent. */
  readonly toolNames: ReadonlyMap<string, string>
  /** Ids of calls in the history, as they are sent. */
  readonly callIds: ReadonlySet<string>
  /** The images that the request holds. */
  readonly images: readonly ImageBlock[]
  /** Why it cannot be made: the images that a person gave along do not fit. */
  readonly problem: LlmError | undefined
}

export interface NormaliseOptions {
  /** Whether the model reads images; one that does not is told that there was one. */
  readonly images?: boolean
  readonly imageRules?: ImageRules
  /** Images that the provider has refused before. */
  readonly refused?: (image: ImageBlock) => boolean
}

/** For a history of which nothing is left. */
const GO_ON = createUserMessage({ content: 'Continue.', source: { kind: 'plugin', plugin: 'llm' }, id: 'go-on' })

export function normaliseRequest(request: LlmRequest, options: NormaliseOptions = {}): Normalised {
  const { images: reads = true, imageRules, refused } = options
  const { messages: all, callIds } = normaliseMessages(request.messages)
  const { provider } = request
  const own = all.map(message => {
    const plain = withoutForeignReplay(message, provider)
    return reads ? plain : withoutImages(plain)
  })
  const { messages, sent, problem } = fitImages(own.length ? own : [GO_ON], {
    ...imageRules,
    provider,
    ...(refused ? { refused } : {}),
  })
  const { tools, toolNames } = normaliseTools(request.tools)
  const { system: _system, tools: _tools, ...rest } = request
  const system = request.system?.trim() ? wellFormed(request.system) : undefined
  return {
    request: { ...rest, messages, ...(system ? { system } : {}), ...(tools ? { tools } : {}) },
    toolNames,
    callIds,
    images: sent,
    problem,
  }
}

// Messages ------------------------------------------------------------------------------------------------------

/** A call that was sent, and the result that goes behind it. */
interface Slot {
  readonly call: ToolCallBlock
  readonly id: string
  result: UserMessage | undefined
}

export function normaliseMessages(messages: readonly Message[]): {
  messages: Message[]
  callIds: ReadonlySet<string>
} {
  const history = historyOf(messages)
  for (let at = history.taken.length; at < messages.length; at++) history.take(messages[at]!)
  return {
    messages: history.out.map(item => ('role' in item ? item : (item.result ?? missing(item)))),
    callIds: new Set(history.ids.taken),
  }
}

/** A conversation as far as it has been normalised: a request costs what is new in it. */
class History {
  readonly taken: Message[] = []
  readonly out: (Message | Slot)[] = []
  readonly ids = new IdSet()
  private readonly pending = new Map<string, Slot[]>()

  take(raw: Message): void {
    this.taken.push(raw)
    const { message, calls, results } = cleanMessage(raw)
    for (const { id, message: result } of results) {
      // The first result of a call counts; one without a call before it would have the request refused.
      const slot = this.pending.get(id)?.shift()
      if (slot) slot.result = slot.id === id ? result : renamedResult(result, slot.id)
    }
    if (!message) return
    if (!calls.length) {
      this.out.push(message)
      return
    }
    const slots = calls.map((call): Slot => ({ call, id: this.ids.add(call.id), result: undefined }))
    // A result goes to the latest call of its id; within one message, to the first that has none yet.
    const own = new Map<string, Slot[]>()
    for (const slot of slots) own.set(slot.call.id, [...(own.get(slot.call.id) ?? []), slot])
    for (const [id, waiting] of own) this.pending.set(id, waiting)
    this.out.push(renamedCalls(message as AssistantMessage, slots), ...slots)
  }
}

const histories = new WeakMap<Message, History>()

/** The history that these messages go on with, by the identity of each; else a new one, which takes its place. */
function historyOf(messages: readonly Message[]): History {
  const [first] = messages
  const known = first && histories.get(first)
  if (known && known.taken.length <= messages.length && known.taken.every((taken, at) => taken === messages[at])) {
    return known
  }
  const history = new History()
  if (first) histories.set(first, history)
  return history
}

class IdSet {
  readonly taken = new Set<string>()
  private readonly next = new Map<string, number>()

  /** `id` itself the first time, then a variant that nothing else has. */
  add(id: string): string {
    let candidate = id || 'call'
    for (let n = this.next.get(id) ?? 2; this.taken.has(candidate); n++) {
      candidate = `${id || 'call'}-${n}`
      this.next.set(id, n)
    }
    this.taken.add(candidate)
    return candidate
  }
}

const renamed = new WeakMap<Message, { ids: string; message: Message }>()

function renamedCalls(message: AssistantMessage, slots: readonly Slot[]): AssistantMessage {
  if (slots.every(slot => slot.id === slot.call.id)) return message
  return remember(message, JSON.stringify(slots.map(slot => slot.id)), () => {
    let at = 0
    const content = message.content.map(block =>
      block.type === 'tool-call' ? { ...block, id: slots[at++]!.id } : block,
    )
    return { ...message, content }
  })
}

function renamedResult(message: UserMessage, id: CallId): UserMessage {
  return remember(message, id, () => resultMessage({ ...toolResultOf(message)!, toolCallId: id }))
}

function remember<M extends Message>(message: M, ids: string, make: () => M): M {
  const known = renamed.get(message)
  if (known?.ids === ids) return known.message as M
  const made = make()
  renamed.set(message, { ids, message: made })
  return made
}

const absent = new WeakMap<ToolCallBlock, UserMessage>()

function missing({ call, id }: Slot): UserMessage {
  const known = absent.get(call)
  if (known && toolResultOf(known)!.toolCallId === id) return known
  const made = resultMessage({
    type: 'tool-result',
    toolCallId: id,
    content: [{ type: 'text', text: 'The call was interrupted; its outcome is unknown. Check before you repeat it.' }],
    isError: true,
  })
  absent.set(call, made)
  return made
}

// Tools ---------------------------------------------------------------------------------------------------------

interface NormalTools {
  readonly tools: readonly ToolSchema[] | undefined
  readonly toolNames: ReadonlyMap<string, string>
}

const cleanTools = new WeakMap<ToolSchema, ToolSchema>()
const toolLists = new WeakMap<readonly ToolSchema[], NormalTools>()
const NO_TOOLS: NormalTools = { tools: undefined, toolNames: new Map() }

/** Of two tools of one name the first is offered. */
export function normaliseTools(tools: readonly ToolSchema[] | undefined): NormalTools {
  if (!tools?.length) return NO_TOOLS
  const known = toolLists.get(tools)
  if (known) return known
  const byName = new Map<string, ToolSchema>()
  const toolNames = new Map<string, string>()
  for (const tool of tools) {
    const clean = cleanTool(tool)
    if (byName.has(clean.name)) continue
    byName.set(clean.name, clean)
    if (clean.name !== tool.name) toolNames.set(clean.name, tool.name)
  }
  const made = { tools: [...byName.values()], toolNames }
  // A list that somebody may still push to is not remembered.
  if (Object.isFrozen(tools)) toolLists.set(tools, made)
  return made
}

function cleanTool(tool: ToolSchema): ToolSchema {
  let clean = cleanTools.get(tool)
  if (!clean) {
    clean = {
      name: wireToolName(tool.name),
      description: wellFormed(String(tool.description ?? '')),
      parameters: repairSchema(tool.parameters),
    }
    cleanTools.set(tool, clean)
  }
  return clean
}
