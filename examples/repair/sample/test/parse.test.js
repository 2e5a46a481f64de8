import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parse } from '../src/index.js'

test('splits rows and fields', () => {
  assert.deepEqual(parse('a,b\n1,2\n'), [
    ['a', 'b'],
    ['1', '2'],
  ])
})

test('keeps separators and line breaks inside quotes', () => {
  assert.deepEqual(parse('"x, y","two\nlines"\r\n'), [['x, y', 'two\nlines']])
})

test('reads a doubled quote as one quote', () => {
  assert.deepEqual(parse('Ada,"I said ""hi"""\n'), [['Ada', 'I said "hi"']])
})

test('takes another separator', () => {
  assert.deepEqual(parse('a;b', { separator: ';' }), [['a', 'b']])
})
