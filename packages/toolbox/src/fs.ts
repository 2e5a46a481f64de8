/** Lets an agent read, write and edit files: the tools `read`, `write` and `edit`. */

import type { Context } from '@cambium/core'
import type {} from '@cambium/machine'
import type {} from '@cambium/tools'
import Schema from 'schemastery'
import { editTool } from './edit-tool.ts'
import { readTool } from './read-tool.ts'
import { writeTool } from './write-tool.ts'

export const name = 'toolbox-fs'
export const inject = ['tools', 'fs']

export interface Config {
  readLines: number
  readLineChars: number
  readBytes: number
  editBytes: number
}

export const Config: Schema<Config> = Schema.object({
  readLines: Schema.natural().min(1).default(2_000).description('Most lines that one read shows'),
  readLineChars: Schema.natural().min(80).default(2_000).description('Longer lines are cut in what a read shows'),
  readBytes: Schema.natural().min(1_024).default(51_200).description('Most bytes that one read shows'),
  editBytes: Schema.natural()
    .default(10 * 2 ** 20)
    .description('Largest file that is edited'),
})

export function apply(ctx: Context, config: Config) {
  const { fs, tools } = ctx
  tools.register(readTool(fs, config))
  tools.register(writeTool(fs))
  tools.register(editTool(fs, config))
}
