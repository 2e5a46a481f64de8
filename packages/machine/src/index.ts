/** What an agent may touch: the seams `ctx.fs` and `ctx.process`. */

export * from './fs.ts'
export * from './process.ts'
