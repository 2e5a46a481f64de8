/** Gives an agent one task, waits until it is idle, and prints what came of it: the heart of `cambium run`. */

import type { Agent, AgentHandle } from '@cambium/agent'
import { type Context, sleep, workingFolder } from '@cambium/core'
import { createUserMessage, price, type UserBlock, type UserMessage } from '@cambium/llm'
import type {} from '@cambium/loader'
import type { Session } from '@cambium/session'
import type {} from '@cambium/tools'
import Schema from 'schemastery'
import { exitCodeOfSignal } from './exit-code.ts'
import { describeFailure, exitCodeOf, toFailure } from './failure.ts'
import { usageError } from './flags.ts'
import { openAgent } from './open-agent.ts'
import { foldOutcome, type Outcome } from './outcome.ts'
import { eventLine, failureReport, OUTPUT_FORMS, type OutputForm, reportText, Stdout } from './output.ts'
import { plural } from './printable.ts'
import type { Progress } from './progress.ts'
import { fallbackLine, retryLine } from './retry-line.ts'
import { processSurface, type Surface } from './surface.ts'

export const name = 'headless'
export const inject = ['agents', 'sessions', 'llm', 'tools']

export interface Config {
  task: string
  cwd?: string
  model?: string
  resume?: string
  fork: boolean
  rewind?: string
  restoreFiles: boolean
  force: boolean
  images: string[]
  output: OutputForm
  quiet: boolean
}
export const Config: Schema<Config> = Schema.object({
  task: Schema.string().default('').description('What the agent is to do; may be empty when a session is taken up'),
  cwd: Schema.string().description(
    'The folder that the agent works in, as an absolute path; the one that the command was started in by default',
  ),
  model: Schema.string().description("`provider/model`, a provider, or `auto`; the loop's choice by default"),
  resume: Schema.string().description(
    'Id of the session to take up, or a part of it; empty for the last of the folder',
  ),
  fork: Schema.boolean().default(false).description('Goes on in a copy of that session'),
  rewind: Schema.string().description(
    'Goes on in a copy that ends before this turn, a number or `last`; the task takes its place',
  ),
  restoreFiles: Schema.boolean().default(false).description('Puts the files back to what they were before that turn'),
  force: Schema.boolean().default(false).description('Restores also files that others have changed since'),
  images: Schema.array(Schema.string()).default([]).description('Absolute paths of pictures that belong to the task'),
  output: Schema.union([...OUTPUT_FORMS])
    .default('text')
    .description('The form of standard output'),
  quiet: Schema.boolean().default(false).description('Nothing but failures on standard error'),
})

/** How long a cancelled turn may take to come to rest. */
const STOP_MS = 6_000

export function apply(ctx: Context, config: Config) {
  const { cwd = workingFolder() } = config
  ctx.app.main(signal => new HeadlessRun(ctx, { ...config, cwd }, signal).run())
}

class HeadlessRun {
  private readonly ctx: Context
  private readonly config: Config & { cwd: string }
  private readonly surface: Surface
  private readonly ended: AbortSignal
  private readonly stopped = new AbortController()
  private readonly startedAt = performance.now()
  private readonly stdout: Stdout
  private progress: Progress | undefined
  private agent: Agent | undefined

  /** `ended` aborts when the tree is to end before the work is done. */
  constructor(ctx: Context, config: Config & { cwd: string }, ended: AbortSignal) {
    this.ctx = ctx
    this.config = config
    this.ended = ended
    this.surface = ctx.get('surface') ?? processSurface()
    this.stdout = new Stdout(this.surface.stdout, () => {
      // Who reads events and leaves wants no more of them; who waits for the answer has left too early to matter.
      if (config.output === 'jsonl') this.stop('standard output was closed')
    })
  }

  async run(): Promise<number> {
    const { ended } = this
    const onEnd = () => this.stop(String(ended.reason))
    if (ended.aborted) onEnd()
    else ended.addEventListener('abort', onEnd, { once: true })
    try {
      return await this.work()
    } catch (error) {
      return await this.fail(error)
    } finally {
      this.progress?.stop()
      ended.removeEventListener('abort', onEnd)
      this.stdout.release()
    }
  }

  private async work(): Promise<number> {
    const { ctx, config } = this
    const images = await this.readImages()
    const { handle, notices, images: kept } = await openAgent(ctx, config, this.stopped.signal)
    try {
      if (!config.quiet) for (const notice of notices) this.surface.notes.print(`cambium: ${notice}`)
      const outcome = await this.converse(handle.agent, images.length ? images : kept)
      await ctx.sessions.flush(handle.agent.session)
      return await this.conclude(handle, outcome)
    } finally {
      await handle.dispose()
    }
  }

  /** Sends the message and waits for the next idleness; what is logged between the two is what came of it. */
  private async converse(agent: Agent, images: readonly UserBlock[]): Promise<Outcome> {
    const { session } = agent
    const message = this.message(session, images)
    if (images.length) this.warnOfBlindModel(agent)
    this.agent = agent
    await this.watch(agent)
    const from = session.seq
    const route = session.last('request/header')?.data.config
    if (!this.stopped.signal.aborted) {
      agent.followup(message)
      await Promise.race([agent.whenIdle(), this.overdue()])
    }
    const { llm } = this.ctx
    return foldOutcome(session.events(from), (usage, by) => price(usage, llm.modelInfo(by)), route)
  }

