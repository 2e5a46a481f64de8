/** The event log. */

export * from './event.ts'
export * from './service.ts'
export * from './session.ts'
