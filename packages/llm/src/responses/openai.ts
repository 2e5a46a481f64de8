/** OpenAI itself: the one provider of this protocol that needs nothing but its key. */

import type { ProviderEntry } from '../web/provider.ts'

const BASE_URL = 'https://api.openai.com/v1'

/** What is known of each model is in the table of models; the first is taken when none is named. */
const MODELS = [
  'gpt-5',
  'gpt-5-mini',
  'gpt-5-nano',
  'gpt-5-codex',
  'gpt-5-pro',
  'gpt-5.1',
  'gpt-5.1-codex',
  'gpt-5.1-codex-max',
  'gpt-5.2',
  'gpt-5.2-codex',
  'gpt-5.3-codex',
  'gpt-5.4',
  'gpt-5.5',
  'gpt-5.6',
  'gpt-4.1',
  'gpt-4.1-mini',
  'o3',
  'o4-mini',
]

export const OPENAI: ProviderEntry = {
  provider: 'openai-responses',
  baseURL: BASE_URL,
  keys: ['OPENAI_API_KEY'],
  // OPENAI_BASE_URL is where chat completions are asked for: a server that has it need not speak this protocol.
  bases: [],
  kind: 'remote',
  models: MODELS.map(id => ({ id })),
}

/** False where OPENAI_BASE_URL leads elsewhere: the key is meant for that server then. */
export function officialIsMeant(): boolean {
  const other = process.env['OPENAI_BASE_URL']?.trim().replace(/\/+$/, '')
  return !other || other === BASE_URL
}
