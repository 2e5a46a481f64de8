/** Has notes made in the language that a person set. */

import type {} from '@cambium/agent'
import type { Context } from '@cambium/core'
import type {} from '@cambium/store/settings'
import Schema from 'schemastery'

export const name = 'note-language'
export const inject = ['settings', 'systemPrompt']

const Settings = Schema.object({
  language: Schema.string()
    .default('')
    .description('Language that notes are made in; that of the conversation by default'),
})

export function apply(ctx: Context) {
  // Harmless, so that any project may say it; by default only a trusted one may, and `never` leaves it to the person.
  const settings = ctx.settings.define('notes', Settings, { project: 'always' })
  ctx.systemPrompt.section({
    name: 'note-language',
    order: 101,
    text() {
      const { language } = settings.get()
      return language && `Make notes in ${language}.`
    },
  })
}
