/** Lets an agent find files by name and by content: the tools `glob` and `grep`, on ripgrep. */

import type { Context } from '@cambium/core'
import type {} from '@cambium/machine'
import type {} from '@cambium/tools'
import Schema from 'schemastery'
import { globTool } from './glob-tool.ts'
import { grepTool } from './grep-tool.ts'

export const name = 'toolbox-search'
export const inject = ['tools', 'fs', 'process']

export interface SearchLimits {
  readonly globFiles: number
  readonly grepMatches: number
  readonly grepChars: number
  readonly grepLineChars: number
  readonly timeoutMs: number
  readonly rgPath: string | undefined
}

export interface Config extends Omit<SearchLimits, 'rgPath'> {
  readonly rgPath?: string
}

export const Config: Schema<Config> = Schema.object({
  globFiles: Schema.natural().min(1).default(200).description('Most files that one glob lists'),
  grepMatches: Schema.natural().min(1).default(250).description('Most matching lines, or files, that one grep shows'),
  grepChars: Schema.natural().min(1_000).default(32_000).description('Most text that one grep shows'),
  grepLineChars: Schema.natural().min(40).default(400).description('Longer lines are cut around the match'),
  timeoutMs: Schema.natural().min(100).default(30_000).description('Time of one search, in milliseconds'),
  rgPath: Schema.string().description('Another ripgrep than the one that comes along'),
})

export function apply(ctx: Context, config: Config) {
  const { fs, process, tools } = ctx
  const limits: SearchLimits = { ...config, rgPath: config.rgPath }
  tools.register(globTool(fs, process, limits))
  tools.register(grepTool(fs, process, limits))
}
