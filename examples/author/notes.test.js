/** Run by Node's own test runner: node --test */

import assert from 'node:assert/strict'
import { afterEach, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { textOf } from 'cambium/llm'
import { bootTree } from 'cambium/loader'

const file = fileURLToPath(new URL('cordis.yml', import.meta.url))
let tree

afterEach(() => tree.dispose())

/** The tools without an agent. */
async function boot(config = {}) {
  const rows = [
    { name: '@cambium/session' },
    { name: '@cambium/llm' },
    { name: '@cambium/tools' },
    { name: '@cambium/agent' },
    { id: 'notes', name: './notes.ts' },
    { id: 'note-tool', name: './note-tool.ts', config },
  ]
  tree = await bootTree({ data: rows, file })
}

async function note(text) {
  const result = await tree.ctx.tools.execute({ name: 'note', arguments: JSON.stringify({ text }) })
  return textOf(result)
}

test('a note is made, and the model is told its number', async () => {
  await boot()
  assert.equal(await note('tea at four'), 'Noted as number 1.')
  assert.deepEqual(
    tree.ctx.notes.list().map(({ text }) => text),
    ['tea at four'],
  )
})

test('a note that is too long is refused in words that a model can follow', async () => {
  await boot({ maxChars: 5 })
  assert.match(await note('tea at four'), /text.*5/s)
  assert.deepEqual(tree.ctx.notes.list(), [])
})

test('notes outlive a reload of their plugin', async () => {
  await boot()
  await note('tea at four')
  await tree.ctx.loader.reload({ remount: new Set(['notes']) })
  assert.equal(await note('cake at five'), 'Noted as number 2.')
})
