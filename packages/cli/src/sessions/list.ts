/** `cambium sessions list`: what there is, newest first. */

import type { SessionSummary } from '@cambium/session'
import { EXIT } from '../exit-code.ts'
import { escapeControls } from '../printable.ts'
import { listLines, plainLines } from './list-table.ts'
import { shortIds } from './short-id.ts'
import type { SessionsWork } from './work.ts'

/** Of a folder, on a terminal, when nobody says: what fits one. */
const SHOWN = 20

export async function run(work: SessionsWork): Promise<number> {
  const { store, config, cwd, terminal } = work
  const words = config.words.map(word => word.toLowerCase())
  const limit = config.limit ?? (terminal && !config.json && !words.length ? SHOWN : undefined)
  // All of them also for one folder: an id is short when no other session has it, wherever that is.
  const all = await store.list()
  const here = config.all ? all : await store.list({ cwd })
  const fitting = words.length ? here.filter(summary => fits(summary, words)) : here
  const shown = limit === undefined ? fitting : fitting.slice(0, limit)
  const short = shortIds(all)
  if (config.json) {
    await work.sayJson({ sessions: shown.map(summary => ({ ...summary, short: short(summary.id) })) })
    return EXIT.done
  }
  if (!shown.length) {
    work.note(`cambium: ${nothing(config.words, config.all, cwd, all.length)}`)
    return EXIT.done
  }
  if (!terminal) {
    await work.write(plainLines(shown))
    return EXIT.done
  }
  const { default: widthOf } = await import('string-width')
  const options = {
    short,
    widthOf,
    width: work.width,
    colors: await work.colors(),
    folders: config.all,
    now: Date.now(),
  }
  await work.write(listLines(shown, options))
  const left = fitting.length - shown.length
  if (left) work.note(`${left} more: --limit ${fitting.length}, or words that are in them`)
  return EXIT.done
}

function fits({ id, title = '', cwd, damaged = '' }: SessionSummary, words: readonly string[]): boolean {
  const text = `${id} ${title} ${cwd} ${damaged}`.toLowerCase()
  return words.every(word => text.includes(word))
}

function nothing(words: readonly string[], everywhere: boolean, cwd: string, others: number): string {
  const where = everywhere ? '' : ` of ${escapeControls(cwd)}`
  if (words.length)
    return `no session${where} has "${escapeControls(words.join(' '))}" in its title; cambium sessions search looks into what was said`
  return everywhere || !others
    ? 'there are no sessions yet'
    : `there are no sessions${where}; --all lists the ${others} of other folders`
}
