import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type ReadOptions, type Row, readTree } from '@cambium/loader'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'

let folder = ''
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'loader-read-'))
})
afterAll(() => rmSync(folder, { recursive: true }))

const read = (text: string, options: ReadOptions = {}) =>
  readTree({ text, file: join(folder, 'cordis.yml') }, { env: {}, ...options }).rows

/** The config of a row that holds the given lines. */
const config = (lines: string, env: Record<string, string> = {}) =>
  read(`- id: a\n  name: p\n  config:\n${lines.replace(/^/gm, '    ')}\n`, { env })[0]!.config

const ids = (rows: readonly Row[]): string[] => rows.flatMap(row => [row.id, ...ids(row.children)])

const failure = (text: string, options: ReadOptions = {}): string => {
  try {
    read(text, options)
  } catch (error) {
    return (error as Error).message
  }
  throw new Error('nothing was thrown')
}

describe('values', () => {
  test('are typed by YAML 1.2: yes and on are text, 0o17 is a number', () => {
    expect(config('on: yes\noff: no\nmode: 0o17\nold: 017\nnothing: ~\ntruth: true\ndate: 2020-01-01')).toEqual({
      on: 'yes',
      off: 'no',
      mode: 15,
      old: 17,
      nothing: null,
      truth: true,
      date: '2020-01-01',
    })
  })

  test('may come from anchors, and from two merges of which the first and the own keys win', () => {
    const text = `
- id: a
  name: p
  config: &one { x: 1, y: 1 }
- id: b
  name: p
  config: &two { y: 2, z: 2 }
- id: c
  name: p
  config:
    <<: *one
    <<: *two
    z: 3
- id: d
  name: p
  config: { <<: [*two, *one], list: [*one, *one] }
`
    const rows = read(text)
    expect(rows[2]!.config).toEqual({ x: 1, y: 1, z: 3 })
    expect(rows[3]!.config).toEqual({
      x: 1,
      y: 2,
      z: 2,
      list: [
        { x: 1, y: 1 },
        { x: 1, y: 1 },
      ],
    })
  })

  test('are read the same with a byte order mark and CRLF, and places count from the first line', () => {
    const rows = read('\uFEFF# head\r\n- id: a\r\n  name: p\r\n  config:\r\n    text: "x"\r\n')
    expect(rows[0]!.config).toEqual({ text: 'x' })
    expect(rows[0]!.at).toBe(`${join(folder, 'cordis.yml')}:2:3`)
    expect(rows[0]!.locate(['text']).place).toBe(`${join(folder, 'cordis.yml')}:5:5`)
  })

  test('may be JSON', () => {
    expect(read('[{"id": "a", "name": "p", "config": {"x": [1, null]}}]')[0]!.config).toEqual({ x: [1, null] })
  })

  test('cannot grow beyond memory by aliases of aliases', () => {
    const levels = Array.from(
      { length: 9 },
      (_, i) => `    l${i + 1}: &l${i + 1} [${Array(10).fill(`*l${i}`).join(', ')}]`,
    )
    const text = `- id: a\n  name: p\n  config:\n    l0: &l0 x\n${levels.join('\n')}\n`
    expect(failure(text)).toContain('aliases expand to more than 1000000 values')
  })

  test('keep a key __proto__ as data', () => {
    const data = config('__proto__: { polluted: true }') as object
    expect(Object.keys(data)).toEqual(['__proto__'])
    expect(({} as { polluted?: boolean }).polluted).toBeUndefined()
  })
})

describe('an empty tree', () => {
  test.each([
    ['an empty file', ''],
    ['a file with only comments', '# nothing\n# yet\n'],
    ['an empty list', '[]'],
    ['an empty document', '---\n'],
  ])('is %s', (_name, text) => {
    expect(read(text)).toEqual([])
  })
})

describe('ids', () => {
  test('of rows without one are name#n, and rows of a group carry its id', () => {
    const text = `
- name: ./a.ts
- name: ./a.ts
- id: named
  name: ./a.ts
- name: group
  config:
    - name: ./a.ts
    - id: b
      name: ./b.ts
`
    expect(ids(read(text))).toEqual(['./a.ts#1', './a.ts#2', 'named', 'group#1', 'group#1:./a.ts#1', 'group#1:b'])
  })
})

