/** The harness's own disk: where its home is, and writing there. */

export { createWhole } from './create-whole.ts'
export { diskError } from './disk-error.ts'
export { ensureFolder } from './ensure-folder.ts'
export { homeFolder } from './home-folder.ts'
export { replaceFile } from './replace-file.ts'
export { type FileChange, type FileWatch, type WatchOptions, watchFiles } from './watch-files.ts'
export { writeAtomic } from './write-atomic.ts'
