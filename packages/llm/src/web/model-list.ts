/** What a server's `GET /models` says, in our words. */

import type { ModelInfo } from '../stream.ts'
import { isRecord } from './failure-code.ts'

/** Models that can answer; the one that is known to be the default comes first where it is there. */
export function readModels(body: unknown, known: readonly ModelInfo[]): readonly ModelInfo[] {
  const list = isRecord(body) && Array.isArray(body['data']) ? body['data'] : []
  const ids = list.flatMap(item => (isRecord(item) && typeof item['id'] === 'string' ? [item['id']] : []))
  const byId = new Map(known.map(model => [model.id, model]))
  const found = ids.filter(id => !/embed/i.test(id)).map(id => byId.get(id) ?? { id })
  const first = known.find(model => ids.includes(model.id))
  return first ? [first, ...found.filter(model => model !== first)] : found
}
