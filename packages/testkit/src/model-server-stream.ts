/** Turns a scripted reply into the chunks and bytes of a chat completion. */

import type { Reply, ScriptedToolCall } from './model-server-reply.ts'

export interface Envelope {
  id: string
  model: string
  created: number
  /** Whether the request asked for usage in a chunk of its own. */
  includeUsage: boolean
  inputTokens: number
  /** Makes the id of a call whose script names none. */
  callId: () => string
}

type Delta = Readonly<Record<string, unknown>>
interface WireCall {
  id: string
  name: string
  text: string
  sizes: readonly number[]
  index: number | null
}

function wireCalls(reply: Reply, envelope: Envelope): WireCall[] {
  const calls = (reply.toolCalls ?? []).map((call: ScriptedToolCall, at) => {
    const given = call.arguments ?? {}
    const text = typeof given === 'string' ? given : JSON.stringify(given)
    return {
      id: call.id ?? envelope.callId(),
      name: call.name,
      text: reply.fault === 'invalid-arguments' ? text.slice(0, -1) : text,
      sizes: call.sizes?.length ? call.sizes : [24],
      index: call.index === undefined ? at : call.index,
    }
  })
  if (reply.fault === 'duplicate-ids') for (const call of calls) call.id = calls[0]!.id
  if (reply.fault === 'length' && calls.length) {
    const cut = calls[calls.length - 1]!
    cut.text = cut.text.slice(0, Math.floor(cut.text.length / 2))
  }
  return calls
}

/** Pieces of whole characters: a provider's JSON never holds half a surrogate pair. */
function* pieces(text: string, sizes: readonly number[]): Generator<string> {
  const characters = [...text]
  let at = 0
  for (let turn = 0; at < characters.length; turn++) {
    const size = Math.max(1, sizes[Math.min(turn, sizes.length - 1)]!)
    yield characters.slice(at, at + size).join('')
    at += size
  }
}

function* callDeltas(call: WireCall): Generator<Delta> {
  const index = call.index === null ? {} : { index: call.index }
  const opening = { ...index, id: call.id, type: 'function', function: { name: call.name, arguments: '' } }
  yield { tool_calls: [opening] }
  for (const piece of pieces(call.text, call.sizes)) {
    yield { tool_calls: [{ ...index, function: { arguments: piece } }] }
  }
}

function* inTurns<T>(sources: Generator<T>[]): Generator<T> {
  let open = sources
  while (open.length) {
    const still: Generator<T>[] = []
    for (const source of open) {
      const { value, done } = source.next()
      if (done) continue
      yield value
      still.push(source)
    }
    open = still
  }
}

function spokenText(reply: Reply): string {
  const text = reply.fault === 'empty' ? '' : (reply.text ?? '')
  return reply.fault === 'length' && !reply.toolCalls?.length ? text.slice(0, Math.floor(text.length / 2)) : text
}

function finishOf(reply: Reply): string {
  if (reply.fault === 'length') return 'length'
  return reply.finish ?? (reply.toolCalls?.length && reply.fault !== 'empty' ? 'tool_calls' : 'stop')
}

function usageOf(reply: Reply, envelope: Envelope): Record<string, unknown> | undefined {
  if (reply.usage === false) return undefined
  const calls = JSON.stringify(reply.toolCalls ?? '').length
  const said = (reply.text?.length ?? 0) * (reply.repeat ?? 1) + (reply.reasoning?.length ?? 0) + calls
  const { input, output, cached, reasoning } = {
    cached: 0,
    reasoning: 0,
    ...(reply.usage ?? { input: envelope.inputTokens, output: Math.ceil(said / 4) }),
  }
  return {
    prompt_tokens: input,
    completion_tokens: output,
    total_tokens: input + output,
    prompt_tokens_details: { cached_tokens: cached },
    completion_tokens_details: { reasoning_tokens: reasoning },
  }
}

export function sse(reply: Reply, data: string): string {
  const eol = reply.eol ?? '\n'
  return `data: ${data}${eol}${eol}`
}

function frame(reply: Reply, envelope: Envelope, choices: readonly unknown[], more: object = {}): string {
  const { id, model, created } = envelope
  return sse(reply, JSON.stringify({ id, object: 'chat.completion.chunk', created, model, choices, ...more }))
}

