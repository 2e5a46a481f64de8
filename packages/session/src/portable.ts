/** Sessions as one file that can be carried elsewhere: written event by event, and taken again without a loss. */

export { type ImportedSession, readSession } from './portable/read.ts'
export { EXPORT_FORMAT, EXPORT_VERSION, type ExportOptions, exportSession } from './portable/write.ts'
