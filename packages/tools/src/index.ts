/** Tools: definitions, the registry and the pipeline of a call. */

export * from './agent.ts'
export * from './definition.ts'
export * from './service.ts'
