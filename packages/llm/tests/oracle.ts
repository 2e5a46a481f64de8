/** What a stream really says about tool calls, read without any of the product's own readers. */

import type { ModelProtocol } from '@cambium/testkit'
import { createParser } from 'eventsource-parser'

type Json = Record<string, unknown>
const isObject = (value: unknown): value is Json => typeof value === 'object' && value !== null && !Array.isArray(value)
const textOf = (value: unknown) => (typeof value === 'string' ? value : isObject(value) ? JSON.stringify(value) : '')
const listOf = (value: unknown): Json[] => (Array.isArray(value) ? value.filter(isObject) : [])

/** The parsed events of a body up to its end mark, each with its type or else its name; what is no JSON is left out. */
export function eventsIn(bytes: Buffer): Json[] {
  const events: Json[] = []
  let ended = false
  const parser = createParser({
    onEvent: ({ data: text, event: name }) => {
      // Blanks of any kind around an event change nothing of it.
      const data = text.trim()
      ended ||= data === '[DONE]'
      if (ended) return
      try {
        const value: unknown = JSON.parse(data)
        if (!isObject(value)) return
        const type = typeof value['type'] === 'string' ? value['type'] : name
        events.push({ ...value, type })
        ended = /^(message_stop|response\.(completed|incomplete))$/.test(type ?? '')
      } catch {
        // A broken one says nothing.
      }
    },
  })
  parser.feed(`${new TextDecoder().decode(bytes)}\n\n`)
  return events
}

/** One call that a stream opens, and the pieces that may be its arguments, in order. */
interface Opening {
  readonly name: string
  /** `own` ones are said to be its; of others the stream does not say whose they are. */
  readonly pieces: readonly { readonly text: string; readonly own: boolean }[]
  /** The arguments as the stream says them in one piece. */
  readonly wholes: readonly string[]
}

/** Whether the stream contains, for one call of this name, exactly these arguments. */
export function contains(protocol: ModelProtocol, events: readonly Json[], name: string, args: string): boolean {
  const openings = { chat: chatOpenings, messages: messagesOpenings, responses: responsesOpenings }[protocol](events)
  return openings.some(
    opening => opening.name === name && (opening.wholes.includes(args) || composes(opening.pieces, args)),
  )
}

/** All own pieces and any of the others, in order, make up the text. */
function composes(pieces: Opening['pieces'], text: string): boolean {
  let reached = new Set([0])
  for (const piece of pieces) {
    const next = new Set(piece.own ? [] : reached)
    for (const at of reached) if (text.startsWith(piece.text, at)) next.add(at + piece.text.length)
    reached = next
  }
  return reached.has(text.length)
}

function chatOpenings(events: readonly Json[]): Opening[] {
  const fragments = events.flatMap(event => {
    const choices = listOf(event['choices']).filter(choice => (choice['index'] ?? 0) === 0)
    return choices.slice(0, 1).flatMap(choice =>
      listOf((isObject(choice['delta']) ? choice['delta'] : {})['tool_calls']).map(call => {
        const made = isObject(call['function']) ? call['function'] : {}
        return {
          id: typeof call['id'] === 'string' ? call['id'] : '',
          index: typeof call['index'] === 'number' ? call['index'] : undefined,
          name: typeof made['name'] === 'string' ? made['name'] : '',
          text: textOf(made['arguments']),
        }
      }),
    )
  })
  return fragments.flatMap((opening, at) => {
    if (!opening.name) return []
    // A new id on its index, or a new name where nobody has ids, begins another call there.
    const rest = fragments.slice(at + 1)
    const end = rest.findIndex(
      ({ id, index, name }) =>
        index === opening.index &&
        ((id && id !== opening.id && (opening.id || name)) || (name && !id && name !== opening.name)),
    )
    const pieces = rest.map(({ id, index, text }, place) => {
      const here = index === opening.index && (end < 0 || place < end)
      // An id may come with a later fragment.
      const own = id && opening.id ? id === opening.id && here : index !== undefined && here
      const known = fragments.slice(0, at + 1 + place).some(other => other.index === index && other.name)
      const nobodys = id ? id === opening.id : index === undefined || !known
      return { text, own, nobodys: nobodys || (!own && id === opening.id && id !== '') }
    })
    const usable = pieces.filter(piece => piece.own || piece.nobodys)
    // Where ids are missing or repeat, a fragment that names the tool again may begin a call of its own.
    const loose = usable.map(piece => ({ ...piece, own: false }))
    const first = { text: opening.text, own: true }
    const repeats = fragments.some((other, place) => place !== at && other.name && other.id === opening.id)
    return [{ name: opening.name, pieces: [first, ...(repeats ? loose : usable)], wholes: [] }]
  })
}

function messagesOpenings(events: readonly Json[]): Opening[] {
  return events.flatMap((event, at) => {
    const block = event['type'] === 'content_block_start' ? event['content_block'] : undefined
    if (!isObject(block) || block['type'] !== 'tool_use' || typeof block['name'] !== 'string') return []
    const index = event['index']
    const rest = events.slice(at + 1)
    const end = rest.findIndex(other => isObject(other['content_block']) && other['index'] === index)
    const later = end < 0 ? rest : rest.slice(0, end)
    const next = later.findIndex(other => other['type'] === 'content_block_start')
    const pieces = later.flatMap((other, place) => {
      const delta = other['type'] === 'content_block_delta' ? other['delta'] : undefined
      if (!isObject(delta) || delta['type'] !== 'input_json_delta') return []
      if (typeof delta['partial_json'] !== 'string') return []
      // Without an index it is about the block that began last.
      const keyed = typeof other['index'] === 'number'
      const own = keyed ? other['index'] === index : next < 0 || place < next
      return own || !keyed || typeof index !== 'number' ? [{ text: delta['partial_json'], own }] : []
    })
    const input = block['input']
    const first =
      typeof input === 'string' ? input : isObject(input) && Object.keys(input).length ? JSON.stringify(input) : ''
    return [{ name: block['name'], pieces: [{ text: first, own: true }, ...pieces], wholes: [] }]
  })
}

function responsesOpenings(events: readonly Json[]): Opening[] {
  const items = events.flatMap(event => {
    const response = isObject(event['response']) ? listOf(event['response']['output']) : []
    const all = isObject(event['item']) ? [event['item'], ...response] : response
    return all
      .filter(item => item['type'] === 'function_call' && typeof item['name'] === 'string')
      .map(item => ({ item, place: event['output_index'] }))
  })
  return items.map(({ item, place }) => {
    const about = events.filter(event => {
      const id = event['item_id']
      return id === item['id'] || (place !== undefined && event['output_index'] === place)
    })
    const pieces = events.flatMap(event => {
      if (event['type'] !== 'response.function_call_arguments.delta' || typeof event['delta'] !== 'string') return []
      const known = items.some(other => other.item['id'] === event['item_id'])
      if (known && event['item_id'] !== item['id'] && event['output_index'] !== place) return []
      return [{ text: event['delta'], own: event['item_id'] === item['id'] && event['output_index'] === place }]
    })
    const same = items.filter(other => other.item['id'] === item['id'] || other.item['call_id'] === item['call_id'])
    const wholes = [
      ...same.map(other => textOf(other.item['arguments'])),
      ...about.flatMap(event =>
        event['type'] === 'response.function_call_arguments.done' ? textOf(event['arguments']) : [],
      ),
    ]
    return { name: item['name'] as string, pieces, wholes: wholes.filter(text => text !== '') }
  })
}
