/** Lets a model make notes, and tells it when to. */

import type {} from '@cambium/agent'
import type { Context } from '@cambium/core'
import { defineTool } from '@cambium/tools'
import Schema from 'schemastery'
import type {} from './notes.ts'

export const name = 'note-tool'
export const inject = ['notes', 'tools', 'systemPrompt']

export interface Config {
  maxChars: number
}
export const Config: Schema<Config> = Schema.object({
  maxChars: Schema.natural().min(1).default(200).description('Longest note that a model may make'),
})

export function apply(ctx: Context, { maxChars }: Config) {
  ctx.tools.register(
    defineTool({
      name: 'note',
      description: 'Makes a note of something that has to be remembered.',
      parameters: { text: { type: 'string', required: true, maxLength: maxChars } },
      execute: ({ text }, exec) => `Noted as number ${ctx.notes.make(text, exec.agent?.id).id}.`,
    }),
  )
  ctx.systemPrompt.section({
    name: 'notes',
    order: 100,
    text: 'When the person wants something remembered, make a note of it with the tool note.',
  })
}
