/** `ctx.process` on this machine. */

import { type Context, Service } from '@cambium/core'
import { LocalHost, type LocalHostOptions } from './local-host.ts'
import type { ProcessHost, ProcessResult, RunRequest, SpawnedProcess, SpawnRequest } from './process.ts'

/** Only the door: a service's own fields are read through a proxy, which a command should pay for once. */
export class LocalProcess extends Service implements ProcessHost {
  private readonly host: LocalHost

  constructor(ctx: Context, options: LocalHostOptions) {
    super(ctx, 'process')
    const host = new LocalHost(options)
    this.host = host
    ctx.effect(() => {
      const atExit = () => host.abandon()
      process.on('exit', atExit)
      return async () => {
        await host.close()
        process.off('exit', atExit)
      }
    }, 'child processes')
  }

  run(request: RunRequest): Promise<ProcessResult> {
    return this.host.run(this.ctx, request)
  }

  spawn(request: SpawnRequest): Promise<SpawnedProcess> {
    return this.host.spawn(this.ctx, request)
  }
}
