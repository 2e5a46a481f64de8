/**
 * Puts the fragments of parallel tool calls together. Providers agree on little: some give an id with every fragment,
 * some with the first, some none; indexes are missing, repeated or wrong. Rules: a known id owns its fragment; a new id
 * is a new call, whatever its index; a fragment without id belongs to the latest call of its index, or else to the
 * call that is open. What cannot be decided fails the calls concerned, so that nothing runs with glued arguments.
 */

import type { JsonObject } from '@cambium/core'
import { isComplete, isObject } from '../answer/arguments.ts'
import { CallId, type ToolCallBlock } from '../message.ts'
import type { StreamChunk } from '../stream.ts'
import { isRecord } from '../web/value.ts'

interface Call {
  readonly block: number
  readonly index: number | undefined
  id: string
  name: string
  text: string
  pending: string
  started: boolean
  /** Got a fragment that named neither it nor its index. */
  guessed: boolean
  problem: string | undefined
  extra: JsonObject | undefined
}

interface Fragment {
  readonly id: string
  readonly index: number | undefined
  readonly name: string
  readonly text: string
}

export class CallAssembler {
  private readonly calls: Call[] = []
  /** By id and by index, since a fragment may be one of very many. */
  private readonly idCalls = new Map<string, Call[]>()
  private readonly latestAt = new Map<number, Call>()
  private readonly changed = new Set<Call>()
  private readonly nextBlock: () => number
  private current: Call | undefined

  constructor(nextBlock: () => number) {
    this.nextBlock = nextBlock
  }

  get size(): number {
    return this.calls.length
  }

  push(delta: Record<string, unknown>): void {
    const made = isRecord(delta['function']) ? delta['function'] : {}
    const args = made['arguments']
    const fragment: Fragment = {
      id: typeof delta['id'] === 'string' ? delta['id'] : '',
      index: typeof delta['index'] === 'number' ? delta['index'] : undefined,
      name: typeof made['name'] === 'string' ? made['name'] : '',
      text: typeof args === 'string' ? args : isRecord(args) ? JSON.stringify(args) : '',
    }
    const call = fragment.id ? this.byId(fragment) : this.withoutId(fragment)
    call.text += fragment.text
    call.pending += fragment.text
    if (isRecord(delta['extra_content'])) call.extra = delta['extra_content'] as JsonObject
    this.changed.add(call)
    this.current = call
  }

  private byId(fragment: Fragment): Call {
    const { id, index, name, text } = fragment
    const same = this.idCalls.get(id)
    if (!same) {
      const nameless = this.atIndex(index)
      if (!nameless || nameless.id || name) return this.open(fragment)
      nameless.id = id
      this.idCalls.set(id, [nameless])
      return nameless
    }
    const here = this.atIndex(index)
    // On an index that has another call by now, an older one of this id may stand.
    const own = here && (here.id === id ? here : same.findLast(call => call.index === index))
    const call = own ?? same[same.length - 1]!
    if (!name) return call
    // A repeated id that names a tool on another index, or behind complete arguments, is another call.
    const elsewhere = index !== undefined && call.index !== index && !here
    return elsewhere || beginsAgain(call, text) ? this.open(fragment) : call
  }

  private withoutId(fragment: Fragment): Call {
    const { index, name, text } = fragment
    const known = this.atIndex(index)
    const call = known ?? (name && index !== undefined ? undefined : this.current)
    if (!call) {
      const opened = this.open(fragment)
      if (!name) opened.problem = 'its arguments came before any tool was named'
      return opened
    }
    if (name) {
      if (!call.name) call.name = name
      else if (call.name !== name || beginsAgain(call, text)) {
        if (!isComplete(call.text)) call.problem = `a call of "${name}" began inside its arguments`
        return this.open(fragment)
      }
    }
    if (!known && text) call.guessed = true
    return call
  }

  private atIndex(index: number | undefined): Call | undefined {
    return index === undefined ? undefined : this.latestAt.get(index)
  }

  private open({ id, index, name }: Fragment): Call {
    const call: Call = {
      block: this.nextBlock(),
      index,
      id,
      name,
      text: '',
      pending: '',
      started: false,
      guessed: false,
      problem: undefined,
      extra: undefined,
    }
    this.calls.push(call)
    if (index !== undefined) this.latestAt.set(index, call)
    if (id) {
      const same = this.idCalls.get(id)
      if (same) same.push(call)
      else this.idCalls.set(id, [call])
    }
    return call
  }

  flush(): StreamChunk[] {
    const changed = [...this.changed].sort((a, b) => a.block - b.block)
    this.changed.clear()
    return changed.flatMap(call => {
      const out: StreamChunk[] = []
      const { block: index, id, name, pending } = call
      if (!call.started) {
        out.push({ type: 'block-start', index, blockType: 'tool-call' })
        out.push({ type: 'tool-call-delta', index, id: CallId(id), name, argumentsDelta: pending })
      } else if (pending) {
        out.push({ type: 'tool-call-delta', index, id: CallId(id), argumentsDelta: pending })
      }
      call.started = true
      call.pending = ''
      return out
    })
  }

  /** Ends the calls. When the output limit `cut` the answer inside a call, that one and incomplete ones stay open. */
  end(cut: boolean): StreamChunk[] {
    const out = this.flush()
    const glued = this.calls.some(call => call.guessed && !isComplete(call.text))
    for (const call of this.calls) {
      if (cut && (call === this.current || !isComplete(call.text))) continue
      if (!call.name) call.problem ??= 'the call names no tool'
      if (glued && !isObject(call.text)) call.problem ??= 'its arguments came mixed up with those of another call'
      out.push({ type: 'block-end', index: call.block, block: toBlock(call) })
    }
    return out
  }
}

function toBlock({ id, name, text, problem, extra }: Call): ToolCallBlock {
  return {
    type: 'tool-call',
    id: CallId(id),
    name,
    // No JSON, so that the call fails with these words wherever it is run, and the model reads them again.
    arguments: problem === undefined ? text : `(garbled: ${problem}) ${text}`,
    ...(extra === undefined ? {} : { replay: { extra_content: extra } }),
  }
}

/** Whether a fragment that names the tool opens other arguments behind complete ones. */
function beginsAgain(call: Call, text: string): boolean {
  return text.trimStart().startsWith('{') && isObject(call.text)
}
