/**
 * A process whose disk takes no more in the middle of a turn, and then again does. Its folder is a small file system of its
 * own (`full`), or one that it may not write to (`closed`). It prints what came of it.
 */

import { chmodSync, chownSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { createUserMessage, textOf } from '@cambium/llm'
import { bootTree } from './tree.ts'

const { how, when, folder, ledger, url } = JSON.parse(process.argv[2] ?? '{}') as {
  how: 'full' | 'closed'
  when: 'user/message' | 'assistant/message'
  folder: string
  ledger: string
  url: string
}

const filler = join(folder, 'filler')
mkdirSync(folder, { recursive: true })
writeFileSync(ledger, '')
if (how === 'closed') {
  // Root may write anywhere.
  for (const path of [folder, ledger]) chownSync(path, 65_534, 65_534)
  process.setgid?.(65_534)
  process.setuid?.(65_534)
}

function block(log: string) {
  if (how === 'closed') {
    // What is open stays so: only what is still to be opened is refused.
    chmodSync(dirname(log), 0o500)
    return
  }
  for (let bytes = 1 << 16; bytes >= 1; bytes >>= 1) {
    try {
      for (;;) writeFileSync(filler, Buffer.alloc(bytes, 'x'), { flag: 'a' })
    } catch {}
  }
}
function unblock(log: string) {
  if (how === 'closed') chmodSync(dirname(log), 0o700)
  else rmSync(filler)
}

const { ctx } = await bootTree({ folder: join(folder, 'sessions'), url, ledger })
const { agent } = await ctx.agents.create({ id: 's', cwd: folder })
const log = how === 'closed' ? join(folder, 'sessions') : folder
let blocked = false
ctx.on('session/event', (_session, event) => {
  if (event.type !== when || blocked) return
  blocked = true
  block(log)
})
const effects = () => readFileSync(ledger, 'utf8').split('\n').filter(Boolean).length
async function ask(text: string) {
  agent.followup(createUserMessage({ content: text, source: { kind: 'user' } }))
  await agent.whenIdle()
  const reason = agent.session.last('turn/end')?.data.reason
  return { reason, effects: effects(), result: agent.session.last('tool/result')?.data.error }
}

if (how === 'closed') {
  // Nothing can be created there from the very beginning.
  mkdirSync(log)
  block(join(log, 'x'))
  blocked = true
}
const hindered = await ask('first')
unblock(how === 'closed' ? join(log, 'x') : log)
const free = await ask('second')
await ctx.sessions.flush(agent.session)
const stored = await ctx.sessionPersistence.read('s')
const said = stored.events.flatMap(({ type, data }) => (type === 'user/message' ? [textOf(data.message)] : []))
process.stdout.write(
  JSON.stringify({ hindered, free, said, same: stored.events.length === agent.session.seq, notices: stored.notices }),
)
await ctx.fiber.dispose()
