/** Messages, streams and the door to models. */

export * from './adapter.ts'
export * from './message.ts'
export * from './service.ts'
export * from './stream.ts'