describe('!env', () => {
  const env = { N: '5', T: 'true', S: 'hello', E: '', J: '[1]', H: '0x10' }
  test('reads the variable as a YAML 1.2 scalar', () => {
    expect(config('n: !env N\nt: !env T\ns: !env S\ne: !env E\nj: !env J\nh: !env H', env)).toEqual({
      n: 5,
      t: true,
      s: 'hello',
      e: null,
      j: '[1]',
      h: 16,
    })
  })

  test('!env:string keeps the text', () => {
    expect(config('n: !env:string N\ne: !env:string E\nd: !env:string [NOT, 7]', env)).toEqual({ n: '5', e: '', d: 7 })
  })

  test('takes the default when the variable is not set, and only then', () => {
    expect(config('a: !env [NOT, 8080]\nb: !env [E, x]\nc: !env [NOT, null]', env)).toEqual({
      a: 8080,
      b: null,
      c: null,
    })
  })

  test('an unset variable without a default leaves out its key, its item or the whole config', () => {
    expect(config('a: !env NOT\nb: { c: !env NOT, d: 1 }\nlist: [!env NOT, 2]')).toEqual({ b: { d: 1 }, list: [2] })
    expect(read('- id: a\n  name: p\n  config: !env NOT\n')[0]!.config).toBeUndefined()
  })
})

