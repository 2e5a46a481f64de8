import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { isHarnessError } from '@cambium/core'
import { type Row, readTree, type TreeChange } from '@cambium/loader'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { type Living, living } from './living.ts'

const SECRET = 'the-secret'
const ENV = { KEY: SECRET }

const scalar = fc.oneof(
  fc.constantFrom<unknown>(
    'yes',
    '',
    ' x',
    'a: b',
    '# c',
    '0o17',
    '1e3',
    'null',
    '~',
    '!env KEY',
    '- x',
    "it's",
    '"q"',
    'two\nlines',
    'é\u2028',
  ),
  fc.integer({ min: -5, max: 5 }),
  fc.boolean(),
  fc.constant(null),
)
const data: fc.Arbitrary<unknown> = fc.letrec(tie => ({
  value: fc.oneof(
    { maxDepth: 2 },
    scalar,
    fc.array(tie('value'), { maxLength: 3 }),
    fc.dictionary(fc.constantFrom('p', 'q', 'odd key', '0'), tie('value'), { maxKeys: 3 }),
  ),
})).value

const key = fc.constantFrom('p', 'q', 'secret', 'list', 'new')
const config = fc.dictionary(
  key,
  fc.oneof(
    data,
    fc.constant(undefined),
    data.map(value => ({ $replace: value })),
  ),
  { maxKeys: 3 },
)
const step = fc.record({
  what: fc.constantFrom('update', 'update', 'update', 'create', 'remove', 'disable', 'repeat'),
  row: fc.nat(20),
  config,
  where: fc.constantFrom('end', 'before', 'after', 'into'),
  persist: fc.constantFrom(true, true, true, false),
})
type Step = typeof step extends fc.Arbitrary<infer T> ? T : never

const EXPRESSIONS = '{ secret: !env KEY, p: 1, list: [1, !env KEY, { q: !env [NONE, 2] }] }'
const file = fc.constantFrom(
  `# head
- id: a # one
  name: note
  config:
    p: 1 # p
    secret: !env KEY
    list:
      - 1
      - !env KEY
- { id: b, name: note, config: ${EXPRESSIONS} }

# group
- id: g
  name: group
  config:
    - id: x
      name: note
    - { id: y, name: note }
- name: note
`,
  `- id: a
  name: note
  config: &c ${EXPRESSIONS}
- id: b
  name: note
  config:
    <<: *c
    q: 2
- { id: c, name: note, config: *c }
- { id: in, name: include, config: { path: ./in.yml } }
`,
  '[ { "id": "a", "name": "note", "config": { "p": [1, 2] } }, { "id": "g", "name": "group", "config": [] } ]\n',
  "- id: a\r\n  name: note\r\n  config:\r\n    p: 'x'\r\n",
)

function take(tree: Living, { what, row, config, where, persist }: Step): Promise<TreeChange> {
  const rows = tree.loader.rows()
  const target = rows[row % rows.length]?.row
  const id = target?.id ?? 'none'
  const place = where === 'end' ? {} : { [where]: id }
  if (what === 'create') return tree.loader.create({ name: 'note', config }, { ...place, persist })
  if (what === 'remove') return tree.loader.remove(id, { persist })
  if (what === 'disable') return tree.loader.update(id, { disabled: row % 2 === 0 }, { persist })
  return tree.loader.update(id, { config: what === 'repeat' ? target?.config : config }, { persist })
}

const flat = (rows: readonly Row[]): Row[] => rows.flatMap(row => [row, ...flat(row.children)])

test.each([
  ['its files', false],
  ['its files and one for such changes', true],
])('whatever is changed, %s say what runs, and no secret', async (_which, own) => {
  const trial = async (text: string, steps: readonly Step[]) => {
    const files = { 'cordis.yml': text, 'in.yml': '# in\n- { id: i, name: note }\n' }
    const tree = await living(files, {}, folder => ({
      env: ENV,
      ...(own && { writeTo: join(folder, 'own.yml') }),
    }))
    const texts = () => [
      tree.read(),
      tree.read('in.yml'),
      own && existsSync(join(tree.folder, 'own.yml')) ? tree.read('own.yml') : '',
    ]
    try {
      for (const one of steps) {
        const before = texts()
        const outcome = await take(tree, one).catch((error: unknown) => error)
        if (outcome instanceof Error) {
          expect(isHarnessError(outcome) && outcome.code).toMatch(/^(LOADER|STORE_EDIT|TREE)_/)
          expect(texts()).toEqual(before)
        }
        expect(Object.values(await tree.reload()).flat()).toEqual([])
        expect(texts().join()).not.toContain(SECRET)
      }
      if (own || !steps.every(({ persist }) => persist)) return
      const { rows } = readTree({ file: join(tree.folder, 'cordis.yml') }, { env: ENV })
      expect(flat(rows).map(({ id, config }) => [id, config])).toEqual(
        tree.loader.rows().map(({ row: { id, config } }) => [id, config]),
      )
    } finally {
      await tree.booted.dispose()
    }
  }
  const property = fc.asyncProperty(file, fc.array(step, { minLength: 1, maxLength: 6 }), trial)
  await fc.assert(property, { numRuns: 8 })
})
