/** Lets an agent run shell commands: the tool `bash`. */

import { type Context, isHarnessError } from '@cambium/core'
import type { FileSystem, ProcessHost, RunRequest } from '@cambium/machine'
import { defineTool, type ToolExecution, toolResult } from '@cambium/tools'
import Schema from 'schemastery'
import { reportCommand } from './bash-report.ts'
import { createOutputFeed } from './output-feed.ts'
import { cwdOf } from './place.ts'
import type {} from './spill.ts'

export const name = 'toolbox-bash'
export const inject = ['tools', 'fs', 'process']

export interface Config {
  timeoutMs: number
  maxTimeoutMs: number
  maxOutputBytes: number
}

export const Config: Schema<Config> = Schema.object({
  timeoutMs: Schema.natural()
    .min(1)
    .default(120_000)
    .description('Time of a command that asks for none, in milliseconds'),
  maxTimeoutMs: Schema.natural()
    .min(1)
    .max(2 ** 31 - 1)
    .default(600_000)
    .description('Most time a command may ask for'),
  maxOutputBytes: Schema.natural()
    .min(1_024)
    .default(32_000)
    .description('How much of a command’s output the model reads; the rest is kept in a file'),
})

export function apply(ctx: Context, config: Config) {
  const { fs, process, tools } = ctx
  /** Where the session keeps what is long; without that, output is kept for as long as this process. */
  const folderOf = ({ agent }: ToolExecution) => {
    const folder = agent && ctx.get('spill')?.folder(agent.session)
    return folder === undefined ? true : { folder }
  }
  tools.register(bashTool(fs, process, folderOf, config))
}

/** A tool-timeout plugin must not be quicker than the command's own time and its end by force. */
const SPARE_MS = 15_000

function bashTool(
  fs: FileSystem,
  host: ProcessHost,
  spill: (exec: ToolExecution) => NonNullable<RunRequest['spill']>,
  config: Config,
) {
  const { maxTimeoutMs } = config
  const usualMs = Math.min(config.timeoutMs, maxTimeoutMs)
  return defineTool({
    name: 'bash',
    description:
      'Runs a command line with bash in the working directory, in a fresh shell each time, and returns what it wrote to ' +
      'stdout and stderr and how it ended. There is no terminal and no input. Long output is cut in the middle and kept ' +
      `in full in a file. A command may take ${usualMs} ms, or timeout_ms up to ${maxTimeoutMs}.`,
    parameters: {
      command: { type: 'string', required: true, minLength: 1, description: 'The command line' },
      description: { type: 'string', description: 'What it does, in five to ten words, for the person who watches' },
      timeout_ms: {
        type: 'integer',
        minimum: 1,
        description: `Milliseconds after which it is ended; ${usualMs} if left out`,
      },
    },
    timeoutMs: Math.min(maxTimeoutMs + SPARE_MS, 2 ** 31 - 1),
    presentCall: args => args.description || args.command.split('\n', 1)[0]!,
    async execute({ command, timeout_ms = usualMs }, exec) {
      const timeoutMs = Math.min(timeout_ms, maxTimeoutMs)
      const feed = createOutputFeed(state => exec.progress(state))
      const request: RunRequest = {
        command,
        cwd: cwdOf(exec),
        timeoutMs,
        signal: exec.signal,
        maxBytes: config.maxOutputBytes,
        spill: spill(exec),
        onOutput: text => feed.push(text),
      }
      try {
        const { result, note } = await runSomewhere(fs, host, request)
        const { exitCode, signal, timedOut, aborted } = result
        const durationMs = Math.round(result.durationMs)
        const text = reportCommand({ result, timeoutMs, maxTimeoutMs, note })
        return toolResult({
          value: { output: text, exit_code: exitCode, signal, timed_out: timedOut },
          content: text,
          meta: {
            kind: 'command',
            exitCode,
            signal,
            timedOut,
            durationMs,
            ...(result.spill ? { spill: result.spill.path } : {}),
          },
          isError: aborted,
        })
      } finally {
        feed.end()
      }
    },
  })
}

/**
 * A working directory that is gone must not lock the model out: it could not even create it again. An empty one stands
 * in, where no relative path can hit anything by mistake.
 */
async function runSomewhere(fs: FileSystem, host: ProcessHost, request: RunRequest) {
  try {
    return { result: await host.run(request), note: undefined }
  } catch (error) {
    if (!isHarnessError(error) || error.code !== 'PROCESS_CWD_MISSING') throw error
    const cwd = await fs.tempDir()
    const note = `${error.problem}; the command ran in the empty directory ${cwd} instead: use absolute paths`
    return { result: await host.run({ ...request, cwd }), note }
  }
}