const choice = (delta: Delta, finish: string | null = null) => ({ index: 0, delta, finish_reason: finish })

/** What comes before the first delta. */
export function* openingFrames(reply: Reply, envelope: Envelope): Generator<string> {
  if (reply.fault === 'empty-choices') {
    yield frame(reply, envelope, [], { prompt_filter_results: [{ prompt_index: 0, content_filter_results: {} }] })
    if (!reply.text && !reply.toolCalls) return
  }
  yield frame(reply, envelope, [choice({ role: 'assistant', content: '' })])
}

/** One frame for each delta: what the `after` of a fault counts. */
export function* deltaFrames(reply: Reply, envelope: Envelope): Generator<string> {
  if (reply.fault === 'empty') return
  const size = [reply.pieceChars ?? 24]
  const field = reply.reasoningField ?? 'reasoning_content'
  for (const piece of pieces(reply.reasoning ?? '', size)) yield frame(reply, envelope, [choice({ [field]: piece })])
  const text = spokenText(reply)
  if (reply.repeat === undefined) {
    for (const piece of pieces(text, size)) yield frame(reply, envelope, [choice({ content: piece })])
  } else {
    const same = frame(reply, envelope, [choice({ content: text })])
    for (let turn = 0; turn < reply.repeat; turn++) yield same
  }
  const calls = wireCalls(reply, envelope).map(callDeltas)
  const ordered = reply.interleave ? inTurns(calls) : calls.flatMap(call => [...call])
  for (const delta of ordered) yield frame(reply, envelope, [choice(delta)])
  for (const delta of reply.deltas ?? []) yield frame(reply, envelope, [choice(delta)])
}

/** Finish, usage and the end mark. */
export function* closingFrames(reply: Reply, envelope: Envelope): Generator<string> {
  const usage = usageOf(reply, envelope)
  const withFinish = reply.usageIn === 'finish-chunk' && usage ? { usage } : {}
  const silent = reply.fault === 'empty-choices' && !reply.text && !reply.toolCalls
  if (reply.fault === 'empty-choices') yield frame(reply, envelope, [])
  if (!silent) yield frame(reply, envelope, [choice({}, finishOf(reply))], withFinish)
  if (usage && envelope.includeUsage && reply.usageIn !== 'finish-chunk') yield frame(reply, envelope, [], { usage })
  if (reply.done !== false) yield sse(reply, '[DONE]')
}

/** The answer to a request that does not stream. */
export function completion(reply: Reply, envelope: Envelope): Record<string, unknown> {
  const { id, model, created } = envelope
  const calls = reply.fault === 'empty' ? [] : wireCalls(reply, envelope)
  const text = spokenText(reply).repeat(reply.repeat ?? 1)
  const silent = reply.fault === 'empty-choices' && !reply.text && !calls.length
  const message = {
    role: 'assistant',
    content: text || !calls.length ? text : null,
    ...(reply.reasoning ? { [reply.reasoningField ?? 'reasoning_content']: reply.reasoning } : {}),
    ...(calls.length
      ? {
          tool_calls: calls.map(call => ({
            id: call.id,
            type: 'function',
            function: { name: call.name, arguments: call.text },
          })),
        }
      : {}),
  }
  const choices = silent ? [] : [{ index: 0, message, finish_reason: finishOf(reply) }]
  const usage = usageOf(reply, envelope)
  return { id, object: 'chat.completion', created, model, choices, ...(usage ? { usage } : {}) }
}

/** The whole stream of a reply without a network fault, for a test that feeds a decoder itself. */
export function replyBytes(reply: Reply, envelope: Partial<Envelope> = {}): Buffer {
  let calls = 0
  const full: Envelope = {
    id: 'chatcmpl-1',
    model: 'test-model',
    created: 0,
    includeUsage: true,
    inputTokens: 1,
    callId: () => `call_${++calls}`,
    ...envelope,
  }
  const frames = [...openingFrames(reply, full), ...deltaFrames(reply, full), ...closingFrames(reply, full)]
  return Buffer.from(frames.join(''))
}
