import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parse, stringify, toRecords } from '../src/index.js'

test('what was written is read back', () => {
  const rows = [
    ['id', 'note'],
    ['1', 'plain'],
    ['2', 'a "quoted" word, and a comma'],
  ]
  assert.deepEqual(parse(stringify(rows)), rows)
})

test('rows become records', () => {
  assert.deepEqual(toRecords([['id', 'note'], ['1']]), [{ id: '1', note: '' }])
})
