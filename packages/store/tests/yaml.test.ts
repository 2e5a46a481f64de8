import { editYaml, Tagged, type YamlEdit } from '@cambium/store/yaml'
import { describe, expect, it } from 'vitest'
import { parse } from 'yaml'

const edit = (text: string, ...edits: YamlEdit[]) => editYaml(text, edits, { label: 'cordis.yml' })

const tree = `# Everything that this agent is made of.
# (second line)

- id: llm # the model
  name: '@cambium/llm/openai'
  config: &base
    apiKey: !env KEY
    port: !env [PORT, 5]
    prompt: "a long text, a long text, a long text, a long text, a long text, a long text, a long text, a long text"

# between two entries
- id: gate
  name: ./gate.ts
  disabled: !js process.platform === 'win32'
  config:
    <<: *base
    << : { more: 1 }
    on: yes
    mode: 0o17
    flow: {a: 1, "b": [2,3], c: 'x'}
    text: |
      hello
        world

# last
- { id: tail, name: ./tail.ts } # short
`

/** The lines of `before` that are not in `after`, and the reverse. */
function diff(before: string, after: string) {
  const [a, b] = [before, after].map(text => text.split('\n')) as [string[], string[]]
  return { gone: a.filter(line => !b.includes(line)), come: b.filter(line => !a.includes(line)) }
}

describe('of a tree with everything that people write', () => {
  it.each<[string, YamlEdit, string[], string[]]>([
    ['disabling a row adds a line', { path: [0, 'disabled'], value: true }, [], ['  disabled: true']],
    [
      'an expression is replaced by a value',
      { path: [1, 'disabled'], value: false },
      ["  disabled: !js process.platform === 'win32'"],
      ['  disabled: false'],
    ],
    [
      'a row in braces stays in braces',
      { path: [2, 'disabled'], value: true },
      ['- { id: tail, name: ./tail.ts } # short'],
      ['- { id: tail, name: ./tail.ts, disabled: true } # short'],
    ],
    [
      'a merged key is overridden where it is merged',
      { path: [1, 'config', 'apiKey'], value: new Tagged('!env', 'OTHER') },
      [],
      ['    apiKey: !env OTHER'],
    ],
    [
      'a tagged list is one value',
      { path: [1, 'config', 'port'], value: new Tagged('!env', ['PORT', 6]) },
      [],
      ['    port: !env [ PORT, 6 ]'],
    ],
    [
      'a text block keeps its form',
      { path: [1, 'config', 'text'], value: 'hello\n  all\n' },
      ['        world'],
      ['        all'],
    ],
    ['an octal number is a number', { path: [1, 'config', 'mode'], value: 15 }, [], []],
    ['what reads as `yes` is text already', { path: [1, 'config', 'on'], value: 'yes' }, [], []],
    [
      'quotes are kept',
      { path: [1, 'config', 'flow', 'c'], value: "it's" },
      [`    flow: {a: 1, "b": [2,3], c: 'x'}`],
      [`    flow: {a: 1, "b": [2,3], c: 'it''s'}`],
    ],
    [
      'a value in brackets is added to',
      { path: [1, 'config', 'flow', 'b'], insert: 4, index: 1 },
      [`    flow: {a: 1, "b": [2,3], c: 'x'}`],
      [`    flow: {a: 1, "b": [2, 4,3], c: 'x'}`],
    ],
    ['a row is removed', { path: [2], remove: true }, ['- { id: tail, name: ./tail.ts } # short'], []],
    [
      'a row is inserted',
      { path: [], insert: { id: 'new', settings: { list: [1] } }, index: 1 },
      [],
      ['- id: new', '  settings:', '    list:', '      - 1'],
    ],
    [
      'a map is changed in place',
      { path: [2], value: { id: 'tail', name: './other.ts' } },
      ['- { id: tail, name: ./tail.ts } # short'],
      ['- { id: tail, name: ./other.ts } # short'],
    ],
  ])('%s', (_, change, gone, come) => {
    for (const [mark, ending] of [
      ['', '\n'],
      ['\ufeff', '\r\n'],
    ] as const) {
      const after = edit(mark + tree.replaceAll('\n', ending), change)
      expect(after.startsWith(mark)).toBe(true)
      expect(diff(tree, after.slice(mark.length).replaceAll(ending, '\n'))).toEqual({ gone, come })
      expect(after.split(ending).length).toBe(after.split('\n').length)
    }
  })

  it.each<[string, YamlEdit, RegExp]>([
    [
      'what others refer to is not changed under them',
      { path: [0, 'config', 'apiKey'], value: 'x' },
      /\[0\]\.config\.apiKey cannot be edited safely: something else would change with it\n {2}where: cordis\.yml:7:5/,
    ],
    ['what others refer to is not removed', { path: [0], remove: true }, /STORE_EDIT_UNSAFE/],
    [
      'what a merge brings is not removed',
      { path: [1, 'config', 'port'], remove: true },
      /it comes from elsewhere, by `<<`\n {2}where: cordis\.yml:16:5/,
    ],
    [
      'a path through a scalar leads nowhere',
      { path: [0, 'id', 'x'], value: 1 },
      /STORE_EDIT_PATH: \[0\]\.id\.x cannot be edited: .*neither a map nor a list/,
    ],
    ['a list has its places', { path: [7, 'id'], value: 1 }, /STORE_EDIT_PATH: .*a list of 3 has no place 7/],
    ['`<<` is no key', { path: [1, 'config', '<<'], value: 1 }, /STORE_EDIT_PATH/],
    [
      'what is no data is refused',
      { path: [0, 'label'], value: new Date(0) },
      /JSON_UNSUPPORTED: .*an instance of a class/,
    ],
  ])('%s', (_, change, message) => {
    expect(() => edit(tree, change)).toThrow(message)
  })
})

