/** `cambium sessions import`: a session that was exported, or the file of a log, from elsewhere. */

import { createReadStream, existsSync } from 'node:fs'
import type { Readable } from 'node:stream'
import { HarnessError } from '@cambium/core'
import { isSessionId, newSessionId } from '@cambium/session'
import { readSession } from '@cambium/session/portable'
import { EXIT } from '../exit-code.ts'
import { usageError } from '../flags.ts'
import { escapeControls, plural } from '../printable.ts'
import { storeWhole } from './copy.ts'
import { shortIds } from './short-id.ts'
import type { SessionsWork } from './work.ts'

/** It is read as a whole, and an engine's texts end at about twice as much. */
const MAX_BYTES = 256 << 20

export async function run(work: SessionsWork): Promise<number> {
  const { config, ctx, store, surface } = work
  const [file = ''] = config.words
  if (config.id !== undefined && !isSessionId(config.id)) {
    throw usageError(`--id ${config.id} cannot be the id of a session`, 'use letters, digits, and . _ - between them')
  }
  const from = file === '-' ? 'standard input' : file
  const { header, events, redacted, notices } = read(await bytesOf(file, surface.input?.stdin), from)
  const id = config.id ?? header.id
  const cwd = config.moved ? work.cwd : header.cwd
  const all = await store.list()
  const other = all.find(summary => summary.id === id)
  if (other) {
    throw new HarnessError('SESSION_EXISTS', `another session ${id} is stored already`, {
      where: other.path,
      fix: `give this one another id, such as --id ${newSessionId()}`,
    })
  }
  const { parent, origin, depth, createdAt } = header
  const session = ctx.sessions.create(id, {
    cwd,
    seed: events,
    header: {
      createdAt,
      ...(parent ? { parent } : {}),
      ...(origin ? { origin } : {}),
      ...(depth === undefined ? {} : { depth }),
    },
  })
  await storeWhole(ctx.sessions, session)
  if (config.json) {
    await work.sayJson({ id, cwd, events: events.length, redacted, notices })
    return EXIT.done
  }
  await work.say(id)
  for (const notice of notices) work.note(`cambium: ${escapeControls(notice)}`)
  const short = shortIds([...all, { id }])
  work.note(
    `imported ${plural(events.length, 'event')}${redacted ? ', without the keys that were taken out of it' : ''}`,
  )
  if (existsSync(cwd)) work.note(`go on with: cambium run --resume ${short(id)} "…"`)
  else
    work.note(`cambium: it works in ${escapeControls(cwd)}, which is not here: import it with --cwd to go on with it`)
  return EXIT.done
}

function read(bytes: Buffer, from: string) {
  try {
    return readSession(bytes.toString('utf8'))
  } catch (error) {
    if (!(error instanceof HarnessError)) throw error
    const { code, problem, where, fix } = error
    throw new HarnessError(code, problem, { where: `${from}, ${where}`, cause: error, ...(fix ? { fix } : {}) })
  }
}

/** @throws `CLI_IMPORT` */
async function bytesOf(file: string, stdin: Readable | undefined): Promise<Buffer> {
  const stream = file === '-' ? stdin : createReadStream(file)
  if (!stream) throw usageError('nothing is piped in', 'name a file')
  const chunks: Buffer[] = []
  let size = 0
  try {
    for await (const chunk of stream) {
      chunks.push(Buffer.from(chunk))
      size += chunk.length
      if (size > MAX_BYTES)
        throw new HarnessError('CLI_IMPORT', `it is larger than ${MAX_BYTES >> 20} MiB`, { where: file })
    }
  } catch (error) {
    if (error instanceof HarnessError) throw error
    const { code = '', message } = error as NodeJS.ErrnoException
    const why = { ENOENT: 'it is not there', EISDIR: 'it is a folder' }[code] ?? message
    throw new HarnessError('CLI_IMPORT', `the file cannot be read: ${why}`, { where: file, cause: error })
  } finally {
    stream.destroy()
  }
  return Buffer.concat(chunks)
}
