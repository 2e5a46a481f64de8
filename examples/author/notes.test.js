/** Run by Node's own test runner: node --test */

import assert from 'node:assert/strict'
import { afterEach, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { textOf } from 'cambium/llm'
import { bootTree } from 'cambium/loader'

const file = fileURLToPath(new URL('try.yml', import.meta.url))
let tree

afterEach(() => tree.dispose())

/** The tree as it is, without the row that waits for somebody to type. */
async function boot(set = []) {
  tree = await bootTree({ file }, { set, patches: [{ text: '- { id: try, disabled: true }' }] })
}

async function note(text) {
  const result = await tree.ctx.tools.execute({ name: 'note', arguments: JSON.stringify({ text }) })
  return textOf(result)
}

test('a note is made, and the model is told its number', async () => {
  await boot()
  assert.equal(await note('tea at four'), 'Noted as number 1.')
  assert.equal(tree.ctx.notes.list()[0].text, 'tea at four')
})

test('what is no note is refused in words that a model can follow', async () => {
  await boot(['note-tool.maxChars=12'])
  assert.match(await note('cake and tea at four'), /at most 12 characters/)
  assert.match(await note('sk-12345678'), /no place for keys/)
  assert.deepEqual(tree.ctx.notes.list(), [])
})

test('the tool leaves with its plugin, and notes outlive a reload of theirs', async () => {
  await boot()
  await note('tea at four')
  await tree.ctx.loader.reload({ remount: new Set(['notes']) })
  assert.equal(await note('cake at five'), 'Noted as number 2.')
  await tree.ctx.loader.update('note-tool', { disabled: true })
  assert.deepEqual(tree.ctx.tools.schemas(), [])
})
