/** Spans from what a session logs: a turn, its steps, their requests and calls. Times are the log's. */

import type { LlmCallConfig, Message, TokenUsage } from '@cambium/llm'
import type { SessionEvent, SessionEventMap, SessionHeader } from '@cambium/session'
import type { TelemetryRecord } from '@cambium/session/telemetry'
import { type Attributes, CLIENT, INTERNAL, type Span, spanIdOf, traceIdOf } from './span.ts'

interface OpenSpan {
  readonly id: string
  readonly name: string
  readonly start: number
  readonly attributes: Attributes
}

interface OpenTurn extends OpenSpan {
  readonly turn: number
  readonly traceId: string
  readonly parent: string | undefined
  readonly links: Span['links']
}

interface Trace {
  readonly header: SessionHeader
  turn: OpenTurn | undefined
  step: OpenSpan | undefined
  /** What the next request was made after, and which of the step it is. */
  asked: number
  attempt: number
  config: LlmCallConfig | undefined
  readonly calls: Map<string, OpenSpan>
  /** What was said since the last request; kept only where content is wanted. */
  said: Message[]
  linked: boolean
}

export interface TracerOptions {
  readonly content: boolean
  readonly agentName: string
  readonly ended: (span: Span) => void
  /** The session that started this one, as far as it is known. */
  readonly parentOf: (session: string) => string | undefined
}

/** Longest text of content in one attribute. */
const MAX_CONTENT = 16_384

export class Tracer {
  private readonly traces = new Map<string, Trace>()
  private readonly options: TracerOptions

  constructor(options: TracerOptions) {
    this.options = options
  }

  record({ session, event }: TelemetryRecord): void {
    if (event.seq === undefined) return
    let trace = this.traces.get(session.id)
    if (!trace) {
      trace = {
        header: session,
        turn: undefined,
        step: undefined,
        asked: 0,
        attempt: 0,
        config: undefined,
        calls: new Map(),
        said: [],
        linked: false,
      }
      this.traces.set(session.id, trace)
    }
    this.take(trace, event)
  }

  /** A session is gone: what is still open ends where it was last seen. */
  forget(session: string): void {
    const trace = this.traces.get(session)
    if (trace?.turn) this.endTurn(trace, Math.max(trace.asked, trace.turn.start), { kind: 'interrupted' })
    this.traces.delete(session)
  }

  private take(trace: Trace, event: SessionEvent): void {
    const { time } = event
    switch (event.type) {
      case 'turn/start':
        trace.turn = this.openTurn(trace, event.data.turn, time)
        break
      case 'step/start':
        trace.step = {
          id: spanIdOf(trace.header.id, event.data.turn, event.data.step),
          name: `step ${event.data.step}`,
          start: time,
          attributes: { 'cambium.step': event.data.step },
        }
        trace.asked = time
        trace.attempt = 0
        break
      case 'user/message':
        trace.asked = time
        if (this.options.content) trace.said.push(event.data.message)
        break
      case 'request/header':
        trace.config = event.data.config
        trace.asked = time
        break
      case 'request/failed':
        this.request(trace, time, event.data)
        trace.asked = time
        break
      case 'assistant/message':
        this.request(trace, time, event.data)
        break
      case 'tool/call':
        trace.calls.set(event.data.callId, this.openCall(trace, event.data, time))
        break
      case 'tool/result':
        this.endCall(trace, event.data, time)
        break
      case 'step/end':
        this.endStep(trace, time)
        break
      case 'turn/end':
        this.endTurn(trace, time, event.data.reason)
    }
  }

  private openTurn(trace: Trace, turn: number, start: number): OpenTurn {
    const { header } = trace
    const { id } = header
    const { agentName } = this.options
    const above = this.above(id)
    const links: { traceId: string; spanId: string; why: string }[] = []
    if (header.parent && !trace.linked && turn > 1) {
      // What a fork took over ends with the turn before its first.
      const { parent } = header
      links.push({ traceId: traceIdOf(parent.id, turn - 1), spanId: spanIdOf(parent.id, turn - 1), why: 'fork of' })
    }
    trace.linked = true
    return {
      turn,
      id: spanIdOf(id, turn),
      traceId: above?.traceId ?? traceIdOf(id, turn),
      parent: above?.spanId,
      name: `invoke_agent ${agentName}`,
      start,
      links,
      attributes: {
        'gen_ai.operation.name': 'invoke_agent',
        'gen_ai.agent.name': agentName,
        'gen_ai.conversation.id': id,
        'cambium.turn': turn,
        'cambium.session.origin': header.origin,
        'cambium.session.depth': header.depth,
      },
    }
  }

  /** The span of the parent's that a child's turn lies in: its one call that is under way, else its turn. */
  private above(session: string): { traceId: string; spanId: string } | undefined {
    const parent = this.options.parentOf(session)
    const trace = parent === undefined ? undefined : this.traces.get(parent)
    if (!trace?.turn) return undefined
    const [call] = trace.calls.values()
    const within = trace.calls.size === 1 ? call : undefined
    return { traceId: trace.turn.traceId, spanId: (within ?? trace.turn).id }
  }

