/** The pictures that a task brings along, read and admitted. */

import { open } from 'node:fs/promises'
import { basename } from 'node:path'
import { isHarnessError } from '@cambium/core'
import type { UserBlock } from '@cambium/llm'
import { admitImage } from '@cambium/llm/image'
import { usageError } from './flags.ts'

const MAX_BYTES = 256 * 2 ** 20

/** The blocks that stand before the task's words; several pictures are told apart by their names. @throws `CLI_USAGE` */
export async function readImages(paths: readonly string[], signal: AbortSignal): Promise<UserBlock[]> {
  const blocks: UserBlock[] = []
  for (const path of paths) {
    try {
      const image = await admitImage(await readPicture(path, signal), { name: `--image ${path}`, signal })
      if (paths.length > 1) blocks.push({ type: 'text', text: `${basename(path)}:` })
      blocks.push(image)
    } catch (error) {
      const unfit = isHarnessError(error) && error.code === 'IMAGE_UNSUPPORTED'
      throw unfit ? usageError(error.problem, error.fix) : error
    }
  }
  return blocks
}

/** A pipe or a device would be waited for without an end, so that only files are read. */
async function readPicture(path: string, signal: AbortSignal): Promise<Buffer> {
  const failed = (problem: string) => usageError(`--image ${path} ${problem}`, 'name a PNG, JPEG, GIF or WebP file')
  const file = await open(path, 'r').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') throw failed('does not exist')
    throw failed(`cannot be read (${error.code})`)
  })
  try {
    const stat = await file.stat()
    if (!stat.isFile()) throw failed(stat.isDirectory() ? 'is a folder' : 'is no file')
    if (stat.size > MAX_BYTES) throw failed('is larger than 256 MiB')
    return await file.readFile({ signal })
  } finally {
    await file.close()
  }
}
