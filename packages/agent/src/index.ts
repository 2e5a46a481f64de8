/** Agents, their inbox and the loop. */

export type { Agent, CancelCause } from '@cambium/tools'
export * from './events.ts'
