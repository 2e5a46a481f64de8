import { randomBytes } from 'node:crypto'
import { dirname, join } from 'node:path'

/** A name in the same folder for what is to take the place of `path`: nobody else's, and hidden from most lists. */
export const temporaryName = (path: string): string =>
  join(dirname(path), `.cambium-${randomBytes(6).toString('hex')}.tmp`)
