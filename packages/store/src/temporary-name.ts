import { randomBytes } from 'node:crypto'

/**
 * A name beside `path` for what is to take its place. Nobody else has it: counting would not do, since processes of
 * containers have the same few numbers, and a killed one leaves its file behind.
 */
export const temporaryName = (path: string) => `${path}.${process.pid}.${randomBytes(6).toString('hex')}.tmp`
