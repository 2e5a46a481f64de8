/**
 * Plugins run in a process of their own while a command reports on them: its standard output is our standard error, its
 * standard input is empty, and what it found comes back by a pipe. So nothing that a plugin prints, reads or ends can
 * spoil what the command prints.
 */

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, writeFileSync, writeSync } from 'node:fs'
import { constants } from 'node:os'
import type { Readable } from 'node:stream'
import { errorMessage, HarnessError, isHarnessError } from '@cambium/core'

const RESULT = 3
const MARK = 'CORDIS_RESULT_FD'
const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const

/** The working process shows that it is alive by a blank, which JSON may begin with. */
const BEAT_MS = 500
/** How long it may be silent: a plugin that computes without an end keeps it from everything else. */
const SILENCE_MS = 30_000

/** What nobody caught, beside what the work itself tells. */
export interface Apart<T> {
  readonly found: T
  readonly stray: readonly string[]
}

export type Answer<T> = Apart<T> | { readonly failure: string }

/**
 * Has `work` done in a process that runs this same command line, and hands what it resolves with, as JSON, to `report`;
 * resolves with the exit code. `signal` aborts when a person or the system wants an end.
 */
export async function workApart<T>(
  work: (signal: AbortSignal) => Promise<T>,
  report: (answer: Apart<T>) => number,
  silenceMs = SILENCE_MS,
): Promise<number> {
  if (process.env[MARK] !== undefined) return workHere(work)
  const { answer, code } = await runAgain<T>(silenceMs)
  if (!answer) return code
  // A reader that has gone, `| head` say, is no reason to crash.
  process.stdout.on('error', () => {})
  if ('failure' in answer) {
    process.stderr.write(`cordis: ${answer.failure}\n`)
    return 1
  }
  return report(answer)
}

async function runAgain<T>(silenceMs: number): Promise<{ answer?: Answer<T> | undefined; code: number }> {
  const child = spawn(process.execPath, [...process.execArgv, ...process.argv.slice(1)], {
    stdio: ['ignore', 2, 2, 'pipe'],
    env: { ...process.env, [MARK]: String(RESULT) },
    // A terminal's signals reach us alone, and are handed on: each once.
    detached: process.platform !== 'win32',
    windowsHide: true,
  })
  let signal: (typeof SIGNALS)[number] | undefined
  const forward = (name: (typeof SIGNALS)[number]) => {
    child.kill(signal ? 'SIGKILL' : name)
    signal = name
  }
  for (const name of SIGNALS) process.on(name, forward)
  let busy = false
  const kill = () => {
    busy = true
    child.kill('SIGKILL')
  }
  // Node and the sources take their time before the first sign.
  let silence = setTimeout(kill, SILENCE_MS)
  let told = ''
  ;(child.stdio[RESULT] as Readable).setEncoding('utf8').on('data', (text: string) => {
    told += text
    clearTimeout(silence)
    silence = setTimeout(kill, silenceMs)
  })
  try {
    const [code, killed] = (await once(child, 'close')) as [number | null, NodeJS.Signals | null]
    if (signal) return { code: 128 + constants.signals[signal] }
    if (busy) return { answer: { failure: 'a plugin keeps the process busy and does not come to an end' }, code: 1 }
    if (told.trim()) return { answer: JSON.parse(told) as Answer<T>, code: 0 }
    const how = killed ? `was ended by ${killed}` : `ended with code ${code}`
    return { answer: { failure: `the process that ran the plugins ${how} before it could tell anything` }, code: 1 }
  } finally {
    clearTimeout(silence)
    for (const name of SIGNALS) process.off(name, forward)
  }
}

async function workHere<T>(work: (signal: AbortSignal) => Promise<T>): Promise<number> {
  // A plugin's own processes are no part of this.
  delete process.env[MARK]
  const stop = new AbortController()
  const stray: string[] = []
  const onSignal = () => (stop.signal.aborted ? exit(1) : stop.abort())
  const onStray = (error: unknown) => void stray.push(messageOf(error))
  const { exit } = process
  process.exit = code => {
    throw new HarnessError('TREE_EXIT', `it called process.exit(${code ?? ''}), which would end every tree`, {
      fix: 'call ctx.app.exit(code)',
    })
  }
  for (const name of SIGNALS) process.on(name, onSignal)
  process.on('unhandledRejection', onStray)
  process.on('uncaughtException', onStray)
  const beat = () => {
    try {
      writeSync(RESULT, ' ')
    } catch {
      // Whoever wanted to know has gone.
      stop.abort()
    }
  }
  beat()
  const beats = setInterval(beat, BEAT_MS)
  let answer: Answer<T>
  try {
    const found = await work(stop.signal)
    // What nobody caught is told once the promises have settled that led here.
    await new Promise(setImmediate)
    answer = { found, stray }
  } catch (error) {
    answer = { failure: messageOf(error) }
  }
  clearInterval(beats)
  process.exit = exit
  if (!stop.signal.aborted) writeFileSync(RESULT, JSON.stringify(answer))
  closeSync(RESULT)
  return 0
}

const messageOf = (error: unknown) =>
  isHarnessError(error) || !(error instanceof Error) ? errorMessage(error) : (error.stack ?? error.message)
