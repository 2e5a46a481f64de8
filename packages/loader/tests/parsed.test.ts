import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { type ReadOptions, readTree, setInstallation } from '@cambium/loader'
import { afterEach, expect, test } from 'vitest'
import { pack } from '../src/file/parsed.ts'
import { createSource } from '../src/file/source.ts'
import { parseYaml } from '../src/file/yaml.ts'

let undo = () => {}
afterEach(() => undo())

/** What an installation keeps of a text. */
function parsed(text: string) {
  const value = parseYaml(text, createSource('/tree/cordis.yml'), [])
  return value && JSON.parse(JSON.stringify(pack(value)))
}

function outcome(text: string, options: ReadOptions = {}) {
  try {
    const tree = readTree({ text, file: '/tree/cordis.yml' }, { env: { PORT: '80' }, ...options })
    // Rows have functions of their own; what they are called with stands in the data.
    return JSON.stringify(tree, null, 2)
  } catch (error) {
    return (error as Error).message
  }
}

const FEATURES = `
- &first
  id: a
  name: p
  config: { port: !env PORT, host: !env [HOST, "::1"], list: [1, 0.5, ~, 'x', true], sum: !js 1 + 1 }
- { <<: *first, id: b, disabled: !js env.PORT === '80' }
`

const DEFAULT_TREE = readFileSync(fileURLToPath(new URL('../../../cordis.yml', import.meta.url)), 'utf8')

test.each([
  ['every kind of value', FEATURES],
  ['a mistake in a row', '- id: a\n  nmae: p\n'],
  ['the default tree', DEFAULT_TREE],
])('a text that was parsed before reads as the text itself: %s', (_, text) => {
  const options = text === FEATURES ? { set: ['a.port=90'] } : {}
  const plain = outcome(text, options)
  const known = parsed(text)
  let asked = 0
  undo = setInstallation({
    resolve: () => undefined,
    parsed: given => {
      asked++
      return given === text ? known : undefined
    },
  })
  expect(outcome(text, options)).toEqual(plain)
  expect(asked).toBe(1)
})

test('data of a program reads as the text that would hold it, without lines to point at', () => {
  const data = [{ id: 'a', name: 'p', label: undefined, config: { list: [1, { deep: null }], text: 'x' } }]
  const { rows } = readTree({ data, file: '/tree/cordis.yml' })
  expect(rows).toMatchObject([{ id: 'a', name: 'p', config: { list: [1, { deep: null }], text: 'x' } }])
  expect(() => readTree({ data: [{ id: 'a', nmae: 'p' }], file: '/tree/cordis.yml' })).toThrow(
    /where: \/tree\/cordis\.yml \(row a\)/,
  )
})
