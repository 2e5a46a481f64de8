/** Run by Node's own test runner: node --test */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { bootTree } from 'cambium/loader'

const file = fileURLToPath(new URL('cordis.yml', import.meta.url))

async function greet(tree, args) {
  const result = await tree.ctx.tools.execute({ name: 'sample_plugin', arguments: JSON.stringify(args) })
  return result.content.map(block => block.text).join('')
}

test('somebody is greeted as the row says', async () => {
  const tree = await bootTree({ file }, { set: ['sample-plugin.greeting=Good morning'] })
  assert.equal(await greet(tree, { name: 'Ada' }), 'Good morning, Ada!')
  await tree.dispose()
})

test('a call without a name is refused in words that a model can follow', async () => {
  const tree = await bootTree({ file })
  assert.match(await greet(tree, {}), /name/)
  await tree.dispose()
})

test('the tool leaves with its plugin', async () => {
  const tree = await bootTree({ file })
  const { tools } = tree.ctx
  const names = () => tools.schemas().map(({ name }) => name)
  assert.deepEqual(names(), ['sample_plugin'])
  await tree.ctx.loader.remove('sample-plugin')
  assert.deepEqual(names(), [])
  await tree.dispose()
})
