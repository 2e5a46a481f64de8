/** The `cambium` command. What other programs show progress with is `@cambium/cli/progress`, so that this stays light. */

export { EXIT, type ExitCode } from './exit-code.ts'
export type { Host } from './host.ts'
export { main } from './main.ts'
export type { Report } from './output.ts'
