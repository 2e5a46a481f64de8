/** The harness's own disk: where its home is, and writing there. What most starts do not need has paths of its own. */

export { createWhole } from './create-whole.ts'
export { diskError } from './disk-error.ts'
export { ensureFolder } from './ensure-folder.ts'
export { homeFolder } from './home-folder.ts'
export { type Holder, isSelf, Lease, type LeaseOptions, liveHolder, type Taking, takeLease } from './lease.ts'
export { locked, lockedSoon } from './locked.ts'
export { PROJECT_FOLDER, projectFolder } from './project-folder.ts'
export { replaceFile, requireReplaceable } from './replace-file.ts'
export { writeAtomic } from './write-atomic.ts'
