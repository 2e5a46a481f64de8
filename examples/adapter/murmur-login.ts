/** Lets a person log in to Murmur in place of a key: `cambium auth login murmur`. */

import { type Context, HarnessError } from '@cambium/core'
import type { AuthProvider, Grant } from '@cambium/store/credentials'

export const name = 'murmur-login'
export const inject = ['auth']

export function apply(ctx: Context) {
  ctx.auth.register(murmur)
}

const murmur: AuthProvider = {
  id: 'murmur',
  label: 'Murmur account',

  async login({ say, ask }): Promise<Grant> {
    say('Say the word that was whispered to you.')
    const word = (await ask('Word: ', { hidden: true })).trim()
    if (!word) throw new HarnessError('MURMUR_NO_WORD', 'there was no word', { fix: 'log in again, and type it' })
    return grant(word, 1)
  },

  /** When a grant ends, and once when the server refuses it. */
  async refresh({ data }): Promise<Grant> {
    return grant(String(data['word']), Number(data['turn']) + 1)
  },

  headers: ({ data }) => ({ 'x-murmur-word': `${data['word']}-${data['turn']}` }),
}

/** A real one asks the provider here. */
function grant(word: string, turn: number): Grant {
  return { data: { word, turn }, expiresAt: Date.now() + 3_600_000 }
}
