/** The harness's own disk: where its home is, writing there, and hearing of changes. */

export { createWhole } from './create-whole.ts'
export { diskError } from './disk-error.ts'
export { ensureFolder } from './ensure-folder.ts'
export { homeFolder } from './home-folder.ts'
export { type Holder, Lease, type LeaseOptions, liveHolder, type Taking, takeLease } from './lease.ts'
export { locked, lockedSoon } from './locked.ts'
export { PROJECT_FOLDER, projectFolder } from './project-folder.ts'
export { replaceFile, requireReplaceable } from './replace-file.ts'
export { type TrustedFolder, type TrustFile, type TrustState, TrustStore } from './trust.ts'
export { type FileChange, type FileWatch, type WatchOptions, watchFiles } from './watch-files.ts'
export { writeAtomic } from './write-atomic.ts'