describe('!js', () => {
  test('sees process and env, in both spellings, as one line or several', () => {
    expect(
      config("a: !js process.version\nb: !!js 'env.X + 1'\nc: !js |\n  [1, 2]\n    .map(n => n * 2)", { X: 'x' }),
    ).toEqual({
      a: process.version,
      b: 'x1',
      c: [2, 4],
    })
  })

  test('is evaluated once, also for a file that is read for its ids first', () => {
    const probe = globalThis as { loaderTestCount?: number }
    probe.loaderTestCount = 0
    writeFileSync(join(folder, 'once.yml'), '- id: b\n  name: p\n  config: { n: !js ++globalThis.loaderTestCount }\n')
    const text = `- { id: a, name: p, config: &x { n: !js ++globalThis.loaderTestCount } }
- { id: c, name: p, config: *x }
- { id: i, name: include, config: { path: once.yml } }`
    const rows = read(text, { set: ['a.other=1'] })
    expect(probe.loaderTestCount).toBe(2)
    expect([rows[0]!.config, rows[1]!.config, rows[2]!.children[0]!.config]).toEqual([
      { n: 1, other: 1 },
      { n: 1 },
      { n: 2 },
    ])
    delete probe.loaderTestCount
  })

  test.each([
    ['loops for ever', 'for (;;);', 'Script execution timed out after 3000ms'],
    ['answers with what contains itself', 'const o = {}; o.o = [o]; return o', 'its value contains itself'],
    [
      'answers without end',
      'let o = {}; for (let i = 0; i < 1e5; i++) o = { o }; return o',
      'more than 512 levels deep',
    ],
    ['answers with what cannot be read', 'return new Proxy({}, { ownKeys() { throw 2 } })', '2'],
    ['throws nothing', 'throw null', 'null'],
  ])('that %s is a mistake with its place', (_what, body, problem) => {
    const message = failure(`- id: a\n  name: p\n  config: { x: !js "(() => { ${body} })()" }\n`)
    expect(message).toMatch(/^TREE_EXPRESSION: `!js \(\(\) => .* failed: /)
    expect(message.split('\n')[0]).toMatch(new RegExp(`${problem}$`))
    expect(message).toMatch(/where: .*cordis\.yml:3:\d+ \(row a\)/)
  })

  test('is one expression, and cannot break out of its brackets', () => {
    expect(failure('- id: a\n  name: p\n  config: { x: !js "1) }); (function () { return (2" }\n')).toMatch(
      /^TREE_EXPRESSION: /,
    )
  })

  test('data that looks like an evaluated node of another loader is data', () => {
    expect(config("x: { __jsExpr: '1 + 1' }")).toEqual({ x: { __jsExpr: '1 + 1' } })
  })
})

describe('disabled', () => {
  const disabled = (value: string, env: Record<string, string> = {}) =>
    read(`- id: a\n  name: p\n  disabled: ${value}\n`, { env })[0]!.disabled

  test('may be computed', () => {
    expect(disabled('true')).toBe(true)
    expect(disabled("!js process.platform === 'nowhere'")).toBe(false)
    expect(disabled('!js env.CI', { CI: 'x' })).toBe(true)
    expect(disabled('!js env.CI')).toBe(false)
    expect(disabled('!env OFF', { OFF: '1' })).toBe(true)
    expect(disabled('!env OFF', { OFF: '0' })).toBe(false)
    expect(disabled('!env OFF', { OFF: '' })).toBe(false)
    expect(disabled('!env OFF')).toBe(false)
  })

  test('text from the environment that is neither true nor false is no answer', () => {
    expect(() => disabled('!env OFF', { OFF: 'no' })).toThrow('`disabled` must be true or false')
  })

  test('counts for all rows of a group, whose expressions are then not evaluated', () => {
    const text = `
- id: g
  name: group
  disabled: true
  config:
    - { id: a, name: p, config: { x: !js neverDefined } }
    - { id: i, name: include, config: { path: ./not-there.yml } }
`
    const [group] = read(text)
    expect(group!.children.map(row => [row.id, row.disabled])).toEqual([
      ['g:a', true],
      ['g:i', true],
    ])
  })
})

describe('include', () => {
  test('reads the rows of another file, whose names are relative to that file', () => {
    writeFileSync(join(folder, 'base.yml'), '- id: x\n  name: ./x.js\n')
    const text = '- id: i\n  name: include\n  config: { path: !env BASE }\n'
    const tree = readTree({ text, file: join(folder, 'cordis.yml') }, { env: { BASE: './base.yml' } })
    const [row] = tree.rows[0]!.children
    expect([row!.id, row!.name, row!.from]).toEqual(['i:x', './x.js', join(folder, 'base.yml')])
    expect(tree.files).toEqual([join(folder, 'base.yml')])
  })

  test('of a device, a folder, or bytes that are no text is a mistake, and of a pipe that nobody writes to nothing', () => {
    const include = (path: string) => `- { id: i, name: include, config: { path: ${path} } }`
    writeFileSync(join(folder, 'latin.yml'), Buffer.from('- id: \xe9\n  name: p\n', 'latin1'))
    execFileSync('mkfifo', [join(folder, 'pipe.yml')])
    expect(failure(include('/dev/zero'))).toMatch(/^TREE_FILE_UNREADABLE: \/dev\/zero: it has .* no end/)
    expect(failure(include('.'))).toMatch(/: it is a folder\n/)
    expect(failure(include('latin.yml'))).toMatch(/latin\.yml: it is not UTF-8\n.*\n.*save it as UTF-8$/)
    expect(read(include('pipe.yml'))[0]!.children).toEqual([])
  })

  test('an optional include makes its rows optional', () => {
    writeFileSync(join(folder, 'optional.yml'), '- id: x\n  name: ./x.js\n')
    const [row] = read('- { id: i, name: include, required: false, config: { path: optional.yml } }')
    expect(row!.children[0]!.required).toBe(false)
  })
})

describe('a patch', () => {
  const base = `
- id: llm
  name: p
  label: first
  config: { model: a, retry: { max: 3, waits: [1, 2] }, key: !env KEY }
- id: tools
  name: group
  config:
    - { id: bash, name: p, config: { ms: 1 } }
`
  const patched = (...patches: string[]) =>
    read(base, { env: { KEY: 'k' }, patches: patches.map((text, i) => ({ text, file: join(folder, `p${i}.yml`) })) })

  test('merges config deeply, replaces lists and other keys', () => {
    const [llm] = patched('- { id: llm, label: second, config: { retry: { max: 5, waits: [9] }, extra: !env KEY } }')
    expect(llm!.label).toBe('second')
    expect(llm!.config).toEqual({ model: 'a', retry: { max: 5, waits: [9] }, key: 'k', extra: 'k' })
  })

  test('replaces whole what stands under $replace, at any depth', () => {
    expect(patched('- { id: llm, config: { retry: { $replace: { max: 1 } } } }')[0]!.config).toEqual({
      model: 'a',
      retry: { max: 1 },
      key: 'k',
    })
    expect(patched('- { id: llm, config: { $replace: { only: this } } }')[0]!.config).toEqual({ only: 'this' })
  })

  test('inserts rows at the end, into a group, before and after a row, and names them relative to its own file', () => {
    const rows = patched(`
- insert: [{ id: last, name: ./x.js }]
- { insert: [{ id: sh, name: ./x.js }], into: tools }
- { insert: [{ id: first, name: ./x.js }], before: llm }
- { insert: [{ id: mid, name: ./x.js }], after: tools:bash }
`)
    expect(ids(rows)).toEqual(['first', 'llm', 'tools', 'tools:bash', 'tools:mid', 'tools:sh', 'last'])
    expect(rows[0]!.from).toBe(join(folder, 'p0.yml'))
  })

  test('sees what earlier patches made, and a later one wins', () => {
    const rows = patched(
      '- insert: [{ id: new, name: p, config: { a: 1 } }]\n- { id: llm, config: { model: b } }',
      '- { id: new, config: { b: 2 } }\n- { id: llm, config: { model: c } }\n- { id: tools:bash, disabled: true }',
    )
    expect(rows.at(-1)!.config).toEqual({ a: 1, b: 2 })
    expect(rows[0]!.config).toMatchObject({ model: 'c' })
    expect(rows[1]!.children[0]!.disabled).toBe(true)
  })

  test('may give a row another plugin, relative to the patch file', () => {
    const [llm] = patched('- { id: llm, name: ./other.js }')
    expect([llm!.name, llm!.from]).toEqual(['./other.js', join(folder, 'p0.yml')])
  })

  test('without any text changes nothing', () => {
    expect(ids(patched('# nothing\n'))).toEqual(['llm', 'tools', 'tools:bash'])
  })
})

describe('--set', () => {
  const base = `
- id: llm
  name: p
  config: { model: a, list: [1, 2], deep: { x: 1 } }
- id: a.b
  name: p
- id: g
  name: group
  config: [{ id: c, name: p, config: {} }]
`
  const set = (...options: string[]) => read(base, { set: options })

  test('changes a value, read as a YAML scalar unless it is a JSON string', () => {
    const [llm, dotted, group] = set(
      'llm.model=gpt = 4: #1',
      'llm.deep.y.z=5',
      'llm.list.1=true',
      'llm.text="5"',
      'llm.words="a" and "b"',
      'a.b.key=~',
      'g:c.x=1.5',
    )
    expect(llm!.config).toEqual({
      model: 'gpt = 4: #1',
      list: [1, true],
      deep: { x: 1, y: { z: 5 } },
      text: '5',
      words: '"a" and "b"',
    })
    expect(dotted!.config).toEqual({ key: null })
    expect(group!.children[0]!.config).toEqual({ x: 1.5 })
  })

  test('wins over a patch', () => {
    const patches = [{ text: '- { id: llm, config: { model: patched } }' }]
    expect(read(base, { patches, set: ['llm.model=set'] })[0]!.config).toMatchObject({ model: 'set' })
  })

  test.each([
    ['lml.model=x', 'no row has the id "lml"', 'did you mean "llm"?'],
    ['c.x=1', 'no row has the id "c"', 'did you mean "g:c"?'],
    ['llm.model', '"llm.model" has no `=`', 'id.path=value'],
    ['llm=x', '"llm" names a row, not a value', 'write --set llm.path=value'],
    ['llm.model.x=1', 'in row llm, "x" would lie inside "a"', 'correct the path'],
    ['llm.list.9=1', '"9" is no position of that list', 'use 0 to 2'],
  ])('%s is refused', (option, problem, fix) => {
    const message = failure(base, { set: [option] })
    expect(message).toContain(problem)
    expect(message).toContain(fix)
    expect(message).toContain('where: --set')
  })
})
