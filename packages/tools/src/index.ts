/** Mounts `ctx.tools`: definitions, the registry and the pipeline of a call. */

import { randomUUID } from 'node:crypto'
import { type Context, type ScopeKey, Service, scopeOf } from '@cambium/core'
import type { CallId, ToolSchema } from '@cambium/llm'
import type {} from '@cambium/session'
import Schema from 'schemastery'
import { runBatch } from './batch.ts'
import { type Engine, openCall } from './call.ts'
import { Catalogue } from './catalogue.ts'
import type { ToolDefinition, ToolExecution, ToolResult } from './definition.ts'
import { dispatch } from './dispatch.ts'
import { drain } from './drain.ts'
import { judge } from './judge.ts'
import type { BatchOptions, BatchOutcome, ToolCall, ToolFilter, Tools } from './service.ts'
import { settle } from './settle.ts'

export * from './agent.ts'
export { defineTool, type TypedTool } from './define.ts'
export * from './definition.ts'
export type { InferArguments, InferValue, ParameterMap, ParameterSpec, ValueSpec } from './parameters.ts'
export { cleanText, failedResult, renderValue, resultText, type ToolErrorCode, toolResult } from './result.ts'
export * from './service.ts'

export const name = 'tools'
export const inject = ['sessions']
export const provide = ['tools']

export interface Config {
  maxParallel: number
  drainMs: number
}
export const Config: Schema<Config> = Schema.object({
  maxParallel: Schema.natural()
    .min(1)
    .default(10)
    .description('How many concurrency-safe calls of one answer may run at the same time'),
  drainMs: Schema.natural()
    .default(3_000)
    .description(
      'How long the unloading of a plugin waits for running calls of its tools before it cancels them, in milliseconds',
    ),
})

export function apply(ctx: Context, config: Config) {
  new ToolService(ctx, config)
}

class ToolService extends Service implements Tools {
  private readonly engine: Engine
  private readonly maxParallel: number

  constructor(ctx: Context, config: Config) {
    super(ctx, 'tools')
    const catalogue = new Catalogue(config.drainMs, () => ctx.emit('tools/change'))
    this.engine = { ctx, catalogue, sessions: ctx.sessions, warn: text => ctx.logger.warn(text) }
    this.maxParallel = config.maxParallel
    ctx.on('loader/drain', (rows, signal, askers) => drain(catalogue.offers, { rows, askers, signal }, ctx.logger))
  }

  register(definition: ToolDefinition): () => void {
    return this.engine.catalogue.register(this.ctx, definition)
  }

  get(name: string, scope: ScopeKey | undefined = scopeOf(this.ctx)): ToolDefinition | undefined {
    return this.engine.catalogue.view(scope).offers.get(name)?.definition
  }

  schemas(scope: ScopeKey | undefined = scopeOf(this.ctx)): readonly ToolSchema[] {
    return this.engine.catalogue.view(scope).schemas
  }

  restrict(filter: ToolFilter): () => void {
    return this.engine.catalogue.restrict(this.ctx, filter)
  }

  guard(judge: (exec: ToolExecution) => string | undefined): () => void {
    return this.engine.catalogue.guards.add(this.ctx, judge, 'tool guard')
  }

  runBatch(calls: readonly ToolCall[], options: BatchOptions): Promise<BatchOutcome> {
    return runBatch(this.engine, calls, { ...options, limit: options.limit ?? this.maxParallel })
  }

  async execute(
    { callId = `call_${randomUUID()}`, name, arguments: text }: Omit<ToolCall, 'callId'> & { callId?: CallId },
    options: { agent?: ToolExecution['agent']; signal?: AbortSignal; parent?: ToolExecution } = {},
  ): Promise<ToolResult> {
    const { engine } = this
    const { parent } = options
    const agent = options.agent ?? parent?.agent
    const scope = agent ?? scopeOf(this.ctx)
    const signal = options.signal ?? parent?.signal ?? new AbortController().signal
    const call = openCall(engine, { callId, name, arguments: text, agent, scope, parent, signal })
    await judge(engine, call)
    await dispatch(engine, call)
    return settle(engine, call)
  }
}
