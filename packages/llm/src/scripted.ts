/** A model whose answers are written down: for demonstrations and tests, without a network and without a key. */

import { readFileSync } from 'node:fs'
import { isAbsolute, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type Context, errorMessage, HarnessError, sleep } from '@cambium/core'
import Schema from 'schemastery'
import { LlmAdapter } from './adapter.ts'
import { CallId } from './message.ts'
import { estimateRequest, estimateTokens } from './meter.ts'
import { fill, mismatch, readTurns, type ScenarioTurn, type Seen, seenIn } from './scripted/scenario.ts'
import type {} from './service.ts'
import type { LlmRequest, ModelInfo, StreamChunk, TokenUsage } from './stream.ts'
import { LlmError } from './web/failure.ts'

export const name = 'scripted'
export const inject = ['llm']

export interface Config {
  provider: string
  scenario?: string
  turns?: unknown[]
}

export const Config: Schema<Config> = Schema.object({
  provider: Schema.string().default('scripted').description('Name of the provider'),
  scenario: Schema.string().description('YAML file with the answers, relative to the tree that names it'),
  turns: Schema.array(Schema.any()).description('The answers themselves, in place of a file'),
}) as Schema<Config>

/** What is said when nothing was written down: the demo model of a tree without keys. */
const DEMO: ScenarioTurn = {
  text:
    'No model is connected: this answer was written beforehand, and nothing was done. ' +
    'Set a key such as OPENAI_API_KEY or ANTHROPIC_API_KEY, or start Ollama or LM Studio, and ask again.',
  times: Number.POSITIVE_INFINITY,
  at: 'the demo model',
}

export async function apply(ctx: Context, config: Config) {
  const { provider, scenario, turns } = config
  const source = scenario ?? 'the scenario'
  let script: ScenarioTurn[] = [DEMO]
  if (turns?.length) script = readTurns(turns, index => `turn ${index + 1}`)
  else if (scenario) script = await readScenario(locate(ctx, scenario))
  const adapter = new ScriptedAdapter(script, provider)
  ctx.llm.registerAdapter(provider, adapter)
  ctx.effect(
    () => () => {
      // Never begun means that another model did the work; only what was broken off is worth a word.
      const left = adapter.left()
      if (adapter.begun && left > 0) ctx.logger.warn(`${left} answers of ${source} were not used`)
    },
    'scenario',
  )
}

function locate(ctx: Context, scenario: string): string {
  if (scenario.startsWith('file:')) return fileURLToPath(scenario)
  if (isAbsolute(scenario)) return scenario
  return ctx.baseUrl ? fileURLToPath(new URL(pathToUrl(scenario), ctx.baseUrl)) : resolve(scenario)
}

/** A relative path as a relative URL: its percent and hash signs are meant as they are. */
const pathToUrl = (path: string) => path.split(/[\\/]/).map(encodeURIComponent).join('/')

async function readScenario(path: string): Promise<ScenarioTurn[]> {
  let text: string
  try {
    text = readFileSync(path, 'utf8')
  } catch (cause) {
    throw new HarnessError('LLM_SCENARIO_UNREADABLE', `the scenario ${path} cannot be read: ${errorMessage(cause)}`, {
      fix: 'correct the path; it is taken from the folder of the file that names it',
      cause,
    })
  }
  const { isCollection, LineCounter, parseDocument } = await import('yaml')
  const lines = new LineCounter()
  const document = parseDocument(text, { lineCounter: lines })
  const [error] = document.errors
  if (error) {
    const { line, col } = lines.linePos(error.pos[0])
    throw new HarnessError('LLM_SCENARIO_INVALID', `the scenario is not YAML: ${error.message.split('\n')[0]}`, {
      where: `${path}:${line}:${col}`,
      cause: error,
    })
  }
  const list = document.has('turns') ? document.get('turns') : document.contents
  return readTurns(document.toJS(), index => {
    const item = isCollection(list) ? (list.items[index] as { range?: [number] | null }) : undefined
    return `${path}:${item?.range ? lines.linePos(item.range[0]).line : 1}`
  })
}

const PIECE_CHARS = 24

/** Answers each request with the next turn; an unexpected or an extra request fails. */
export class ScriptedAdapter extends LlmAdapter {
  override readonly kind = 'demo'
  begun = false
  private readonly turns: { turn: ScenarioTurn; left: number }[]
  private readonly provider: string
  private calls = 0

  constructor(turns: readonly ScenarioTurn[], provider = 'scripted') {
    super()
    this.provider = provider
    this.turns = turns.map(turn => ({ turn, left: turn.times ?? 1 }))
  }

