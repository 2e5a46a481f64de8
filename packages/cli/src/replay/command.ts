/** `cambium replay`: from the command line to the row that does it, in a tree that has the session and in one that has its own store. */

import { mkdtempSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import type { Context } from '@cambium/core'
import { describeFlags, type FlagTable, readCount, readFlags, usageError } from '../flags.ts'
import type { Host } from '../host.ts'
import { LAYER_FLAGS, layerOptions } from '../layers/layer-options.ts'
import type { ReplaySource } from '../replay.ts'
import { runRow } from '../row-command.ts'

const FLAGS: FlagTable = {
  turn: { value: '<n>', help: 'only that turn; what was said before it is taken over as it is' },
  'run-tools': { help: 'tools that change nothing run, and what they answer now is compared' },
  'ignore-header': { help: 'system prompt, tools and model may differ: only what is said and done is compared' },
  json: { help: 'one JSON object with the first difference and the counts' },
  cwd: { value: '<folder>', short: 'C', help: 'the folder whose last session is meant when none is named' },
  ...LAYER_FLAGS,
  help: { short: 'h', help: 'this text' },
}

export function help(): string {
  return `usage: cambium replay [flags] [session]

Takes a session through the real loop once more: a fresh agent in a temporary store is told the same things,
and each request is answered as it was then. No model is asked and no tool has an effect: calls are answered
with what was recorded. What goes out and what comes of it is compared with the log: system prompt, tools and
model of each request, the messages, calls and their arguments, results, why turns ended. The first difference
is shown, recorded lines in red and today's in green. Without an id it is the last session of this folder.

${describeFlags(FLAGS)}

exit codes: 0 the same, 1 it went another way or failed, 2 for a mistake on the command line
`
}

/** Resolves with the exit code. @throws `CLI_USAGE` */
export async function run(argv: readonly string[], host: Host): Promise<number> {
  const line = readFlags(argv, FLAGS)
  const { words, flags } = line
  if (words.length > 1) throw usageError('replay takes one session', 'write cambium replay [flags] [session]')
  const cwd = resolve(host.cwd, flags.get('cwd')?.[0] ?? '.')
  const turn = flags.get('turn')?.[0]
  const config = {
    session: words[0] ?? '',
    cwd,
    ...(turn === undefined ? {} : { turn: readCount('turn', turn) }),
    runTools: flags.has('run-tools'),
    headers: !flags.has('ignore-header'),
    json: flags.has('json'),
  }
  const row = { id: 'cambium-replay', name: '@cambium/cli/replay', config }
  const source: ReplaySource = {}
  const prepare = (ctx: Context) => void ctx.provide('replaySource', source)
  const found = await runRow(row, layerOptions(line, host.env, host.cwd, cwd), host, prepare)
  if (!source.stored) return found
  const folder = mkdtempSync(join(tmpdir(), 'cambium-replay-'))
  try {
    // The layers of the folder that the session worked in, as they would be there now.
    const place = source.stored.header.cwd
    const there = statSync(place, { throwIfNoEntry: false })?.isDirectory() ? place : cwd
    const options = layerOptions(line, host.env, host.cwd, there)
    const set = [...options.set, `jsonl.folder=${JSON.stringify(folder)}`]
    return await runRow(row, { ...options, set }, host, prepare)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}
