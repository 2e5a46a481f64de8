/** Images of results: each passes the one door of all pictures, and one that may not is a text that says why. */

import { isHarnessError } from '@cambium/core'
import type { ImageBlock, ResultBlock } from '@cambium/llm'

/** Blocks that have passed, so that those of a result that goes through further hands are not looked at again. */
const admitted = new WeakSet<ResultBlock>()

export const isAdmitted = (block: ResultBlock): boolean => admitted.has(block)

const isNew = (block: ResultBlock): block is ImageBlock =>
  block?.type === 'image' && typeof block.data === 'string' && !admitted.has(block)

/** The rest of the content is kept as it is. @throws the signal's reason when that aborts */
export async function admitImages(
  content: readonly ResultBlock[],
  signal: AbortSignal | undefined,
): Promise<readonly ResultBlock[]> {
  if (!content.some(isNew)) return content
  const { admitImage } = await import('@cambium/llm/image')
  return Promise.all(
    content.map(async block => {
      if (!isNew(block)) return block
      try {
        const bytes = Buffer.from(block.data.replace(/^data:[^,]{0,200},/, ''), 'base64')
        const image = Object.freeze(await admitImage(bytes, signal ? { signal } : {}))
        admitted.add(image)
        return image
      } catch (error) {
        if (!isHarnessError(error)) throw error
        const fix = error.fix ? `; ${error.fix}` : ''
        return { type: 'text', text: `[An image of this result cannot be shown: ${error.problem}${fix}.]` }
      }
    }),
  )
}
