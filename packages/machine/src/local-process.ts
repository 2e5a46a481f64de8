/** `ctx.process` on this machine. */

import { type Context, Service } from '@cambium/core'
import { LocalHost, type LocalHostOptions } from './local-host.ts'
import type { ProcessHost, ProcessResult, RunRequest, SpawnedProcess, SpawnRequest } from './process.ts'

const hosts = new Set<LocalHost>()
const abandonAll = () => {
  for (const host of hosts) host.abandon()
}

/** Only the door: a service's own fields are read through a proxy, which a command should pay for once. */
export class LocalProcess extends Service implements ProcessHost {
  private readonly host: LocalHost

  constructor(ctx: Context, options: LocalHostOptions) {
    super(ctx, 'process')
    const host = new LocalHost(options)
    this.host = host
    ctx.effect(() => {
      // One listener for all: several trees in one process are not a leak.
      if (!hosts.size) process.on('exit', abandonAll)
      hosts.add(host)
      return async () => {
        await host.close()
        hosts.delete(host)
        if (!hosts.size) process.off('exit', abandonAll)
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
