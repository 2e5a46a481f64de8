import { chmodSync, existsSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { readTree } from '@cambium/loader'
import { describe, expect, test } from 'vitest'
import { type Living, living } from './living.ts'

const nothing = { added: [], removed: [], remounted: [], moved: [] }
const persist = { persist: true }

/** What the lines of two texts do not have in common, as `-old` and `+new`. */
function difference(before: string, after: string): string[] {
  const [old, now] = [before.split('\n'), after.split('\n')]
  return [
    ...old.filter(line => !now.includes(line)).map(line => `-${line}`),
    ...now.filter(line => !old.includes(line)).map(line => `+${line}`),
  ]
}

/** The files say what runs, and reading them again changes nothing. */
async function agrees(tree: Living, env?: Record<string, string>) {
  expect(await tree.reload()).toEqual(nothing)
  const { rows } = readTree({ file: join(tree.folder, 'cordis.yml') }, env ? { env } : {})
  const flat = (all: typeof rows): typeof rows => all.flatMap(row => [row, ...flat(row.children)])
  expect(flat(rows).map(({ id, config, disabled }) => ({ id, config, disabled }))).toEqual(
    tree.loader.rows().map(({ row: { id, config, disabled } }) => ({ id, config, disabled })),
  )
}

const COMMENTED = `# The tree of the house.
%tail
- id: a # the first
  name: note

# between the rows
- id: b
  name: note
  config: &base
    tag: 'quoted' # said so
    key: !env KEY
    port: !js 40 + 2
    list: [1, !env KEY, 3]
    on: yes
    mode: 0o17
    text: >-
      a long text
      in two lines
- { id: c, name: note, config: { tag: flow, key: !env [NONE, dflt] } }
- id: g
  name: group
  config:
    # in the group
    - id: x
      name: note
`.replace('%tail\n', '')

const env = { KEY: 'the secret' }

describe('a persisted change', () => {
  test.each<[string, (tree: Living) => Promise<unknown>, string[]]>([
    [
      'of one value',
      t => t.loader.update('b', { config: { tag: 'new' } }, persist),
      ["-    tag: 'quoted' # said so", "+    tag: 'new' # said so"],
    ],
    [
      'of a value in a flow',
      t => t.loader.update('c', { config: { tag: 'new' } }, persist),
      [
        '-- { id: c, name: note, config: { tag: flow, key: !env [NONE, dflt] } }',
        '+- { id: c, name: note, config: { tag: new, key: !env [NONE, dflt] } }',
      ],
    ],
    [
      'of a new key',
      t => t.loader.update('b', { config: { extra: { deep: true } } }, persist),
      ['+    extra:', '+      deep: true'],
    ],
    ['of a key that goes', t => t.loader.update('b', { config: { mode: undefined } }, persist), ['-    mode: 0o17']],
    [
      'of a list',
      t => t.loader.update('b', { config: { list: [1, 'the secret', 3, 4] } }, persist),
      ['-    list: [1, !env KEY, 3]', '+    list: [1, !env KEY, 3, 4]'],
    ],
    [
      'that repeats the whole config',
      t => t.loader.update('b', { config: { ...(t.loader.rows()[1]!.row.config as object), tag: 'new' } }, persist),
      ["-    tag: 'quoted' # said so", "+    tag: 'new' # said so"],
    ],
    ['that disables a row', t => t.loader.update('a', { disabled: true }, persist), ['+  disabled: true']],
    [
      'that adds a row',
      t => t.loader.create({ id: 'new', name: 'note', config: { tag: 1 } }, { after: 'a', ...persist }),
      ['+- id: new', '+    tag: 1'],
    ],
    [
      'that adds a row to a group',
      t => t.loader.create({ id: 'new', name: 'note' }, { into: 'g', ...persist }),
      ['+    - id: new'],
    ],
    [
      'that removes a row',
      t => t.loader.remove('c', persist),
      ['-- { id: c, name: note, config: { tag: flow, key: !env [NONE, dflt] } }'],
    ],
  ])('%s touches only the lines meant', async (_what, change, lines) => {
    const tree = await living(COMMENTED, {}, { env })
    await change(tree)
    expect(difference(COMMENTED, tree.read())).toEqual(lines)
    expect(tree.read()).not.toContain('the secret')
    await agrees(tree, env)
  })

  test('keeps the spelling of the tags that stay', async () => {
    const text = '- { id: a, name: note, config: { list: [!!js 1 + 1, !env:string KEY, !env [KEY, 1], old] } }\n'
    const tree = await living(text, {}, { env })
    await tree.loader.update('a', { config: { list: [2, 'the secret', 'the secret', 'new'] } }, persist)
    expect(tree.read()).toBe(text.replace('old', 'new'))
    await agrees(tree, env)
  })

  test.each([
    ['CRLF', COMMENTED.replaceAll('\n', '\r\n')],
    ['a byte order mark', `\ufeff${COMMENTED}`],
  ])('keeps %s', async (_what, text) => {
    const tree = await living(text, {}, { env })
    await tree.loader.update('b', { config: { tag: 'new' } }, persist)
    expect(tree.read()).toBe(text.replace("'quoted'", "'new'"))
    await agrees(tree, env)
  })

  test('to JSON stays JSON', async () => {
    const text = '[\n  { "id": "a", "name": "note", "config": { "tag": 1 } }\n]\n'
    const tree = await living(text)
    await tree.loader.update('a', { config: { tag: 2 } }, persist)
    await tree.loader.create({ id: 'b', name: 'note' }, persist)
    expect(JSON.parse(tree.read())).toEqual([
      { id: 'a', name: 'note', config: { tag: 2 } },
      { id: 'b', name: 'note' },
    ])
    await agrees(tree)
  })

  test.each([[''], ['# only a comment\n'], ['[]\n']])('to a tree without rows, as %j, begins its list', async text => {
    const tree = await living(text)
    await tree.loader.create({ id: 'a', name: 'note', config: { tag: 'yes' } }, persist)
    expect(tree.read()).toContain(text.startsWith('#') ? text : 'id')
    expect(tree.states()).toEqual(['a active'])
    await agrees(tree)
    await tree.loader.remove('a', persist)
    await agrees(tree)
    expect(tree.states()).toEqual([])
  })

  test('of a row in an included file is written there', async () => {
    const files = {
      'cordis.yml': '- { id: in, name: include, config: { path: ./in.yml } }\n',
      'in.yml': '# mine\n- { id: a, name: note }\n',
    }
    const tree = await living(files)
    await tree.loader.update('in:a', { config: { tag: 1 } }, persist)
    await tree.loader.create({ id: 'b', name: 'note' }, { into: 'in', ...persist })
    expect(tree.read()).toBe(files['cordis.yml'])
    expect(tree.read('in.yml')).toBe('# mine\n- { id: a, name: note, config: { tag: 1 } }\n- id: b\n  name: note\n')
    await agrees(tree)
  })

  test('of a value that a patch has the last word on is written there', async () => {
    const files = {
      'cordis.yml': '- { id: a, name: note, config: { tag: file, more: 1 } }\n',
      'my.yml': '- { id: a, config: { tag: patch } }\n- insert: [{ id: x, name: note }]\n',
    }
    const patches: { file: string }[] = []
    const tree = await living(files, {}, { patches })
    patches.push({ file: join(tree.folder, 'my.yml') })
    await tree.reload()
    await tree.loader.update('a', { config: { tag: 'new' } }, persist)
    await tree.loader.update('a', { config: { more: 2 } }, persist)
    expect(tree.read('my.yml')).toBe(files['my.yml'].replace('patch', 'new'))
    expect(tree.read()).toBe(files['cordis.yml'].replace('more: 1', 'more: 2'))
    await tree.loader.remove('x', persist)
    expect(tree.read('my.yml')).toBe('- { id: a, config: { tag: new } }\n')
    expect(await tree.reload()).toEqual(nothing)
  })

  test('has the last word over a change that was only made in memory', async () => {
    const tree = await living('- { id: a, name: note, config: { tag: file, more: 1 } }\n')
    await tree.loader.update('a', { config: { tag: 'memory', more: 'memory' } })
    await tree.loader.update('a', { config: { tag: 'disk' } }, persist)
    expect(tree.loader.rows()[0]!.row.config).toEqual({ tag: 'disk', more: 'memory' })
    expect(tree.read()).toBe('- { id: a, name: note, config: { tag: disk, more: 1 } }\n')
    expect(await tree.reload()).toEqual(nothing)
  })

  test('is made on the file as it is, not as it was', async () => {
    const tree = await living('- { id: a, name: note }\n')
    tree.write('# edited meanwhile\n- { id: a, name: note }\n- { id: b, name: note }\n')
    expect(await tree.loader.update('a', { config: { tag: 1 } }, persist)).toEqual({
      ...nothing,
      added: ['b'],
      remounted: ['a'],
    })
    expect(tree.read()).toBe(
      '# edited meanwhile\n- { id: a, name: note, config: { tag: 1 } }\n- { id: b, name: note }\n',
    )
  })

  test('that changes nothing writes nothing', async () => {
    const tree = await living(COMMENTED, {}, { env })
    const { mtimeMs, ino } = statSync(join(tree.folder, 'cordis.yml'))
    expect(await tree.loader.update('b', { config: { key: 'the secret', tag: 'quoted' } }, persist)).toEqual(nothing)
    expect(statSync(join(tree.folder, 'cordis.yml'))).toMatchObject({ mtimeMs, ino })
  })
})

describe('a change that cannot be persisted leaves the file and the tree as they are', () => {
  async function refused(text: string, change: (tree: Living) => Promise<unknown>, options = {}) {
    const tree = await living(text, {}, options)
    tree.log.length = 0
    const message = await tree.refusal(change(tree))
    expect(tree.read()).toBe(text)
    expect(await tree.reload()).toEqual(nothing)
    return { tree, message }
  }

  test('because a plugin fails', async () => {
    const { tree, message } = await refused('- { id: a, name: note }\n', t =>
      t.loader.update('a', { name: 'broken' }, persist),
    )
    expect(message).toMatch(/^TREE_APPLY_FAILED: broken failed to start: boom\n {2}where: cordis.yml:1:3 \(row a\)/)
    expect(tree.log).toEqual(['-a', '-half', '+a'])
  })

  test('because the file is read-only, before anything is touched', async () => {
    const tree = await living('- { id: a, name: note }\n')
    chmodSync(join(tree.folder, 'cordis.yml'), 0o444)
    tree.log.length = 0
    expect(await tree.refusal(tree.loader.update('a', { config: { tag: 1 } }, persist))).toMatch(
      /^STORE_READ_ONLY: .*\n {2}where: cordis.yml/,
    )
    expect(tree.log).toEqual([])
    expect(tree.states()).toEqual(['a active'])
    expect(tree.heard).toEqual(['update refused: STORE_READ_ONLY'])
  })

  test('because somebody saved the file meanwhile', async () => {
    const saved = '- { id: a, name: note }\n- { id: mine, name: note }\n'
    const saver = { apply: () => writeFileSync(join(tree.folder, 'cordis.yml'), saved) }
    const tree = await living('- { id: a, name: note }\n', { saver })
    expect(await tree.refusal(tree.loader.create({ id: 's', name: 'saver' }, persist))).toMatch(
      /^LOADER_PERSIST: the file was changed by somebody else/,
    )
    expect(tree.read()).toBe(saved)
    expect(tree.states()).toEqual(['a active'])
  })

  test('because the file is broken', async () => {
    const tree = await living('- { id: a, name: note }\n')
    tree.write('- { id: a, name: [')
    expect(await tree.refusal(tree.loader.update('a', { config: { tag: 1 } }, persist))).toMatch(/^TREE_SYNTAX/)
    expect(tree.read()).toBe('- { id: a, name: [')
    expect(tree.log).toEqual(['+a'])
  })

  test('because an alias shares the value with another row', async () => {
    const text = '- { id: a, name: note, config: &c { tag: 1 } }\n- { id: b, name: note, config: *c }\n'
    const { message } = await refused(text, t => t.loader.update('a', { config: { tag: 2 } }, persist))
    expect(message).toMatch(/^(STORE_EDIT_UNSAFE|LOADER_PERSIST): [\s\S]*edit the file by hand/)
  })

  test('because a file is included twice', async () => {
    const text =
      '- { id: one, name: include, config: { path: ./in.yml } }\n- { id: two, name: include, config: { path: ./in.yml } }\n'
    const tree = await living({ 'cordis.yml': text, 'in.yml': '- { id: a, name: note }\n' })
    expect(await tree.refusal(tree.loader.update('one:a', { config: { tag: 1 } }, persist))).toMatch(/^LOADER_PERSIST/)
    expect(tree.read('in.yml')).toBe('- { id: a, name: note }\n')
  })

  test('because an option has the last word', async () => {
    const { message } = await refused(
      '- { id: a, name: note, config: { tag: 1 } }\n',
      t => t.loader.update('a', { config: { tag: 3 } }, persist),
      { set: ['a.tag=2'] },
    )
    expect(message).toMatch(/^LOADER_PERSIST: .*it is said by --set a.tag/)
  })

  test('because its row stands in no file', async () => {
    const { tree } = await refused('- { id: a, name: note }\n', async t => {
      await t.loader.create({ id: 'm', name: 'note' })
      await t.loader.update('m', { config: { tag: 1 } }, persist)
    })
    await tree.loader.remove('m', persist)
    expect(tree.states()).toEqual(['a active'])
  })

  test('because what a patch says of the row would be left over', async () => {
    const patches = [{ data: [{ id: 'a', config: { tag: 1 } }] }]
    const { message } = await refused(
      '- { id: a, name: note }\n- { id: b, name: note }\n',
      t => t.loader.remove('a', persist),
      { patches },
    )
    expect(message).toMatch(/^TREE_TARGET_UNKNOWN: no row has the id "a"/)
  })
})

test('a merge key is overruled in the row itself', async () => {
  const text =
    '- id: a\n  name: note\n  config: &base { tag: 1, more: 1 }\n- id: b\n  name: note\n  config:\n    <<: *base\n    own: 1\n'
  const tree = await living(text)
  await tree.loader.update('b', { config: { tag: 2 } }, persist)
  expect(difference(text, tree.read())).toEqual(['+    tag: 2'])
  await agrees(tree)
})

describe('with a file for such changes', () => {
  const BASE = `- { id: a, name: note, config: { tag: file, key: !env KEY, list: [1, !env KEY] } }
- { id: g, name: group, config: [{ id: x, name: note }] }
`
  const USER = 'home/user.yml'

  async function withFile(user?: string, patches: (folder: string) => { file: string }[] = () => []) {
    const files = { 'cordis.yml': BASE, ...(user === undefined ? {} : { [USER]: user }) }
    const tree = await living(files, {}, folder => ({ env, writeTo: join(folder, USER), patches: patches(folder) }))
    return { tree, user: () => tree.read(USER) }
  }
  const config = (tree: Living, id: string) => tree.loader.rows().find(({ row }) => row.id === id)?.row.config

  test("what is changed of a row is laid over it there, and the tree's own file stays", async () => {
    const { tree, user } = await withFile()
    expect(existsSync(join(tree.folder, USER))).toBe(false)
    expect(tree.loader.files).toContain(join(tree.folder, USER))
    await tree.loader.update('a', { config: { tag: 'mine' } }, persist)
    expect(user()).toBe('- id: a\n  config:\n    tag: mine\n')
    await tree.loader.update('a', { config: { more: { deep: 1 } }, label: 'A' }, persist)
    await tree.loader.update('g:x', { config: { tag: 'x' } }, persist)
    await tree.loader.update('a', { config: { list: [1, 'the secret', 2] } }, persist)
    expect(user()).toBe(`- id: a
  config:
    tag: mine
    more:
      deep: 1
    list:
      - 1
      - !env KEY
      - 2
  label: A
- id: g:x
  config:
    tag: x
`)
    await tree.loader.update('a', { config: { more: undefined } }, persist)
    expect(user()).not.toContain('deep')
    expect(config(tree, 'a')).toEqual({ tag: 'mine', key: 'the secret', list: [1, 'the secret', 2] })
    expect(tree.read()).toBe(BASE)
    expect(await tree.reload()).toEqual(nothing)
  })

  test('what stands there is edited there, with its comments', async () => {
    const text =
      '# my own\n- id: a # mine\n  config: { tag: old } # so\n- insert:\n    - id: new\n      name: note # added\n'
    const { tree, user } = await withFile(text)
    await tree.loader.update('a', { config: { tag: 'new' } }, persist)
    await tree.loader.update('new', { config: { tag: 1 } }, persist)
    expect(difference(text, user())).toEqual([
      '-  config: { tag: old } # so',
      '+  config: { tag: new } # so',
      '+      config:',
      '+        tag: 1',
    ])
    await tree.loader.remove('new', persist)
    expect(user()).toBe('# my own\n- id: a # mine\n  config: { tag: new } # so\n')
    expect(await tree.reload()).toEqual(nothing)
  })

  test('a new row is inserted there, and one that is removed is disabled there', async () => {
    const { tree, user } = await withFile()
    await tree.loader.create({ id: 'new', name: 'note' }, { after: 'a', ...persist })
    await tree.loader.create({ id: 'in', name: 'note' }, { into: 'g', ...persist })
    expect(tree.order()).toEqual(['a', 'new', 'g:x', 'g:in'])
    expect(await tree.loader.remove('a', persist)).toEqual({ ...nothing, removed: ['a'] })
    expect(user()).toBe(`- insert:
    - id: new
      name: note
  after: a
- insert:
    - id: in
      name: note
  into: g
- id: a
  disabled: true
`)
    expect(tree.states()[0]).toBe('a disabled')
    await tree.loader.update('a', { disabled: false }, persist)
    expect(tree.states()).toEqual(['a active', 'new active', 'g active', 'g:x active', 'g:in active'])
    expect(await tree.reload()).toEqual(nothing)
    expect(tree.read()).toBe(BASE)
  })

  test('a whole map takes the place of another by $replace', async () => {
    const { tree, user } = await withFile('- { id: a, config: { map: { one: 1 } } }\n')
    await tree.loader.update('a', { config: { tag: { $replace: { now: 'a map' } } } }, persist)
    expect(config(tree, 'a')).toMatchObject({ tag: { now: 'a map' }, map: { one: 1 } })
    await tree.loader.update('a', { config: { tag: { now: 'changed' } } }, persist)
    expect(config(tree, 'a')).toMatchObject({ tag: { now: 'changed' } })
    expect(user()).toBe('- { id: a, config: { map: { one: 1 }, tag: { now: changed } } }\n')
  })

  test('what a later layer sets, or what a patch cannot say, is refused', async () => {
    const later = { 'later.yml': '- { id: a, config: { tag: later } }\n' }
    const files = { 'cordis.yml': BASE, ...later }
    const tree = await living(files, {}, folder => ({
      env,
      writeTo: join(folder, USER),
      patches: [{ file: join(folder, 'later.yml') }],
    }))
    expect(await tree.refusal(tree.loader.update('a', { config: { tag: 'mine' } }, persist))).toMatch(/^LOADER_PERSIST/)
    expect(await tree.refusal(tree.loader.update('a', { config: { key: undefined } }, persist))).toMatch(
      /^LOADER_PERSIST: .*a patch cannot take `config.key` away/,
    )
    expect(existsSync(join(tree.folder, USER))).toBe(false)
    expect(await tree.reload()).toEqual(nothing)
  })

  test('a row that only this program adds is not spoken of there', async () => {
    const tree = await living(BASE, {}, folder => ({
      env,
      writeTo: join(folder, USER),
      patches: [{ file: join(folder, 'program.yml'), data: [{ insert: [{ id: 'main', name: 'note' }] }] }],
    }))
    for (const change of [
      tree.loader.update('main', { config: { tag: 1 } }, persist),
      tree.loader.remove('main', persist),
      tree.loader.create({ id: 'x', name: 'note' }, { after: 'main', ...persist }),
    ]) {
      expect(await tree.refusal(change)).toMatch(
        /^LOADER_PERSIST: .*the row main stands in no file: this program added it/,
      )
    }
    await tree.loader.update('main', { config: { tag: 1 } })
    expect(config(tree, 'main')).toEqual({ tag: 1 })
    expect(existsSync(join(tree.folder, USER))).toBe(false)
  })

  test('a row that goes by its number is not spoken of there', async () => {
    const tree = await living('- name: note\n', {}, folder => ({ writeTo: join(folder, USER) }))
    expect(await tree.refusal(tree.loader.update('note#1', { config: { tag: 1 } }, persist))).toMatch(
      /^LOADER_PERSIST: .*note#1 is no id of its own/,
    )
    expect(existsSync(join(tree.folder, USER))).toBe(false)
  })

  test('it may be named among the patches, where its place then is, and come and go', async () => {
    const { tree, user } = await withFile(undefined, folder => [{ file: join(folder, USER) }])
    await tree.loader.update('a', { config: { tag: 'mine' } }, persist)
    rmSync(join(tree.folder, USER))
    expect((await tree.reload()).remounted).toEqual(['a'])
    tree.write('- { id: a, config: { tag: back } }\n', USER)
    await tree.reload()
    expect(config(tree, 'a')).toMatchObject({ tag: 'back' })
    expect(user()).toContain('back')
  })
})
