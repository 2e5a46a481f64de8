/** The `cambium` command, and the parts of it that other programs of this workspace show progress with. */

export { EXIT, type ExitCode } from './exit-code.ts'
export type { Host } from './host.ts'
export { main } from './main.ts'
export { foldOutcome, type Outcome, type StopReason } from './outcome.ts'
export type { Report } from './output.ts'
export { StatusLine } from './status-line.ts'
