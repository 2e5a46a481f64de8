import { readFileSync } from 'node:fs'
import * as scripted from '@cambium/llm/scripted'
import { expect, it } from 'vitest'
import { parse } from 'yaml'
import { answer, tree, user } from './llm.ts'
import * as mine from './mine.ts'

const readme = readFileSync(new URL('../README.md', import.meta.url), 'utf8')
const block = (language: string, containing: string) => {
  const blocks = readme.matchAll(new RegExp(`\`\`\`${language}\\n(.*?)\`\`\``, 'gs'))
  return [...blocks].map(([, text]) => text!).find(text => text.includes(containing))!
}

it('the adapter of the README is the one that runs here', async () => {
  const source = readFileSync(new URL('mine.ts', import.meta.url), 'utf8')
  expect(source).toContain(block('ts', 'class Mine'))
  const root = await tree()
  await root.plugin(mine)
  expect((await answer(root, { provider: 'mine' })).text).toBe('hi')
})

it('the scenario of the README can be played', async () => {
  const root = await tree()
  await root.plugin(scripted, parse(block('yaml', 'turns:')) as scripted.Config)
  const tools = [{ name: 'bash', description: '', parameters: {} }]
  const first = await answer(root, { provider: 'scripted', messages: [user('repair it')], tools })
  expect(first).toMatchObject({ text: 'I run the tests first.', calls: [{ name: 'bash' }] })
})
