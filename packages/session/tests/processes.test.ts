import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { textOf } from '@cambium/llm'
import { expect, it, onTestFinished, vi } from 'vitest'

import { bootStore, filesIn, linesOf, logOf, scratch } from './boot.ts'

// Starting a process takes seconds where many tests run at once.
vi.setConfig({ testTimeout: 60_000 })

const WORKER = fileURLToPath(new URL('./children/worker.ts', import.meta.url))

interface Worker {
  process: ChildProcess
  /** Runs a command of the worker's and gives its answer. */
  ask(name: string, ...args: unknown[]): Promise<unknown>
  exited: Promise<unknown>
}

async function start(folder: string, shell?: string): Promise<Worker> {
  const node = [process.execPath, '--import', 'tsx', WORKER, folder]
  const [file = '', ...args] = shell ? ['sh', '-c', `${shell}; exec "$@"`, 'sh', ...node] : node
  const child = spawn(file, args, { stdio: ['pipe', 'pipe', 'inherit'] })
  onTestFinished(() => void child.kill('SIGKILL'))
  let rest = ''
  const waiting: ((line: string) => void)[] = []
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    rest += text
    for (let at = rest.indexOf('\n'); at >= 0; at = rest.indexOf('\n')) {
      waiting.shift()?.(rest.slice(0, at))
      rest = rest.slice(at + 1)
    }
  })
  const answer = () => new Promise<unknown>(resolve => waiting.push(line => resolve(JSON.parse(line))))
  const exited = once(child, 'exit')
  expect(await answer()).toBe('ready')
  return {
    process: child,
    exited,
    ask(name, ...args) {
      const answered = answer()
      child.stdin.write(`${JSON.stringify([name, ...args])}\n`)
      return answered
    },
  }
}

const names = (prefix: string, count: number) => Array.from({ length: count }, (_, i) => `${prefix}${i}`)

it('one process writes a session; when it is killed, exactly one other takes over and nothing is lost', async () => {
  const folder = scratch()
  const [first, second, third] = await Promise.all([start(folder), start(folder), start(folder)])
  await first.ask('tools', 'tools')
  await first.ask('answering', 'answering')
  await first.ask('many', 'race-', 30)

  const busy = (await second.ask('resume', 'tools')) as Record<string, string>
  expect(busy['tools']).toMatch(new RegExp(`SESSION_BUSY: .* by process ${first.process.pid} on .*\\n.*lock\\n.*fork`))
  expect(await second.ask('read', 'tools')).toBe(7)

  first.process.kill('SIGKILL')
  await first.exited
  const race = names('race-', 30)
  const outcomes = (await Promise.all([second.ask('resume', ...race), third.ask('resume', ...race)])) as Record<
    string,
    string
  >[]
  for (const id of race) {
    const [won, ...others] = outcomes
      .map(outcome => outcome[id])
      .sort((a, b) => Number(b === 'mine') - Number(a === 'mine'))
    expect([id, won]).toEqual([id, 'mine'])
    expect(others).toEqual([expect.stringContaining('SESSION_BUSY')])
  }

  const { ctx } = await bootStore(folder)
  const tools = await ctx.sessions.resume('tools')
  expect(tools.events(7).map(event => [event.type, 'error' in event.data ? event.data.error : undefined])).toEqual([
    ['tool/result', expect.objectContaining({ code: 'TOOL_OUTCOME_UNKNOWN' })],
    ['tool/result', expect.objectContaining({ code: 'TOOL_NOT_STARTED' })],
    ['step/end', undefined],
    ['turn/end', undefined],
    ['session/resumed', undefined],
  ])
  const answering = await ctx.sessions.resume('answering')
  expect(answering.deriveMessages().map(textOf)).toEqual(['I was about to'])
  expect(answering.events().map(event => event.type)).toEqual([
    'turn/start',
    'step/start',
    'assistant/message',
    'step/end',
    'turn/end',
    'session/resumed',
  ])
  await ctx.sessions.flush(answering)
  expect(filesIn(folder).filter(path => path.endsWith('.partial'))).toEqual([])

  third.process.stdin?.end()
  second.process.stdin?.end()
  await Promise.all([second.exited, third.exited])
  const left = filesIn(folder).filter(path => !path.endsWith('.jsonl'))
  expect(left.map(path => path.split('/').pop())).toEqual(['answering.lock', 'tools.lock'])
})

it('a process that exits by itself stores what no flush has stored and leaves no lock', async () => {
  const folder = scratch()
  const worker = await start(folder)
  void worker.ask('leave', 'one')
  await worker.exited
  expect(filesIn(folder)).toHaveLength(1)
  expect(linesOf(logOf(folder, 'one'))).toHaveLength(6)
})

it.skipIf(process.platform === 'win32')(
  'a disk that takes no more refuses every flush and leaves whole lines',
  async () => {
    const folder = scratch()
    // A limit of the file's size stops a write in its middle, as a full disk does. 16 blocks of 512 bytes.
    const worker = await start(folder, 'ulimit -f 16')
    expect(await worker.ask('fill', 'one')).toEqual(['STORE_FULL', 'STORE_FULL', 'STORE_FULL'])
    const text = readFileSync(logOf(folder, 'one'), 'utf8')
    expect(text.endsWith('}\n')).toBe(true)
    expect(text.length).toBeLessThanOrEqual(16 * 1_024)
    const count = linesOf(logOf(folder, 'one')).length
    expect(count).toBeGreaterThan(3)
    worker.process.kill('SIGKILL')
    await worker.exited
    const { ctx } = await bootStore(folder)
    const session = await ctx.sessions.resume('one')
    expect(session.last('session/resumed')?.data).toEqual({ closed: 0 })
    expect(session.seq).toBe(count)
  },
)