  /** What cannot be read is said before there is a session. */
  private async readImages(): Promise<readonly UserBlock[]> {
    const { images } = this.config
    if (!images.length) return []
    const { readImages } = await import('./task-images.ts')
    return readImages(images, this.stopped.signal)
  }

  private warnOfBlindModel({ config }: Agent): void {
    const reads = config && this.ctx.llm.modelInfo(config)?.input
    if (!reads || reads.includes('image') || this.config.quiet) return
    const { provider, model } = config
    this.surface.notes.print(`warning: ${provider}/${model} reads no images; it is only told that there was one`)
  }

  private message(session: Session, images: readonly UserBlock[]): UserMessage {
    const { task } = this.config
    // Pictures first: models do better when they have seen what they are asked about.
    if (task) {
      const content: UserBlock[] = [...images, { type: 'text', text: task }]
      return createUserMessage({ content, source: { kind: 'user' } })
    }
    const last = session.last('turn/end')?.data.reason.kind
    if (last === undefined || last === 'completed') {
      throw usageError(
        'there is no task, and the session has nothing to go on with',
        'write it as an argument, or pipe it in',
      )
    }
    return createUserMessage({
      content: 'The last turn ended before the work was done. Go on from where it stopped.',
      source: { kind: 'plugin', plugin: name, form: 'notice' },
    })
  }

  private async watch(agent: Agent): Promise<void> {
    const { ctx, config, surface, stdout } = this
    if (surface.terminal && !config.quiet) {
      const { Progress } = await import('./progress.ts')
      const { tools } = ctx
      this.progress = new Progress({
        line: surface.notes,
        color: surface.color,
        present: (tool, args) => tools.get(tool, agent)?.presentCall?.(args),
      })
      const { provider, model } = agent.config ?? {}
      const { cwd, parent } = agent.session.header
      const copy = parent && (config.fork || config.rewind) ? `, a copy of ${parent.id}` : ''
      this.progress.start(`${provider}/${model} · ${cwd} · session ${agent.id}${copy}`)
    }
    let standsIn = false
    ctx.on('session/event', (session, event) => {
      if (session === agent.session) this.progress?.event(event)
      if (session === agent.session && event.type === 'request/header') {
        const { provider, model, insteadOf } = event.data.config
        if (standsIn && !insteadOf && !config.quiet) surface.notes.print(`going on with ${provider}/${model}`)
        standsIn = insteadOf !== undefined
      }
      if (config.output === 'jsonl')
        void stdout.write(eventLine(session, event)).catch(() => this.stop('standard output failed'))
    })
    ctx.on('llm/retry', notice => {
      if (!config.quiet) surface.notes.print(retryLine(notice))
    })
    ctx.on('llm/fallback', notice => {
      if (!config.quiet) surface.notes.print(fallbackLine(notice))
    })
  }

  private async conclude(handle: AgentHandle, outcome: Outcome): Promise<number> {
    const { config, surface } = this
    const { agent } = handle
    const { failure, ...facts } = outcome
    const exitCode = this.exitCode(outcome)
    const { parent } = agent.session.header
    const used = agent.session.last('request/header')?.data.config ?? agent.config
    this.progress?.stop()
    await this.stdout.write(
      reportText(config.output, {
        ...facts,
        exitCode,
        session: agent.id,
        ...(parent ? { parent } : {}),
        cwd: agent.session.header.cwd,
        ...(used ? { model: `${used.provider}/${used.model}` } : {}),
        durationMs: this.elapsed(),
        ...(failure ? { error: failure } : {}),
      }),
    )
    if (outcome.denied.length && !config.quiet) surface.notes.print(deniedLine(outcome.denied))
    if (failure) surface.notes.print(describeFailure(failure))
    // Where nothing was done yet, the same command does it just as well.
    const begun = outcome.stopReason !== 'failed' || outcome.toolCalls > 0
    if (failure && begun && this.ctx.get('sessionPersistence')) {
      surface.notes.print(`  go on with: cambium run --resume ${agent.id}`)
    }
    if (this.progress) surface.notes.print(this.progress.summary(outcome, agent.id))
    return exitCode
  }

  private exitCode(outcome: Outcome): number {
    if (outcome.stopReason !== 'interrupted') return outcome.exitCode
    return exitCodeOfSignal(this.stopped.signal.reason)
  }

  private async fail(error: unknown): Promise<number> {
    const failure = toFailure(error)
    const { output, cwd } = this.config
    const exitCode = exitCodeOf(failure)
    this.progress?.stop()
    const facts = { cwd, durationMs: this.elapsed(), ...(this.agent ? { session: this.agent.id } : {}) }
    await this.stdout.write(failureReport(output, failure, exitCode, facts)).catch(() => {})
    this.surface.notes.print(describeFailure(failure))
    return exitCode
  }

  private stop(reason: string): void {
    if (this.stopped.signal.aborted) return
    this.stopped.abort(reason)
    this.agent?.cancel({ by: 'user', reason })
  }

  /** Resolves when a stopped turn has had its time. */
  private async overdue(): Promise<void> {
    const { signal } = this.stopped
    await new Promise<void>(resolve => {
      if (signal.aborted) resolve()
      else signal.addEventListener('abort', () => resolve(), { once: true })
    })
    await sleep(STOP_MS, undefined, { unref: true })
  }

  private elapsed(): number {
    return Math.round(performance.now() - this.startedAt)
  }
}

function deniedLine(denied: Outcome['denied']): string {
  const calls = denied.map(({ tool, reason }) => `${tool} (${reason})`)
  return `warning: ${plural(denied.length, 'call')} refused by policy: ${calls.join(', ')}`
}
