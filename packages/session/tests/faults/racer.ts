/** A process that wants to write sessions; does what the lines on its standard input say, and answers in lines. */

import { createRoot, isHarnessError } from '@cambium/core'
import { createUserMessage } from '@cambium/llm'
import * as session from '@cambium/session'
import * as jsonl from '@cambium/session/jsonl'

const [folder = ''] = process.argv.slice(2)
const root = createRoot({ level: 'silent' })
await root.plugin(session)
// So slow a batch that what is appended is stored by a flush alone.
await root.plugin(jsonl, jsonl.Config({ folder, batchMs: 1_000, staleMs: 1_000 } as jsonl.Config))
const { sessions, sessionPersistence } = root

const live = (id: string) => {
  const found = sessions.get(id)
  if (!found) throw new Error(`session ${id} is not live here`)
  return found
}

const commands: Record<string, (...args: never[]) => unknown> = {
  create: (id: string) => void sessions.create(id, { cwd: folder }),
  async resume(id: string) {
    await sessions.resume(id)
    return 'mine'
  },
  say(id: string, ...texts: string[]) {
    const source = { kind: 'user' } as const
    for (const text of texts) live(id).append('user/message', { message: createUserMessage({ content: text, source }) })
  },
  flush: (id: string) => sessions.flush(live(id)),
  close: (id: string) => sessions.close(live(id)),
  async read(id: string) {
    return (await sessionPersistence.read(id)).events.length
  },
  async holder(id: string) {
    return (await sessionPersistence.list()).find(summary => summary.id === id)?.holder
  },
  async fork(id: string, child: string) {
    const fork = sessions.fork(await sessionPersistence.read(id), { id: child })
    await sessions.flush(fork)
    return fork.seq
  },
}

const say = (value: unknown) => process.stdout.write(`${JSON.stringify(value ?? null)}\n`)
say('ready')
let rest = ''
for await (const chunk of process.stdin.setEncoding('utf8')) {
  rest += chunk
  for (let at = rest.indexOf('\n'); at >= 0; at = rest.indexOf('\n')) {
    const [name, ...args] = JSON.parse(rest.slice(0, at)) as [string, ...never[]]
    rest = rest.slice(at + 1)
    try {
      say(await commands[name]?.(...args))
    } catch (error) {
      say({ error: isHarnessError(error) ? error.message : String(error) })
    }
  }
}
await root.fiber.dispose()
