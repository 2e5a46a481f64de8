import { nearest } from '@cambium/core'
import { expect, it } from 'vitest'

const known = ['config', 'disabled', 'inject', 'isolate']

it.each([
  ['confg', 'config'],
  ['cnofig', 'config'],
  ['Disabled', 'disabled'],
  ['disable', 'disabled'],
  ['injekt', 'inject'],
  ['quite-different', undefined],
  ['x', undefined],
])('%s is nearest to %s', (name, meant) => {
  expect(nearest(name, known)).toBe(meant)
})

it('of two as near as each other the first is named, and of none none', () => {
  expect(nearest('bat', ['cat', 'hat'])).toBe('cat')
  expect(nearest('bat', [])).toBeUndefined()
})