it('an empty file, and one of comments only, get their first entry', () => {
  expect(edit('', { path: [], insert: { id: 'a' } })).toBe('- id: a\n')
  expect(edit('# mine', { path: ['a', 'b'], value: 1 })).toBe('# mine\na:\n  b: 1\n')
  expect(edit('---\n# mine\r\n', { path: ['a'], value: [] })).toBe('---\n# mine\r\na: []\n')
  expect(edit('[]\n', { path: [], insert: { id: 'a' } })).toBe('- id: a\n')
  expect(edit('a: {}\n', { path: ['a', 'b'], value: 'x' })).toBe('a:\n  b: x\n')
  expect(edit('a:\n', { path: ['a', 'b'], value: 'x' })).toBe('a:\n  b: x\n')
})

it('comments beside and above a value stay, whatever comes there', () => {
  expect(edit('a: 1 # one\n', { path: ['a'], value: { b: 2 } })).toBe('a: # one\n  b: 2\n')
  expect(edit('a: # all\n  b: 1 # one\n  # of c\n  c: 2\n', { path: ['a'], value: { b: 1, c: 3 } })).toBe(
    'a: # all\n  b: 1 # one\n  # of c\n  c: 3\n',
  )
  expect(edit('a: # all\n  b: 1\nc: 2\n', { path: ['a'], value: 'text' })).toBe('a: text # all\nc: 2\n')
  expect(edit('- a: 1 # one\n  # of b\n  b: 2\n', { path: [0, 'a'], remove: true })).toBe('- # of b\n  b: 2\n')
  expect(edit('a:\t1\t# tabs\n', { path: ['a'], value: 2 })).toBe('a: 2\t# tabs\n')
  expect(edit('x:\n  - 1 # one\n  # of two\n  - 2\n', { path: ['x'], value: [1, 3] })).toBe(
    'x:\n  - 1 # one\n  # of two\n  - 3\n',
  )
})

it('the last key of a map leaves an empty map', () => {
  expect(edit('a:\n  b: 1\nc: 2\n', { path: ['a', 'b'], remove: true })).toBe('a: {}\nc: 2\n')
  expect(edit('# mine\na: 1\n', { path: ['a'], remove: true })).toBe('# mine\n{}\n')
})

