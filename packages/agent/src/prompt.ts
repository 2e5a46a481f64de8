/** `ctx.systemPrompt`: the sections a model is told, in order, and the tools it is shown. */

import {
  type Context,
  deadline,
  errorMessage,
  HarnessError,
  ScopedRegistry,
  type ScopeKey,
  Service,
  waterfall,
} from '@cambium/core'
import type { Agent, Tools } from '@cambium/tools'
import type { PromptAssembly, PromptSection, SystemPrompt } from './events.ts'
import { answered } from './listeners.ts'

type VariableValue = Parameters<SystemPrompt['variable']>[1]
interface AssembleInput {
  agent?: Agent
  scope?: ScopeKey
  signal?: AbortSignal
}
interface Rendered {
  readonly turn: number
  readonly sections: PromptAssembly['sections']
}

const VARIABLE_NAME = /^[a-z][a-z0-9_]*$/
const PLACEHOLDER = /\{\{\s*([^{}]*?)\s*\}\}/g

export class PromptRegistry extends Service implements SystemPrompt {
  private readonly core: PromptCore

  constructor(ctx: Context, sectionMs: number) {
    super(ctx, 'systemPrompt')
    this.core = new PromptCore(ctx, sectionMs)
  }

  section(section: PromptSection): () => void {
    if (!Number.isFinite(section.order)) {
      throw new HarnessError('PROMPT_ORDER_INVALID', `the order of section "${section.name}" is not a finite number`, {
        fix: 'give a number: 0 for the persona, 100 for guidance on tools, 200 for instructions',
      })
    }
    return this.core.sections.register(this.ctx, section.name, section)
  }

  variable(name: string, value: VariableValue): () => void {
    if (!VARIABLE_NAME.test(name)) {
      throw new HarnessError('PROMPT_VARIABLE_INVALID', `"${name}" cannot be a prompt variable`, {
        fix: 'use lower-case letters, digits and underscores, starting with a letter',
      })
    }
    return this.core.variables.register(this.ctx, name, value)
  }

  async assemble(input: AssembleInput = {}): Promise<PromptAssembly> {
    return this.core.assemble(input)
  }
}

class PromptCore {
  readonly sections = new ScopedRegistry<PromptSection>({ noun: 'section', duplicateCode: 'PROMPT_DUPLICATE' })
  readonly variables = new ScopedRegistry<VariableValue>({ noun: 'variable', duplicateCode: 'PROMPT_DUPLICATE' })
  private readonly rendered = new WeakMap<Agent, Rendered>()
  private readonly ctx: Context
  private readonly tools: Tools
  private readonly sectionMs: number

  constructor(ctx: Context, sectionMs: number) {
    this.ctx = ctx
    this.tools = ctx.tools
    this.sectionMs = sectionMs
  }

  async assemble(input: AssembleInput): Promise<PromptAssembly> {
    const { agent, scope = agent } = input
    const assembly = { sections: await this.sectionsOf(input), tools: this.tools.schemas(scope) }
    const event = 'system-prompt/assemble'
    const answer = await waterfall(this.ctx, scope, event, { agent, assembly }, async () => assembly)
    const isWhole = ({ sections, tools }: PromptAssembly) => Array.isArray(sections) && Array.isArray(tools)
    return answered(event, answer, isWhole, 'sections and tools')
  }

  /** Sections are evaluated once a turn, so that a turn's requests share their prefix. */
  private async sectionsOf(input: AssembleInput): Promise<PromptAssembly['sections']> {
    const { agent, scope = agent } = input
    const turn = agent?.session.open.turn ?? 0
    const known = agent && this.rendered.get(agent)
    if (known && turn && known.turn === turn) return known.sections
    const ordered = this.sections.list(scope).sort((a, b) => a.order - b.order)
    const texts = await Promise.all(ordered.map(section => this.render(section, input)))
    const sections = ordered.flatMap(({ name }, index) => {
      const text = texts[index]
      return text?.trim() ? [{ name, text }] : []
    })
    if (agent) this.rendered.set(agent, { turn, sections })
    return sections
  }

  /** One section's text, or undefined with a warning: a section never costs a user their turn. */
  private async render(section: PromptSection, input: AssembleInput): Promise<string | undefined> {
    if (typeof section.text === 'string') return this.attempt(section.name, () => this.fill(section, input))
    const { text } = section
    const bound = deadline(this.sectionMs, input.signal)
    const aborted = new Promise<never>((_, reject) => {
      bound.signal.addEventListener('abort', () => reject(bound.signal.reason), { once: true })
    })
    try {
      const given = Promise.resolve().then(() => text({ agent: input.agent, signal: bound.signal }))
      return await this.attempt(section.name, () => Promise.race([given, aborted]))
    } finally {
      bound.clear()
    }
  }

  private async attempt(name: string, work: () => string | undefined | Promise<string | undefined>) {
    try {
      return await work()
    } catch (error) {
      this.ctx.logger.warn(`prompt section "${name}" was left out: ${errorMessage(error)}`)
      return undefined
    }
  }

  /** Only fixed texts have variables: what a function returns may be a user's file, where braces mean nothing. */
  private fill(section: PromptSection, { agent, scope = agent }: AssembleInput): string {
    return String(section.text).replace(PLACEHOLDER, (_, name: string) => {
      const variable = this.variables.get(name, scope)
      const value = typeof variable === 'function' ? variable({ agent }) : variable
      if (value !== undefined) return value
      throw new HarnessError('PROMPT_VARIABLE_UNKNOWN', `nothing gives {{${name}}} a value`, {
        where: `section "${section.name}"`,
        fix: `known: ${[...this.variables.entries(scope).keys()].map(known => `{{${known}}}`).join(', ') || 'none'}`,
      })
    })
  }
}

/** The system text that an assembly stands for. */
export function renderPrompt(assembly: PromptAssembly): string {
  return assembly.sections.map(section => section.text.trim()).join('\n\n')
}
