/** Says what of a conversation is too large, and what can be done about it. */

import { estimateTokens, type LlmService, type ToolSchema } from '@cambium/llm'
import type { Envelope } from './contract.ts'
import type { Room } from './room.ts'
import type { Survey } from './survey.ts'

export interface TooLarge {
  readonly problem: string
  readonly fix: string
}

/** In one sentence each: what the parts are, the largest of each named, and what helps against the greatest. */
export function tooLarge(survey: Survey, envelope: Envelope, room: Room | undefined, llm: LlmService): TooLarge {
  const { config, system, tools } = envelope
  const systemTokens = system ? estimateTokens(system, config.model) : 0
  const priced = tools.map(tool => ({ tool, tokens: toolTokens(tool, envelope, llm) }))
  const toolsTokens = priced.reduce((sum, { tokens }) => sum + tokens, 0)
  const messages = survey.priceOf(0, survey.prices.length)
  const unknown = Math.max(0, survey.base - systemTokens - toolsTokens)
  const [largestTool] = [...priced].sort((a, b) => b.tokens - a.tokens)
  const at = survey.prices.indexOf(Math.max(0, ...survey.prices))
  const parts = [
    `system prompt ${count(systemTokens)}`,
    `${tools.length} tools ${count(toolsTokens)}${largestTool ? ` (${largestTool.tool.name} ${count(largestTool.tokens)})` : ''}`,
    `messages ${count(messages)}${at < 0 ? '' : ` (${describe(survey, at)} ${count(survey.prices[at]!)})`}`,
    ...(unknown > 0.1 * survey.size ? [`what the provider counts beside them ${count(unknown)}`] : []),
  ]
  const may = room ? `; it may have ${count(room.limit)} of a window of ${count(room.window)}` : ''
  const problem =
    `the conversation is too long for ${config.provider}/${config.model} and cannot be made shorter: about ` +
    `${count(survey.size)} tokens, of which ${parts.join(', ')}${may}`
  return { problem, fix: fixFor({ system: systemTokens, tools: toolsTokens, messages, unknown }) }
}

const FIXES = {
  system: 'shorten the system prompt and instruction files, or choose a model with a larger window',
  tools: 'leave out tools that are not needed, or choose a model with a larger window',
  messages: 'start a new session with less in it, or choose a model with a larger window',
  unknown: "set the model's contextWindow to what its server has, or choose a model with a larger window",
}

function fixFor(sizes: Readonly<Record<keyof typeof FIXES, number>>): string {
  const keys = Object.keys(FIXES) as (keyof typeof FIXES)[]
  return FIXES[keys.reduce((a, b) => (sizes[b] > sizes[a] ? b : a))]
}

function toolTokens(tool: ToolSchema, { config }: Envelope, llm: LlmService): number {
  return llm.meter.estimate(config, { tools: [tool], messages: [] })
}

function describe(survey: Survey, at: number): string {
  const { message, seq } = survey.nodes[at]!
  const { source } = message
  if (source.kind === 'tool') return `the largest is a result of a tool, event ${seq}`
  if (source.kind === 'user') return `the largest is what the person said, event ${seq}`
  if (source.kind === 'compaction') return `the largest is what was said before, summed up, event ${seq}`
  return `the largest is ${message.role === 'assistant' ? 'an answer' : 'context'}, event ${seq}`
}

export const count = (tokens: number) => Math.round(tokens).toLocaleString('en-US')
