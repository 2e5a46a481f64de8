/**
 * Runs the default tree through one ending after the other, in a process of its own, and tells what each has left.
 * It never ends itself: that it ends at all shows that nothing holds it.
 */

import { createHook } from 'node:async_hooks'
import { readdirSync, readFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type {} from '@cambium/agent'
import { createUserMessage } from '@cambium/llm'
import { type BootedTree, bootTree, type ReplyScript, startModelServer } from '@cambium/testkit'
import type { Agent } from '@cambium/tools'
import type { Left } from './left.ts'

const TREE = fileURLToPath(new URL('../../cordis.yml', import.meta.url))
const HOME = process.env['CAMBIUM_HOME'] ?? ''

/** Also what does not keep the process alive: a forgotten timer that is unreferenced still fires. */
Error.stackTraceLimit = 40
const held = new Map<number, { type: string; stack: string }>()
createHook({
  init(id, type) {
    if (
      /^(PROMISE|TickObject|Microtask|RANDOMBYTES|FSREQ|FILEHANDLE|GETADDRINFO|HTTP|SHUTDOWN|WRITE|TCPCONNECT)/.test(
        type,
      )
    )
      return
    held.set(id, { type, stack: new Error(type).stack ?? '' })
  },
  destroy: id => void held.delete(id),
}).enable()

/** Timers and handles that code of ours has made and not given back. */
function handles(): string[] {
  const ours = /\/packages\/(?!testkit\/)\S+/
  return [...held.values()].flatMap(({ type, stack }) => {
    const [at] = ours.exec(stack) ?? []
    return at && type !== 'Immediate' ? [`${type} at ${at}`] : []
  })
}

const listeners = () =>
  Object.fromEntries(process.eventNames().map(name => [String(name), process.listenerCount(name as 'exit')]))

/** Programs that descend from this one, also when their parent has ended: they carry our mark in their environment. */
function programs(): string[] {
  return readdirSync('/proc').flatMap(pid => {
    if (!/^\d+$/.test(pid) || pid === String(process.pid)) return []
    try {
      if (!readFileSync(`/proc/${pid}/environ`, 'latin1').includes(`QUIESCENCE=${process.pid}`)) return []
      return [readFileSync(`/proc/${pid}/cmdline`, 'latin1').replaceAll('\0', ' ').trim()]
    } catch {
      return []
    }
  })
}
process.env['QUIESCENCE'] = String(process.pid)

const filesIn = (folder: string): string[] =>
  readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter(entry => !entry.isDirectory())
    .map(entry => join(entry.parentPath, entry.name))

const call = (name: string, args: Record<string, unknown>) => ({ name, arguments: args })
const WORK: ReplyScript[] = [
  { toolCalls: [call('write', { file_path: 'notes.txt', content: 'needle\n' })] },
  {
    toolCalls: [
      call('read', { file_path: 'notes.txt' }),
      call('grep', { pattern: 'needle' }),
      call('glob', { pattern: '*' }),
    ],
  },
  { toolCalls: [call('edit', { file_path: 'notes.txt', old_string: 'needle', new_string: 'thread' })] },
  { toolCalls: [call('bash', { command: 'sleep 300 & seq 1 50000' })] },
  { fault: '503' },
  'done',
]

type Ending = (tree: BootedTree, agent: Agent) => Promise<void>

const endings: Record<string, { replies: ReplyScript[]; end: Ending }> = {
  'after a task with every tool, a retry, and a program in the background': {
    replies: WORK,
    async end(tree, agent) {
      await next(tree, 'turn/end')
      await agent.whenIdle()
      const { reason } = agent.session.last('turn/end')!.data
      if (reason.kind !== 'completed') throw new Error(`the task ended by ${JSON.stringify(reason)}`)
    },
  },
  'while a program runs': {
    replies: [{ toolCalls: [call('bash', { command: 'echo $$; sleep 300', timeout_ms: 400_000 })] }],
    end: tree => next(tree, 'tool/progress'),
  },
  'while an answer streams': {
    replies: [{ text: 'a long answer that does not end', pieceChars: 4, fault: 'stall', after: 3 }],
    end: tree => next(tree, 'assistant/chunk'),
  },
  'while it waits to try again': {
    replies: [{ fault: '503', retryAfter: 20 }],
    end: tree => new Promise(resolve => void tree.ctx.on('llm/retry', () => resolve())),
  },
  'before anything was asked': { replies: [], end: async () => {} },
}

/** What was closed is told of in the next rounds of the event loop. */
async function settled() {
  for (let round = 0; round < 5; round++) await new Promise(setImmediate)
  globalThis.gc?.()
  await new Promise(setImmediate)
}

function next(tree: BootedTree, type: string): Promise<void> {
  return new Promise(resolve => {
    tree.ctx.on('session/event', (_session, event) => event.type === type && resolve())
  })
}

async function run(replies: ReplyScript[], end: Ending, ask: boolean): Promise<Left> {
  await using server = await startModelServer({ replies })
  process.env['OPENAI_BASE_URL'] = server.url
  process.env['OPENAI_API_KEY'] = 'none'
  const before = { listeners: listeners(), resources: process.getActiveResourcesInfo().sort() }
  const tree = await bootTree({ file: TREE })
  const states = tree.tree
    .rows()
    .map(({ row, state, declares, provides }) => ({ id: row.id, state, declares, provides }))
  const { agent } = await tree.ctx.agents.create({ model: 'openai/test-model', cwd: join(HOME, '..', 'work') })
  const ended = end(tree, agent)
  if (ask) agent.followup(createUserMessage({ content: 'go', source: { kind: 'user' } }))
  await ended
  const startedAt = performance.now()
  await tree.dispose()
  const disposeMs = performance.now() - startedAt
  await settled()
  const ours = handles()
  await server.close()
  await settled()
  const { fiber } = tree.ctx
  const reason = agent.session.last('turn/end')?.data.reason
  return {
    states,
    disposeMs,
    reason,
    effects: fiber.getEffects().map(effect => effect.label),
    handles: ours,
    listeners: { before: before.listeners, after: listeners() },
    resources: { before: before.resources, after: process.getActiveResourcesInfo().sort() },
    programs: programs(),
    // Logs stay, and what belongs to a session stays beside its log.
    files: filesIn(HOME).filter(name => !/\.jsonl$|\.files\//.test(name)),
    temporary: readdirSync(tmpdir()).filter(name => name.startsWith('cambium')),
    logs: tree.logs(),
  }
}

const report: Record<string, Left> = {}
for (const [name, { replies, end }] of Object.entries(endings))
  report[name] = await run(replies, end, replies.length > 0)
process.stdout.write(JSON.stringify(report))
