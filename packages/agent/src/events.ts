/** The loop's events and the agent services' contracts. */

import type { ScopeKey } from '@cambium/core'
import type { FailedAttempt, FailedAttemptDecision, LlmCallConfig, ToolSchema, UserMessage } from '@cambium/llm'
import type { SessionEvent, SessionId } from '@cambium/session'
import type { Agent } from '@cambium/tools'
import type { Driver } from './driver.ts'

export interface CreateAgentOptions {
  id?: SessionId
  /** Absolute; the process's own by default. */
  cwd?: string
  /** `provider/model`, a provider or `auto`; the loop's configured one by default. */
  model?: string
  /** Runs before the agent is live, to register what is this agent's own on `agent.ctx`. Must not drive it. */
  setup?: (agent: Agent) => void | Promise<void>
  /** A child's parent: its tools, restrictions and listeners are inherited. */
  parent?: Agent
  /** Events to start from: a replay. */
  seed?: readonly SessionEvent[]
}

export interface AgentHandle {
  readonly agent: Agent
  /** Cancels, waits for quiescence, closes the session, and frees the scope. Idempotent. */
  dispose(): Promise<void>
}

export interface Agents {
  create(options?: CreateAgentOptions): Promise<AgentHandle>
  /** Takes a stored session up. Pending input is there again and runs with the next message that wakes. @throws as `ctx.sessions.resume` */
  resume(id: SessionId, options?: Omit<CreateAgentOptions, 'id' | 'seed' | 'cwd'>): Promise<AgentHandle>
  get(id: SessionId): Agent | undefined
  list(): Agent[]
  /** Makes a driver the loop of every agent, for as long as the calling plugin lives. @throws `AGENT_TWO_LOOPS` */
  drive(driver: Driver): () => void
}

export interface StepInput {
  readonly agent: Agent
  readonly turn: number
  readonly step: number
  /** What is about to enter the conversation, in order. */
  readonly messages: readonly UserMessage[]
  readonly signal: AbortSignal
}

export type PreStepDecision =
  /** What was offered and is not among `messages` is withdrawn, on the record. */
  | { readonly kind: 'enter'; readonly messages: readonly UserMessage[] }
  | { readonly kind: 'reject'; readonly reason?: string }
  /** One last request without tools to sum up; then the turn ends with reason `limit`. */
  | { readonly kind: 'wrap-up'; readonly reason: string }

export interface RequestInput {
  readonly agent: Agent
  readonly turn: number
  readonly step: number
  readonly signal: AbortSignal
  /** The proposal: the session's last choice, or the configured one. */
  readonly config: LlmCallConfig
}

export interface RequestErrorInput extends FailedAttempt {
  readonly agent: Agent
}

export interface PromptSection {
  readonly name: string
  /** Lower comes first: 0 persona, 100 tools' guidance, 200 instructions. */
  readonly order: number
  /** Stable text, or what gives it; asked once a turn, within the configured bound. Undefined leaves the section out. */
  readonly text:
    | string
    | ((input: { agent: Agent | undefined; signal: AbortSignal }) => string | undefined | Promise<string | undefined>)
}

export interface PromptAssembly {
  readonly sections: readonly { readonly name: string; readonly text: string }[]
  readonly tools: readonly ToolSchema[]
}

export interface SystemPrompt {
  /** Adds a section to the calling context's scope; the nearest of a name wins. Returns the undo. @throws `PROMPT_DUPLICATE` */
  section(section: PromptSection): () => void
  /** Gives `{{name}}` in sections a value. Returns the undo. @throws `PROMPT_VARIABLE_INVALID`, `PROMPT_DUPLICATE` */
  variable(name: string, value: string | ((input: { agent: Agent | undefined }) => string | undefined)): () => void
  /** Evaluates sections and the scope's tools, through `system-prompt/assemble`. A failing or slow section is left out with a warning. */
  assemble(input: { agent?: Agent; scope?: ScopeKey; signal?: AbortSignal }): Promise<PromptAssembly>
}

export interface Command {
  /** Without the slash: `plan`. */
  readonly name: string
  readonly description: string
  /** What follows the name, as a hint: `[message]`. */
  readonly usage?: string
  run(input: { agent: Agent; args: string; signal: AbortSignal }): Promise<string | void> | string | void
}

export interface Commands {
  /** Offers `/name` to the calling context's scope; returns the undo. @throws `COMMAND_DUPLICATE` */
  register(command: Command): () => void
  get(name: string, scope?: ScopeKey): Command | undefined
  list(scope?: ScopeKey): Command[]
  /** Runs a line that starts with `/name`. Undefined when it is no command; otherwise what the command says. @throws `COMMAND_UNKNOWN` with the nearest name */
  run(line: string, agent: Agent, signal?: AbortSignal): Promise<{ text: string | undefined } | undefined>
}

declare module '@cambium/session' {
  interface SessionEventMap {
    /** Somebody chose a model; it is used from the next request on. */
    'agent/model': { readonly selection: string; readonly provider: string; readonly model: string }
  }
}

declare module 'cordis' {
  interface Context {
    /** Who is alive: creates, resumes and finds agents, each with its inbox, its scope and its log. */
    agents: Agents
    /** What a model is told: named sections in order, by scope. */
    systemPrompt: SystemPrompt
    /** What a person may type with a slash in front, whatever the surface. */
    commands: Commands
  }
  interface Events {
    /** serial, awaited before the agent's first request in this process: add context, set up. */
    'agent/session-start'(input: {
      agent: Agent
      source: 'startup' | 'resume'
      signal: AbortSignal
    }): Promise<void> | void
    /** waterfall: enter the step with these messages, reject it, or wrap up. */
    'agent/pre-step'(input: StepInput, next: () => Promise<PreStepDecision>): Promise<PreStepDecision>
    /** waterfall: the whole assembly; what is returned is authoritative. To hide tools use `restrict`. */
    'system-prompt/assemble'(
      input: { agent: Agent | undefined; assembly: PromptAssembly },
      next: () => Promise<PromptAssembly>,
    ): Promise<PromptAssembly>
    /** waterfall: model, effort and limits of this request. */
    'agent/request'(input: RequestInput, next: () => Promise<LlmCallConfig>): Promise<LlmCallConfig>
    /** waterfall: repair and retry, or let it fail. The default fails. */
    'agent/request-error'(
      input: RequestErrorInput,
      next: () => Promise<FailedAttemptDecision>,
    ): Promise<FailedAttemptDecision>
    /** serial: nothing more is owed; steer to go on. */
    'agent/turn-stopping'(input: { agent: Agent; turn: number; signal: AbortSignal }): Promise<void> | void
    /** notify */
    'agent/status'(agent: Agent, status: 'idle' | 'running'): void
    /** notify: a turn failed; the log has the reason. */
    'agent/error'(input: { agent: Agent; turn: number; error: unknown }): void
    /** notify: an agent is live. To veto one, gate `session/created`. */
    'agent/created'(agent: Agent): void
    /** notify */
    'agent/disposed'(agent: Agent): void
    /** notify: messages came, were admitted or withdrawn. */
    'agent/inbox'(agent: Agent): void
  }
}
