/**
 * Plugins run in a process of their own while a command reports on them: its standard output is our standard error, its
 * standard input is empty, and what it found comes back by a pipe. So nothing that a plugin prints, reads or ends can
 * spoil what the command prints.
 */

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, writeFileSync } from 'node:fs'
import { constants } from 'node:os'
import type { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { errorMessage, HarnessError, isHarnessError } from '@cambium/core'

const RESULT = 3
const MARK = 'CORDIS_RESULT_FD'
const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const

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
): Promise<number> {
  if (process.env[MARK] !== undefined) return workHere(work)
  const { answer, code } = await runAgain<T>()
  if (!answer) return code
  if ('failure' in answer) {
    process.stderr.write(`cordis: ${answer.failure}\n`)
    return 1
  }
  return report(answer)
}

async function runAgain<T>(): Promise<{ answer?: Answer<T> | undefined; code: number }> {
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
  try {
    const closed = once(child, 'close')
    const told = await text(child.stdio[RESULT] as Readable)
    const [code, killed] = (await closed) as [number | null, NodeJS.Signals | null]
    if (signal) return { code: 128 + constants.signals[signal] }
    if (told) return { answer: JSON.parse(told) as Answer<T>, code: 0 }
    const how = killed ? `was ended by ${killed}` : `ended with code ${code}`
    return { answer: { failure: `the process that ran the plugins ${how} before it could tell anything` }, code: 1 }
  } finally {
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
  let answer: Answer<T>
  try {
    const found = await work(stop.signal)
    // What nobody caught is told once the promises have settled that led here.
    await new Promise(setImmediate)
    answer = { found, stray }
  } catch (error) {
    answer = { failure: messageOf(error) }
  }
  process.exit = exit
  if (!stop.signal.aborted) writeFileSync(RESULT, JSON.stringify(answer))
  closeSync(RESULT)
  return 0
}

const messageOf = (error: unknown) =>
  isHarnessError(error) || !(error instanceof Error) ? errorMessage(error) : (error.stack ?? error.message)