it('an anchor stays with its value', () => {
  expect(edit('a: &x 1\nb: 2\n', { path: ['a'], value: { c: 1 } })).toBe('a: &x\n  c: 1\nb: 2\n')
  expect(edit('a: &x { k: 1 }\nb: *x\n', { path: ['b'], value: 2 })).toBe('a: &x { k: 1 }\nb: 2\n')
})

it('lists that stand under their key without indentation, and wide indentation, are written on in that way', () => {
  expect(edit('a:\n- 1\nb:\n  c: 1\n', { path: ['b', 'd'], value: [{ e: { f: 1 } }] })).toBe(
    'a:\n- 1\nb:\n  c: 1\n  d:\n  - e:\n      f: 1\n',
  )
  expect(edit('b:\n    c: 1\n', { path: ['b', 'd'], value: { e: { f: 1 } } })).toBe(
    'b:\n    c: 1\n    d:\n        e:\n            f: 1\n',
  )
})

it('JSON stays JSON, in lines when it is in lines', () => {
  const json = '{\n  "a": 1,\n  "b": {\n    "c": []\n  }\n}\n'
  expect(
    edit(json, { path: ['b', 'c'], insert: { x: 1 } }, { path: ['a'], remove: true }, { path: ['d'], value: null }),
  ).toBe('{\n  "b": {\n    "c": [\n      {\n        "x": 1\n      }\n    ]\n  },\n  "d": null\n}\n')
  expect(edit('{"a":1}', { path: ['b'], value: 'yes' })).toBe('{"a":1, "b": "yes"}')
})

it('text that would be read as something else is quoted', () => {
  const values = ['yes', 'on', '0o17', '1', 'null', '~', '', ' x', '- a', 'a: b', 'a #b', '*x', '2020-01-01', '{', '@x']
  const after = edit(
    'list: []\nkeys: {}\n',
    { path: ['list'], value: values },
    { path: ['keys'], value: Object.fromEntries(values.map(value => [value, 1])) },
  )
  expect(parse(after)).toEqual({ list: values, keys: Object.fromEntries(values.map(value => [value, 1])) })
  expect(parse(after, { version: '1.1' }).list).toEqual(values)
})

it('keys that objects inherit are keys like others', () => {
  const after = edit('{}', { path: ['__proto__', 'polluted'], value: 1 }, { path: ['constructor'], value: 2 })
  expect(after).toContain('polluted')
  expect(({} as Record<string, unknown>)['polluted']).toBeUndefined()
})

it.each([
  ['a second document', 'a: 1\n---\nb: 2\n', /a second document begins here\n {2}where: cordis\.yml:2:1/],
  ['a key twice', 'a: 1\n# c\na: 2\n', /the key "a" stands twice in one map\n {2}where: cordis\.yml:3:1/],
  ['a tab for indentation', 'a:\n\tb: 1\n', /a tab indents this line\n {2}where: cordis\.yml:2:1/],
  ['an alias without anchor', 'a: *b\n', /no anchor stands before \*b|[Uu]nresolved alias/],
  ['an anchor that contains itself', 'a: &a\n  b: *a\n', /the anchor &a contains itself\n {2}where: cordis\.yml:2:6/],
  ['nesting without end', '['.repeat(20_000), /nested too deeply/],
  ['a wrong header', 'a: | secret-of-mine\n', /^STORE_YAML_SYNTAX: not YAML: (?!.*secret)/],
  ['a broken line', 'a: "secret-of-mine\n', /^STORE_YAML_SYNTAX: not YAML: (?!.*secret)/],
])('%s is a mistake with its line, and nothing is written', (_, text, message) => {
  expect(() => edit(text, { path: ['a'], value: 3 })).toThrow(message)
})

it('aliases that multiply are compared without being unfolded', () => {
  const bomb = [
    'a0: &a0 [x, x]',
    ...Array.from({ length: 40 }, (_, i) => `a${i + 1}: &a${i + 1} [*a${i}, *a${i}, *a${i}]`),
  ].join('\n')
  expect(edit(`${bomb}\nmine: 1\n`, { path: ['mine'], value: 2 })).toBe(`${bomb}\nmine: 2\n`)
})
