/** Searches in a process of its own: `searcher.mjs <folder> <query>`; tells of its progress and its answer, a line of JSON each. */

import { createRoot } from '@cambium/core'
import * as session from '@cambium/session'
import * as jsonl from '@cambium/session/jsonl'
import * as search from '@cambium/session/search'

const [folder = '', query = ''] = process.argv.slice(2)
const root = createRoot({ level: 'silent' })
await root.plugin(session)
await root.plugin(jsonl, jsonl.Config({ folder: `${folder}/sessions` } as jsonl.Config))
await root.plugin(search, search.Config({ folder: `${folder}/search`, lockMs: 30_000 } as search.Config))
const say = (line: object) => process.stdout.write(`${JSON.stringify(line)}\n`)
const { hits, notices } = await root.sessionSearch.search(query, {
  limit: 1_000,
  onProgress: (done, all) => say({ done, all }),
})
say({ ids: hits.map(({ id }) => id).sort(), notices })
await root.fiber.dispose()
