import { readFileSync } from 'node:fs'
import * as scripted from '@cambium/llm/scripted'
import { expect, it } from 'vitest'
import { parse } from 'yaml'
import { answer, tree, user } from './llm.ts'

const readme = readFileSync(new URL('../README.md', import.meta.url), 'utf8')
const block = (language: string, containing: string) => {
  const blocks = readme.matchAll(new RegExp(`\`\`\`${language}\\n(.*?)\`\`\``, 'gs'))
  return [...blocks].map(([, text]) => text!).find(text => text.includes(containing))!
}

it('the scenario of the README can be played', async () => {
  const root = await tree()
  await root.plugin(scripted, parse(block('yaml', 'turns:')) as scripted.Config)
  const tools = [{ name: 'bash', description: '', parameters: {} }]
  const first = await answer(root, { provider: 'scripted', messages: [user('repair it')], tools })
  expect(first).toMatchObject({ text: 'I run the tests first.', calls: [{ name: 'bash' }] })
})