  override models(): readonly ModelInfo[] {
    return [{ id: 'demo', contextWindow: 200_000, input: ['text', 'image'], price: { input: 0, output: 0 } }]
  }

  /** Answers that nobody has asked for yet. */
  left(): number {
    return this.turns.reduce((sum, { left }) => (Number.isFinite(left) ? sum + left : sum), 0)
  }

  override async *stream(request: LlmRequest): AsyncGenerator<StreamChunk> {
    this.begun = true
    const seen = seenIn(request)
    const turn = this.take(request, seen)
    let filled: ScenarioTurn
    try {
      filled = fillTurn(turn, seen)
    } catch (error) {
      throw this.refused(`${turn.at} cannot be filled in: ${errorMessage(error)}`)
    }
    yield* this.answer(filled, request)
  }

  private take(request: LlmRequest, seen: Seen): ScenarioTurn {
    const entry = this.turns.find(({ turn, left }) => left > 0 && turn.purpose === request.purpose)
    if (!entry) {
      const kind = request.purpose ? `for a ${request.purpose}` : 'after its last answer'
      throw this.refused(`the scenario has no answer ${kind}; the request ends with ${lastOf(seen)}`)
    }
    const wrong = mismatch(entry.turn, seen)
    if (wrong !== undefined) throw this.refused(`${entry.turn.at} expects another request: ${wrong}`)
    entry.left--
    return entry.turn
  }

  private refused(message: string): LlmError {
    return new LlmError({
      code: 'INVALID_REQUEST',
      message: `${this.provider}: ${message}`,
      fix: 'correct the scenario',
    })
  }

  private async *answer(turn: ScenarioTurn, request: LlmRequest): AsyncGenerator<StreamChunk> {
    const { reasoning, text, calls = [], fault, delayMs = 0, pieceChars = PIECE_CHARS } = turn
    let index = 0
    for (const [type, all] of [
      ['reasoning', reasoning],
      ['text', text],
    ] as const) {
      if (!all) continue
      yield { type: 'block-start', index, blockType: type }
      for (const piece of pieces(all, pieceChars)) {
        if (delayMs) await sleep(delayMs, request.signal)
        if (request.signal?.aborted) return
        yield { type: type === 'text' ? 'text-delta' : 'reasoning-delta', index, text: piece }
      }
      yield { type: 'block-end', index: index++, block: { type, text: all } }
    }
    if (fault) {
      const { code, message = `the scenario fails here with ${code}`, retryAfterMs } = fault
      throw new LlmError({ code, message, ...(retryAfterMs === undefined ? {} : { retryAfterMs }) })
    }
    for (const { name, id = `call_${++this.calls}`, arguments: args = {} } of calls) {
      const json = typeof args === 'string' ? args : JSON.stringify(args)
      const block = { type: 'tool-call', id: CallId(id), name, arguments: json } as const
      yield { type: 'block-start', index, blockType: 'tool-call' }
      yield { type: 'tool-call-delta', index, id: block.id, name, argumentsDelta: json }
      yield { type: 'block-end', index: index++, block }
    }
    yield { type: 'usage', usage: usageOf(turn, request) }
    yield { type: 'finish', reason: turn.finish ?? (calls.length ? 'tool-calls' : 'stop') }
  }
}

function fillTurn(turn: ScenarioTurn, seen: Seen): ScenarioTurn {
  const { text, reasoning, calls } = turn
  return {
    ...turn,
    ...(text === undefined ? {} : { text: fill(text, seen) }),
    ...(reasoning === undefined ? {} : { reasoning: fill(reasoning, seen) }),
    ...(calls
      ? {
          calls: calls.map(call =>
            call.arguments === undefined ? call : { ...call, arguments: fill(call.arguments, seen) },
          ),
        }
      : {}),
  }
}

/** Whole characters: half a surrogate pair is no text. */
function* pieces(text: string, size: number): Generator<string> {
  const characters = [...text]
  for (let at = 0; at < characters.length; at += Math.max(1, size)) {
    yield characters.slice(at, at + Math.max(1, size)).join('')
  }
}

function usageOf({ usage = {}, text = '', reasoning = '', calls = [] }: ScenarioTurn, request: LlmRequest): TokenUsage {
  const { cached = 0 } = usage
  const input = usage.input ?? estimateRequest(request)
  const output = usage.output ?? estimateTokens(text + reasoning + JSON.stringify(calls))
  return {
    inputTokens: Math.max(0, input - cached),
    outputTokens: output,
    cacheReadTokens: Math.min(cached, input),
    cacheWriteTokens: 0,
    reasoningTokens: Math.min(output, estimateTokens(reasoning)),
  }
}

const lastOf = ({ user, result }: Seen) => JSON.stringify((result || user).slice(-200))
