/** `cambium sessions search`: where something was said. */

import { HarnessError } from '@cambium/core'
import type { SessionHit } from '@cambium/session/search'
import { EXIT } from '../exit-code.ts'
import { usageError } from '../flags.ts'
import { escapeControls, plural } from '../printable.ts'
import { since } from './amounts.ts'
import { shortIds } from './short-id.ts'
import type { Colors, SessionsWork } from './work.ts'

const SHOWN = 20

export async function run(work: SessionsWork): Promise<number> {
  const { ctx, config, cwd, surface, ended: signal } = work
  const index = ctx.get('sessionSearch')
  if (!index) {
    throw new HarnessError('CLI_NO_SEARCH', 'sessions cannot be searched: the tree mounts no search of sessions', {
      fix: 'add the row @cambium/session/search; cambium sessions list <words> looks at titles without it',
    })
  }
  const query = config.words.join(' ')
  if (!query && !config.rebuild) throw usageError('search needs something to look for')
  const onProgress = (done: number, all: number) => {
    surface.notes.set(done < all ? `reading sessions · ${done} of ${all}` : '')
  }
  try {
    if (config.rebuild) {
      const { sessions } = await index.rebuild({ signal, onProgress })
      work.note(`the index was made anew from ${plural(sessions, 'session')}`)
      if (!query) return EXIT.done
    }
    const { hits, indexed, notices } = await index.search(query, {
      ...(config.all ? {} : { cwd }),
      limit: config.limit ?? SHOWN,
      signal,
      onProgress,
    })
    surface.notes.set('')
    for (const notice of notices) work.note(`cambium: ${escapeControls(notice)}`)
    const short = shortIds(await work.store.list())
    if (config.json) {
      await work.sayJson({ hits: hits.map(hit => ({ ...hit, short: short(hit.id) })), indexed, notices })
      return EXIT.done
    }
    if (!hits.length) {
      const where = config.all ? '' : ` of ${escapeControls(cwd)}; --all looks into those of other folders`
      work.note(`cambium: nothing was found in ${plural(indexed, 'session')}${where}`)
      return EXIT.done
    }
    await work.write(hitLines(hits, short, await work.colors()))
    return EXIT.done
  } finally {
    surface.notes.set('')
  }
}

const SPEAKERS = { user: 'you', assistant: 'model', tool: 'tool', title: 'title' } as const

/** A session's hits below its line, in the order they came. */
function* hitLines(hits: readonly SessionHit[], short: (id: string) => string, colors: Colors): Generator<string> {
  const now = Date.now()
  const sessions = new Map<string, SessionHit[]>()
  for (const hit of hits) sessions.set(hit.id, [...(sessions.get(hit.id) ?? []), hit])
  for (const [id, found] of sessions) {
    yield `${colors.bold(short(id))}  ${escapeControls(found[0]?.title ?? '')}`.trimEnd()
    yield '\n'
    for (const { time, role, snippet, matches } of found) {
      const facts = `${since(time, now).padStart(12)}  ${SPEAKERS[role].padEnd(5)}`
      yield `  ${colors.dim(facts)}  ${marked(snippet, matches, colors)}\n`
    }
  }
}

/** Where there are no colours, the match stands between asterisks. */
function marked(snippet: string, matches: SessionHit['matches'], colors: Colors): string {
  let text = ''
  let at = 0
  for (const [from, to] of matches) {
    if (from < at || to > snippet.length) continue
    const match = escapeControls(snippet.slice(from, to))
    text +=
      escapeControls(snippet.slice(at, from)) +
      (colors.isColorSupported ? colors.bold(colors.yellow(match)) : `*${match}*`)
    at = to
  }
  return text + escapeControls(snippet.slice(at))
}
