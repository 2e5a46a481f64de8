/** Another process with sessions in a folder; does what the lines on its standard input say, and answers in lines. */

import { createRoot, isHarnessError } from '@cambium/core'
import { createUserMessage } from '@cambium/llm'
import * as session from '@cambium/session'
import * as jsonl from '@cambium/session/jsonl'
import { answer, call, result } from '../script.ts'

const [folder = ''] = process.argv.slice(2)
const root = createRoot({ level: 'silent' })
await root.plugin(session)
await root.plugin(jsonl, jsonl.Config({ folder, partialMs: 50 } as jsonl.Config))
const { sessions } = root

const user = (text: string) => ({ message: createUserMessage({ content: text, source: { kind: 'user' } }) })
const codeOf = (error: unknown) => (isHarnessError(error) ? error.code : String(error))

const commands: Record<string, (...args: never[]) => unknown> = {
  /** A turn that is in the middle of its tools: one done, one running, one to come. */
  async tools(id: string) {
    const log = sessions.create(id)
    log.append('turn/start', { turn: 1 })
    log.append('user/message', user('go'))
    log.append('step/start', { turn: 1, step: 1 })
    log.append('assistant/message', answer(1, 'on it', 'done', 'running', 'waiting'))
    log.append('tool/call', call(1, 'done'))
    log.append('tool/result', result(1, 'done'))
    log.append('tool/call', call(1, 'running'))
    await sessions.flush(log)
  },
  /** A turn in the middle of its answer, journalled. */
  async answering(id: string) {
    const log = sessions.create(id)
    log.append('turn/start', { turn: 1 })
    log.append('step/start', { turn: 1, step: 1 })
    const at = { turn: 1, step: 1, attempt: 1 }
    log.publish('assistant/chunk', { ...at, chunk: { type: 'block-start', index: 0, blockType: 'text' } })
    log.publish('assistant/chunk', { ...at, chunk: { type: 'text-delta', index: 0, text: 'I was about to' } })
    // Timers of one length fire in the order they were set: the journal's comes first.
    await new Promise(resolve => setTimeout(resolve, 50))
  },
  async many(prefix: string, count: number) {
    for (let i = 0; i < count; i++) {
      const log = sessions.create(`${prefix}${i}`)
      log.append('user/message', user(`hello ${i}`))
      await sessions.flush(log)
    }
  },
  async resume(...ids: string[]) {
    const outcomes: Record<string, string> = {}
    for (const id of ids) {
      outcomes[id] = await sessions.resume(id).then(
        () => 'mine',
        error => (isHarnessError(error) ? error.message : String(error)),
      )
    }
    return outcomes
  },
  async read(id: string) {
    return (await root.sessionPersistence.read(id)).events.length
  },
  /** Appends until storing fails. */
  async fill(id: string) {
    const log = sessions.create(id)
    const failures: string[] = []
    while (failures.length < 3) {
      log.append('user/message', user('x'.repeat(1_500)))
      await sessions.flush(log).catch(error => failures.push(codeOf(error)))
    }
    return failures
  },
  /** Ends at once with events that no flush has stored. */
  leave(id: string) {
    const log = sessions.create(id)
    for (let i = 0; i < 5; i++) log.append('user/message', user(`hello ${i}`))
    process.exit(0)
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
    say(await commands[name]?.(...args))
  }
}
await root.fiber.dispose()
