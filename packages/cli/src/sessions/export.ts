/** `cambium sessions export`: a session for other people, or for another machine. */

import { existsSync, readdirSync } from 'node:fs'
import { open, rename, rm } from 'node:fs/promises'
import { dirname } from 'node:path'
import { HarnessError, redactJson } from '@cambium/core'
import { price } from '@cambium/llm'
import type { SessionHeader, StoredSession } from '@cambium/session'
import { exportSession } from '@cambium/session/portable'
import { EXIT } from '../exit-code.ts'
import { foldOutcome } from '../outcome.ts'
import { escapeControls, plural } from '../printable.ts'
import { storyMarkdown } from './story-markdown.ts'
import type { SessionsWork } from './work.ts'

export async function run(work: SessionsWork): Promise<number> {
  const { config } = work
  const { summary, stored } = await work.open()
  for (const notice of stored.notices) work.note(`cambium: ${notice}`)
  const parts =
    config.format === 'json'
      ? exportSession(stored, config.redact ? { redact: value => redactJson(value) } : {})
      : markdown(work, config.redact ? redacted(stored) : stored, summary.title)
  if (config.output === undefined) await work.write(parts)
  else {
    await writeWhole(config.output, parts)
    work.note(`exported to ${escapeControls(config.output)}`)
  }
  const left = filesOf(work, stored.header)
  if (left)
    work.note(
      `cambium: ${plural(left, 'file')} that belong to the session, such as results that were too long, are not in it`,
    )
  if (!config.redact) work.note('cambium: it is not redacted: keys that were said or shown are in it')
  return EXIT.done
}

const redacted = (stored: StoredSession): StoredSession => ({
  ...stored,
  header: redactJson(stored.header as never) as SessionHeader,
  events: stored.events.map(event => redactJson(event as never)),
})

function markdown(work: SessionsWork, stored: StoredSession, title: string | undefined): Iterable<string> {
  const { ctx, config } = work
  const llm = ctx.get('llm')
  const tools = ctx.get('tools')
  const usage = foldOutcome(stored.events, (spent, route) => (llm ? price(spent, llm.modelInfo(route)) : undefined))
  return storyMarkdown(stored, {
    title: (config.redact ? redactJson(title) : title) ?? 'A session',
    redacted: config.redact,
    usage,
    present: (name, args) => tools?.get(name)?.presentCall?.(args),
  })
}

/** All of it or nothing, for nobody else to read: a session is private until somebody shares it. */
async function writeWhole(path: string, parts: Iterable<string>): Promise<void> {
  const fresh = `${path}.${process.pid}.part`
  try {
    const file = await open(fresh, 'wx', 0o600)
    try {
      let chunk = ''
      for (const part of parts) {
        chunk += part
        if (chunk.length < 256 * 1024) continue
        await file.write(chunk)
        chunk = ''
      }
      await file.write(chunk)
    } finally {
      await file.close()
    }
    await rename(fresh, path)
  } catch (error) {
    await rm(fresh, { force: true })
    const { code = '', message } = error as NodeJS.ErrnoException
    const why =
      { ENOENT: `there is no folder ${dirname(path)}`, EISDIR: 'it is a folder', ENOSPC: 'the disk is full' }[code] ??
      message
    throw new HarnessError('CLI_EXPORT', `the session cannot be written: ${why}`, { where: path, cause: error })
  }
}

function filesOf({ store }: SessionsWork, header: SessionHeader): number {
  const folder = store.folder?.(header)
  if (!folder || !existsSync(folder)) return 0
  return readdirSync(folder, { recursive: true, withFileTypes: true }).filter(entry => entry.isFile()).length
}
