/** Stands between a program and `node:fs`: counts the calls below a folder, and has one of them fail, or all from one on. */

import fs from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'

/** An error code; `SHORT` is a write that takes only a part, which is no error. */
export type Failure = 'ENOSPC' | 'EIO' | 'EACCES' | 'EROFS' | 'EMFILE' | 'SHORT'

export interface Plan {
  /** Which of the calls, from 1. */
  readonly nth: number
  readonly failure: Failure
  readonly from: 'once' | 'now on'
}

type Call = (...args: unknown[]) => unknown

const SYNC =
  'openSync writeSync writevSync writeFileSync appendFileSync linkSync renameSync rmSync unlinkSync rmdirSync ftruncateSync ' +
  'truncateSync fstatSync statSync lstatSync readFileSync readSync readdirSync mkdirSync utimesSync futimesSync closeSync ' +
  'fsyncSync fdatasyncSync copyFileSync accessSync opendirSync cpSync'
const CALLBACK = 'open close fsync fdatasync write read fstat ftruncate stat rename unlink'
const PROMISE =
  'open readdir stat lstat readFile writeFile appendFile rm unlink rename mkdir link utimes copyFile access truncate'
const HANDLE = 'read write writev stat close sync datasync readFile writeFile appendFile truncate utimes'
/** What ends at once whatever happens: a failing close has closed all the same. */
const CLOSES = /^close/

export class FailingDisk {
  /** `function of the product ← call`, for each call since `start`. */
  readonly sites: string[] = []
  /** The calls that were made to fail. */
  readonly failed: string[] = []
  private folder = '\0'
  private plan: Plan | undefined
  private depth = 0
  private readonly files = new Set<number>()
  private readonly handles = new WeakSet<object>()

  static async install(anyFile: string): Promise<FailingDisk> {
    const disk = new FailingDisk()
    const all = fs as unknown as Record<string, Call>
    for (const name of SYNC.split(' ')) all[name] = disk.sync(name, all[name]!)
    for (const name of CALLBACK.split(' ')) all[name] = disk.callback(name, all[name]!)
    const promises = fs.promises as unknown as Record<string, Call>
    const handle = await fs.promises.open(anyFile)
    for (const name of PROMISE.split(' ')) promises[name] = disk.promise(name, promises[name]!)
    const methods = Object.getPrototypeOf(handle) as Record<string, Call>
    for (const name of HANDLE.split(' ')) if (methods[name]) methods[name] = disk.method(name, methods[name])
    await handle.close()
    syncBuiltinESMExports()
    return disk
  }

  start(folder: string, plan?: Plan): void {
    this.folder = folder
    this.plan = plan
    this.sites.length = 0
    this.failed.length = 0
  }

  /** From now on all goes well, and nothing is counted. */
  mend(): void {
    this.folder = '\0'
    this.files.clear()
  }

  private sync(name: string, real: Call): Call {
    const disk = this
    return function (this: unknown, ...args) {
      const failure = disk.depth === 0 && disk.concerns(args[0]) ? disk.next(name) : undefined
      disk.depth++
      try {
        if (failure) return disk.fail(name, failure, real, args)
        const answer = real.apply(this, args)
        if (name === 'openSync' && disk.concerns(args[0])) disk.files.add(answer as number)
        if (name === 'closeSync') disk.files.delete(args[0] as number)
        return answer
      } finally {
        disk.depth--
      }
    }
  }

  private callback(name: string, real: Call): Call {
    const disk = this
    return function (this: unknown, ...args) {
      const done = args.at(-1) as (error: unknown, ...rest: unknown[]) => void
      const failure = disk.depth === 0 && disk.concerns(args[0]) ? disk.next(name) : undefined
      if (!failure || failure === 'SHORT') return real.apply(this, args)
      const error = problem(failure, name)
      if (!CLOSES.test(name)) return void process.nextTick(done, error)
      disk.files.delete(args[0] as number)
      return real.call(this, ...args.slice(0, -1), () => done(error))
    }
  }

  private promise(name: string, real: Call): Call {
    const disk = this
    return async function (this: unknown, ...args) {
      const failure = disk.concerns(args[0]) ? disk.next(name) : undefined
      if (failure && failure !== 'SHORT') throw problem(failure, name)
      const answer = await real.apply(this, args)
      if (name === 'open' && disk.concerns(args[0])) disk.handles.add(answer as object)
      return answer
    }
  }

  private method(name: string, real: Call): Call {
    const disk = this
    return async function (this: object, ...args) {
      const failure = disk.folder !== '\0' && disk.handles.has(this) ? disk.next(`FileHandle.${name}`) : undefined
      if (!failure || failure === 'SHORT') return real.apply(this, args)
      if (CLOSES.test(name)) await real.apply(this, args)
      throw problem(failure, name)
    }
  }

  private fail(name: string, failure: Failure, real: Call, args: unknown[]): unknown {
    const [target, bytes, offset] = args
    if (name === 'writeSync' && bytes instanceof Uint8Array) {
      const from = typeof offset === 'number' ? offset : 0
      const part = Math.ceil((bytes.length - from) / 2)
      // A full disk takes what it still can, and says so only to the next write.
      const taken = failure === 'SHORT' || failure === 'ENOSPC' ? real(target, bytes, from, part) : 0
      if (failure === 'SHORT') return taken
    }
    if (failure === 'SHORT') return real.apply(fs, args)
    // One that opens, writes and closes leaves what it had come to.
    if (name === 'writeFileSync' && (failure === 'ENOSPC' || failure === 'EIO')) {
      const text = Buffer.from(bytes as string)
      real(target, text.subarray(0, text.length / 2), ...args.slice(2))
    }
    if (CLOSES.test(name)) {
      this.files.delete(target as number)
      real.apply(fs, args)
    }
    throw problem(failure, name)
  }

  private concerns(target: unknown): boolean {
    if (typeof target === 'number') return this.files.has(target)
    return typeof target === 'string' && target.startsWith(this.folder)
  }

  private next(name: string): Failure | undefined {
    const site = `${callerOf()} ← ${name}`
    this.sites.push(site)
    const { plan } = this
    if (!plan) return undefined
    const { length } = this.sites
    if (plan.from === 'once' ? length !== plan.nth : length < plan.nth) return undefined
    this.failed.push(site)
    return plan.failure
  }
}

function problem(code: string, call: string): Error {
  return Object.assign(new Error(`${code}: made to fail, ${call}`), { code, syscall: call, errno: -1 })
}

/** The function of the product that made the call. */
function callerOf(): string {
  const { stackTraceLimit } = Error
  Error.stackTraceLimit = 20
  const lines = new Error().stack?.split('\n') ?? []
  Error.stackTraceLimit = stackTraceLimit
  for (const line of lines) {
    const name = /^ +at (?:async )?(?:new )?([\w.$]+) \(file:/.exec(line)?.[1]
    if (name && !/^_?FailingDisk|^callerOf$/.test(name)) return name
  }
  return 'somebody'
}
