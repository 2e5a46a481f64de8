import { afterAll, beforeAll, expect, test } from 'vitest'
import { startWatching, type Watching } from './watching.ts'

const packages = new URL('../../../node_modules/@cambium', import.meta.url).pathname

const FILES = {
  'package.json': '{ "type": "module" }',
  'cordis.yml': `
- name: '@cambium/llm'
- name: '@cambium/session'
- name: '@cambium/tools'
- name: '@cambium/agent'
- { name: '@cambium/agent/loop', config: { model: fake/model, persona: You are under test. } }
- { id: clock, name: ./clock.ts }
- { id: drive, name: ./drive.ts }
`,
  'clock.ts': `
import type { Context } from '@cambium/core'
import { defineTool } from '@cambium/tools'
import { told } from './told.ts'
import { face } from './face.ts'

export const inject = ['tools']
export function apply(ctx: Context) {
  ctx.tools.register(
    defineTool({
      name: 'clock',
      description: 'Tells the time.',
      parameters: {},
      async execute() {
        console.error('the call runs')
        await told('end call')
        console.error('the call ends')
        return face
      },
    }),
  )
  ctx.effect(() => () => console.error('clock gone'))
}
`,
  'face.ts': "export const face: string = 'ten'\n",
  'told.ts': `
export const told = (word: string) =>
  new Promise<void>(resolve => {
    process.on('message', function listen(message) {
      if (message !== word) return
      process.off('message', listen)
      resolve()
    })
  })
`,
  // An agent that is asked by the test, and a model whose answers wait for it.
  'drive.ts': `
import type { Context } from '@cambium/core'
import { createUserMessage, textOf } from '@cambium/llm'
import { call, fakeModel, say } from '@cambium/testkit'
import { told } from './told.ts'

export const inject = ['llm', 'agents', 'sessions']
export async function apply(ctx: Context) {
  const clock = { name: 'clock' }
  fakeModel(ctx, [
    call('clock'),
    async () => (await told('go on'), call('clock')),
    say('That was it.'),
    () => ({ text: ['Let me', ' see.'], pause: told('end stream'), calls: [clock] }),
    say('That was it.'),
  ])
  ctx.on('loader/drain', rows => console.error('waits for', ...rows))
  ctx.on('session/event', (_session, event) => {
    if (event.type === 'tool/result') {
      const [block] = event.data.message.content
      console.error('result', textOf(block))
    }
    if (event.type === 'assistant/chunk' && event.data.chunk.type === 'text-delta') console.error('chunk')
    if (event.type === 'turn/end') console.error('turn', event.data.reason.kind)
  })
  const { agent } = await ctx.agents.create()
  process.on('message', message => {
    if (message === 'ask') agent.followup(createUserMessage({ content: 'What time is it?', source: { kind: 'user' } }))
  })
}
`,
}

let run: Watching
beforeAll(async () => {
  run = startWatching(FILES, { links: { 'node_modules/@cambium': packages } })
  await run.until(/cordis\.yml is up/)
}, 30_000)
afterAll(() => run.end())

const face = (time: string) => run.write('face.ts', `export const face: string = '${time}'\n`)

test('a change during a tool call waits for its result, and the next step uses the new tool', async () => {
  run.child.send('ask')
  await run.until(/^the call runs/)
  face('eleven')
  expect(await run.until(/^waits for/)).toEqual(['waits for clock'])
  run.child.send('end call')
  const said = await run.until(/^hmr: /)
  expect(said.filter(line => line !== 'result ten')).toEqual([
    'the call ends',
    'clock gone',
    'hmr: face.ts → clock reloaded in time',
  ])
  expect(said).toContain('result ten')
  run.child.send('go on')
  await run.until(/^the call runs/)
  run.child.send('end call')
  expect((await run.until(/^turn/)).filter(line => line !== 'chunk')).toEqual([
    'the call ends',
    'result eleven',
    'turn completed',
  ])
})

test('a change while the model answers leaves the turn going, and its next step uses the new tool', async () => {
  run.child.send('ask')
  await run.until(/^chunk/)
  face('twelve')
  await run.until(/^hmr: face.ts → clock reloaded/)
  run.child.send('end stream')
  await run.until(/^the call runs/)
  run.child.send('end call')
  expect((await run.until(/^turn/)).filter(line => line !== 'chunk')).toEqual([
    'the call ends',
    'result twelve',
    'turn completed',
  ])
})
