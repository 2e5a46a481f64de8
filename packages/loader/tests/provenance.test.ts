/** What a tree tells of where its parts come from, for programs that show it without mounting it. */

import { placeOf, type Row, readTree } from '@cambium/loader'
import { tempWorkspace } from '@cambium/testkit'
import { expect, onTestFinished, test } from 'vitest'

function workspace(files: Record<string, string>) {
  const folder = tempWorkspace(files)
  onTestFinished(() => folder.dispose())
  return (name: string) => `${folder.path}/${name}`
}

const flat = (rows: readonly Row[]): Row[] => rows.flatMap(row => [row, ...flat(row.children)])

test('an inspected tree is put together by the same rules, and no expression of it runs', () => {
  const at = workspace({
    'cordis.yml':
      '- { id: a, name: ./a.ts, config: { x: 1, y: !js globalThis.ran = true }, disabled: !js globalThis.ran = 1 }\n',
    'patch.yml': '- { id: a, config: { x: !env [NAME, 2] } }\n- insert: [{ id: b, name: ./b.ts }]\n',
  })
  const source = { file: at('cordis.yml') }
  const { rows } = readTree(source, { patches: [{ file: at('patch.yml') }], inspect: true })
  expect(globalThis).not.toHaveProperty('ran')
  expect(rows.map(({ id, disabled }) => ({ id, disabled }))).toEqual([
    { id: 'a', disabled: false },
    { id: 'b', disabled: false },
  ])
  const config = rows[0]!.written.entries.get('config')!.value
  const [x, y] = ['x', 'y'].map(key => config.kind === 'map' && config.entries.get(key)!.value)
  expect(x).toMatchObject({ kind: 'expression', tag: '!env', text: 'NAME', fallback: { value: 2 } })
  expect(y).toMatchObject({ kind: 'expression', tag: '!js', text: 'globalThis.ran = true' })
})

test('each value knows its file and whose it is, also in the files that a layer includes', () => {
  const at = workspace({
    'cordis.yml': '- id: a\n  name: ./a.ts\n  config: { x: 1, y: 1 }\n',
    'mine/patch.yml':
      '- id: a\n  config: { y: 2 }\n- insert:\n    - { id: more, name: include, config: { path: ./more.yml } }\n',
    'mine/more.yml': '- { id: c, name: ./c.ts }\n',
  })
  const { rows, sources } = readTree(
    { file: at('cordis.yml'), layer: 'shipped' },
    { patches: [{ file: at('mine/patch.yml'), layer: 'user' }], set: ['more:c.z=3'], inspect: true },
  )
  const [a, more, c] = flat(rows)
  expect(a!.changes.map(placeOf)).toEqual([`${at('mine/patch.yml')}:1:3`])
  expect(more!.changes).toEqual([])
  expect(c!.written.spot.source).toMatchObject({ file: at('mine/more.yml'), layer: 'user' })
  const placesOf = (row: Row, ...keys: string[]) =>
    keys.map(key => {
      const config = row.written.entries.get('config')!.value
      const { spot } = (config.kind === 'map' && config.entries.get(key)) || config
      return [spot.source.layer, placeOf(spot)]
    })
  expect(placesOf(a!, 'x', 'y')).toEqual([
    ['shipped', `${at('cordis.yml')}:3:13`],
    ['user', `${at('mine/patch.yml')}:2:13`],
  ])
  expect(placesOf(c!, 'z')).toEqual([['option', '--set more:c.z']])
  expect(sources.map(({ file, layer }) => [file, layer])).toEqual([
    [at('cordis.yml'), 'shipped'],
    [at('mine/patch.yml'), 'user'],
    [at('mine/more.yml'), 'user'],
  ])
})

test('the rows behind an include whose path is an expression are unknown, so a layer may name them', () => {
  const at = workspace({
    'cordis.yml': '- { id: inc, name: include, config: { path: !env FILE } }\n',
    'patch.yml': '- { id: inc:x, disabled: true }\n',
    'wrong.yml': '- { id: ink, disabled: true }\n',
  })
  const read = (patch: string) =>
    readTree({ file: at('cordis.yml') }, { patches: [{ file: at(patch) }], set: ['inc:x.y=1'], inspect: true })
  expect(flat(read('patch.yml').rows)).toHaveLength(1)
  expect(() => read('wrong.yml')).toThrow('did you mean "inc"?')
})
