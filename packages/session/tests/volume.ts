/** Logs of the size that long work makes, written without the product, so that opening and listing them can be measured. */

import { closeSync, mkdirSync, openSync, writeSync } from 'node:fs'
import { dirname } from 'node:path'

const WORDS = 'const value = await read(path); // the next line returns what was found, or throws: see below\n'
const text = (bytes: number, salt: number) => `${salt} ${WORDS.repeat(Math.ceil(bytes / WORDS.length))}`.slice(0, bytes)
const START = Date.UTC(2026, 0, 1)

/** Writes lines through one buffer. */
export class LogOfSize {
  seq = 0
  bytes = 0
  private parts: string[] = []
  private length = 0
  private readonly fd: number

  constructor(path: string, id: string, cwd = '/work/shop') {
    mkdirSync(dirname(path), { recursive: true })
    this.fd = openSync(path, 'w')
    this.line({ type: 'session', version: 1, id, createdAt: START, cwd })
  }

  event(type: string, data: unknown): number {
    this.line({ seq: this.seq, time: START + this.seq * 100, type, data })
    return this.seq++
  }

  line(value: unknown): void {
    this.raw(`${JSON.stringify(value)}\n`)
  }

  raw(line: string): void {
    this.parts.push(line)
    this.length += line.length
    this.bytes += line.length
    if (this.length > 1 << 20) this.drain()
  }

  close(): void {
    this.drain()
    closeSync(this.fd)
  }

  private drain(): void {
    writeSync(this.fd, this.parts.join(''))
    this.parts = []
    this.length = 0
  }
}

export const said = (id: string, words: string) => ({
  message: { id, role: 'user', content: [{ type: 'text', text: words }], source: { kind: 'user' } },
})

const TOOLS = Array.from({ length: 12 }, (_, i) => ({
  name: `tool_${i}`,
  description: text(600, i),
  parameters: { type: 'object', properties: { file_path: { type: 'string', description: text(120, i) } } },
}))

/** One prompt and its answer in `steps` steps of five events each; most bytes are the results of tools, a few KiB each. */
export function turn(log: LogOfSize, number: number, steps: number, resultBytes = 3_100, answerBytes = 900): void {
  log.event('inbox/changed', {
    inserted: [{ target: 'next-turn', ...said(`u${number}`, `please do thing ${number}`) }],
  })
  log.event('turn/start', { turn: number })
  log.event('request/header', {
    config: { provider: 'local', model: 'm' },
    system: text(4_000, number),
    tools: TOOLS,
  })
  log.event('user/message', said(`u${number}`, `please do thing ${number}`))
  for (let step = 1; step <= steps; step++) {
    const callId = `call-${number}-${step}`
    const args = JSON.stringify({ file_path: `/work/shop/src/file-${step}.ts`, offset: step })
    log.event('step/start', { turn: number, step })
    log.event('assistant/message', {
      turn: number,
      step,
      message: {
        id: `a-${number}-${step}`,
        role: 'assistant',
        content: [
          { type: 'reasoning', text: text(answerBytes / 2, step) },
          { type: 'text', text: text(answerBytes / 2, step) },
          { type: 'tool-call', id: callId, name: 'read', arguments: args },
        ],
        source: { kind: 'model', provider: 'local', model: 'm' },
      },
      usage: { input: 1_000 + step, output: 200, cacheRead: 900, cacheWrite: 0 },
      finish: 'tool-calls',
    })
    log.event('tool/call', { turn: number, step, callId, name: 'read', arguments: args })
    log.event('tool/result', {
      turn: number,
      step,
      message: {
        id: `r-${number}-${step}`,
        role: 'user',
        content: [
          { type: 'tool-result', toolCallId: callId, content: [{ type: 'text', text: text(resultBytes, step) }] },
        ],
        source: { kind: 'tool', callId },
      },
      durationMs: 12,
    })
    log.event('step/end', { turn: number, step })
  }
  log.event('turn/end', { turn: number, reason: { kind: 'completed' } })
}

/** 100,000 events in 100 MiB, or another number of events of the same mix. */
export function longLog(path: string, id: string, events = 100_000): LogOfSize {
  const log = new LogOfSize(path, id)
  for (let number = 1; log.seq < events; number++) turn(log, number, 50)
  log.close()
  return log
}

/** 128 MiB of 9,000 messages, of which a summary has just replaced all but the last few. */
export function compactedLog(path: string, id: string): LogOfSize {
  const log = new LogOfSize(path, id)
  let last = 0
  for (let number = 1; number <= 90; number++) {
    turn(log, number, 49, 25_000, 3_000)
    last = log.seq - 3
  }
  log.event('turn/start', { turn: 91 })
  log.event('context/replaced', { from: 3, to: last, ...said('sum', 'what happened so far') })
  log.event('turn/end', { turn: 91, reason: { kind: 'completed' } })
  turn(log, 92, 2)
  log.close()
  return log
}

/** One line that is far longer than any may be, between two short messages. */
export function wideLog(path: string, id: string, lineBytes = 300 << 20): LogOfSize {
  const log = new LogOfSize(path, id)
  log.event('user/message', said('u1', 'before'))
  const block = 'x'.repeat(1 << 20)
  log.raw('{"seq":1,"time":1,"type":"tool/result","data":{"text":"')
  for (let done = 0; done < lineBytes; done += block.length) log.raw(block)
  log.raw('"}}\n')
  log.seq++
  log.event('user/message', said('u2', 'after'))
  log.close()
  return log
}

/** A session as most are: a prompt, a few steps. */
export function smallLog(path: string, id: string, cwd?: string): LogOfSize {
  const log = new LogOfSize(path, id, cwd)
  turn(log, 1, 3, 1_500, 400)
  log.close()
  return log
}
