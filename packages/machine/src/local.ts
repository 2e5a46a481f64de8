/** Gives an agent this machine: `ctx.fs` and `ctx.process` on the local disk and the local system. */

import type { Context } from '@cambium/core'
import Schema from 'schemastery'
import { LocalFs } from './local-fs.ts'
import { LocalProcess } from './local-process.ts'

export const name = 'machine-local'
export const provide = ['fs', 'process']

export interface Config {
  shell: string
  passEnv: string[]
  env: Record<string, string>
  maxOutputBytes: number
  maxSpillBytes: number
  maxSpillTotalBytes: number
  killGraceMs: number
}

export const Config: Schema<Config> = Schema.object({
  shell: Schema.string().default('bash').description('Program that runs command lines, called with `-c`'),
  passEnv: Schema.array(Schema.string())
    .default([])
    .description(
      'Environment variables passed to programs although their name looks like a credential; `AWS_*` for a family',
    ),
  env: Schema.dict(Schema.string()).default({}).description('Environment variables set for every program'),
  maxOutputBytes: Schema.natural()
    .min(1024)
    .default(64_000)
    .description('How much of a program’s output is kept in memory where the caller sets no bound'),
  maxSpillBytes: Schema.natural()
    .default(64 * 2 ** 20)
    .description('Bound of a file that keeps output in full'),
  maxSpillTotalBytes: Schema.natural()
    .default(512 * 2 ** 20)
    .description('Bound of all such files together; the oldest goes first'),
  killGraceMs: Schema.natural()
    .max(2_000)
    .default(2_000)
    .description('How long a program may take to end after it was asked to, before it is forced'),
})

export function apply(ctx: Context, config: Config) {
  new LocalFs(ctx)
  new LocalProcess(ctx, {
    shell: config.shell,
    environment: { pass: config.passEnv, set: config.env },
    maxOutputBytes: config.maxOutputBytes,
    maxSpillBytes: config.maxSpillBytes,
    maxSpillTotalBytes: config.maxSpillTotalBytes,
    killGraceMs: config.killGraceMs,
  })
}