  private request(
    trace: Trace,
    end: number,
    data: SessionEventMap['assistant/message'] | SessionEventMap['request/failed'],
  ): void {
    const { turn, step } = data
    if (!trace.turn) return
    const attempt = ++trace.attempt
    const { provider, model } = trace.config ?? { provider: 'unknown', model: 'unknown' }
    const answer = 'message' in data ? data : undefined
    const failure = 'failure' in data ? data.failure : undefined
    const { content } = this.options
    this.end(trace, {
      id: spanIdOf(trace.header.id, turn, step, 'request', attempt),
      parent: trace.step?.id,
      name: `chat ${model}`,
      kind: CLIENT,
      start: trace.asked,
      end,
      attributes: {
        'gen_ai.operation.name': 'chat',
        'gen_ai.provider.name': provider,
        'gen_ai.request.model': model,
        'gen_ai.request.max_tokens': trace.config?.maxTokens,
        'gen_ai.request.temperature': trace.config?.temperature,
        'gen_ai.conversation.id': trace.header.id,
        'gen_ai.response.finish_reasons': answer && [answer.finish],
        'cambium.attempt': attempt,
        'cambium.interrupted': answer?.interrupted,
        'http.response.status_code': failure?.status,
        ...usageOf(data.usage),
        'gen_ai.input.messages': content ? cut(trace.said) : undefined,
        'gen_ai.output.messages': content && answer ? cut([answer.message]) : undefined,
      },
      error: failure && { type: failure.code, message: content ? failure.message : failure.code },
    })
    trace.said = []
  }

  private openCall(trace: Trace, data: SessionEventMap['tool/call'], start: number): OpenSpan {
    const { callId, name } = data
    return {
      id: spanIdOf(trace.header.id, 'call', callId),
      name: `execute_tool ${name}`,
      start,
      attributes: {
        'gen_ai.operation.name': 'execute_tool',
        'gen_ai.tool.name': name,
        'gen_ai.tool.call.id': callId,
        'gen_ai.tool.type': 'function',
        'gen_ai.conversation.id': trace.header.id,
        'gen_ai.tool.call.arguments': this.options.content ? data.arguments.slice(0, MAX_CONTENT) : undefined,
      },
    }
  }

  private endCall(trace: Trace, { message, error }: SessionEventMap['tool/result'], end: number): void {
    const [block] = message.content
    if (block?.type !== 'tool-result') return
    const call = trace.calls.get(block.toolCallId)
    if (!call) return
    trace.calls.delete(block.toolCallId)
    const { content } = this.options
    const failed = error ?? (block.isError ? { code: 'TOOL_FAILED', message: 'the tool failed' } : undefined)
    this.end(trace, {
      ...call,
      parent: trace.step?.id,
      kind: INTERNAL,
      end,
      attributes: { ...call.attributes, 'gen_ai.tool.call.result': content ? cut(block.content) : undefined },
      error: failed && { type: failed.code, message: content ? failed.message : failed.code },
    })
  }

  private endStep(trace: Trace, end: number): void {
    const { step } = trace
    if (!step) return
    for (const call of trace.calls.values())
      this.end(trace, { ...call, parent: step.id, kind: INTERNAL, end, error: LOST })
    trace.calls.clear()
    trace.step = undefined
    this.end(trace, { ...step, parent: trace.turn?.id, kind: INTERNAL, end, error: undefined })
  }

  private endTurn(trace: Trace, end: number, reason: SessionEventMap['turn/end']['reason']): void {
    this.endStep(trace, end)
    const { turn } = trace
    if (!turn) return
    const failed = reason.kind === 'error' ? reason.error : undefined
    const attributes = { ...turn.attributes, 'cambium.turn.end': reason.kind }
    const error = failed && { type: failed.code, message: this.options.content ? failed.message : failed.code }
    this.end(trace, { ...turn, kind: INTERNAL, end, attributes, error })
    trace.turn = undefined
  }

  private end(
    trace: Trace,
    span: Omit<Span, 'spanId' | 'traceId' | 'parentSpanId'> & { id: string; parent: string | undefined },
  ): void {
    if (!trace.turn) return
    const { id: spanId, parent: parentSpanId, name, kind, start, end, attributes, error, links } = span
    const { traceId } = trace.turn
    this.options.ended({ traceId, spanId, parentSpanId, name, kind, start, end, attributes, error, links })
  }
}

const LOST = { type: 'NO_RESULT', message: 'the step ended before the call had a result' }

/** The conventions count what came out of a cache among the input; here the counts are disjoint. */
function usageOf(usage: TokenUsage | undefined): Attributes {
  if (!usage) return {}
  return {
    'gen_ai.usage.input_tokens': usage.inputTokens + usage.cacheReadTokens + usage.cacheWriteTokens,
    'gen_ai.usage.output_tokens': usage.outputTokens,
    'gen_ai.usage.cache_read.input_tokens': usage.cacheReadTokens || undefined,
    'gen_ai.usage.cache_creation.input_tokens': usage.cacheWriteTokens || undefined,
    'gen_ai.usage.reasoning.output_tokens': usage.reasoningTokens || undefined,
  }
}

const cut = (content: unknown) => JSON.stringify(content).slice(0, MAX_CONTENT)
