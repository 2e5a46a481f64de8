/** Where the model finds the whole of a message that had no room. */

import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Context } from '@cambium/core'
import { errorMessage } from '@cambium/core'
import { textOf, type UserMessage } from '@cambium/llm'
import { isIntact, type Session } from '@cambium/session'
import { originOf } from './shorten.ts'

/** Writes the text of what somebody sent beside the session's log; answers with words that tell where, or none. */
export async function keepWhole(ctx: Context, session: Session, message: UserMessage): Promise<string> {
  const id = originOf(message)
  const event = session
    .events()
    .find(event => event.type === 'user/message' && isIntact(event) && event.data.message.id === id)
  if (event?.type !== 'user/message') return ''
  const folder = join(ctx.sessions.folder(session), 'messages')
  const file = join(folder, `${event.seq}.txt`)
  try {
    await mkdir(folder, { recursive: true })
    await writeFile(file, textOf(event.data.message))
  } catch (error) {
    // The log has it in any case; only the model cannot look it up.
    ctx.logger.warn(`${file} cannot be written: ${errorMessage(error)}`)
    return ''
  }
  return `all of it is in ${file}`
}
