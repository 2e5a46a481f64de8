/** `cambium config`: what is shown is what boots, with the source of every value and no secret in it. */

import { existsSync, readFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { main } from '@cambium/cli'
import { type Row, readTree } from '@cambium/loader'
import fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { type ExpressionText, type Written, yamlOf } from '../src/layers/tree-yaml.ts'
import { type Bench, openBench } from './run-command.ts'
import { Sink, testHost } from './streams.ts'

let bench: Bench
beforeEach(async () => {
  bench = await openBench({ replies: ['fine'] })
})
afterEach(() => bench.close())

const user = (text: string) => bench.home.write('cordis.patch.yml', text)

async function cambium(argv: readonly string[], env: Record<string, string> = {}, stdout = new Sink()) {
  const host = testHost({ cwd: bench.folder.path, env, stdout })
  return { code: await main(argv, host), stdout: stdout.text, stderr: host.stderr.text }
}

const shown = async (...argv: string[]) => JSON.parse((await cambium(['config', 'show', '--json', ...argv])).stdout)

const enabled = (rows: readonly Row[]): Row[] =>
  rows.flatMap(row => (row.disabled ? [] : [row, ...enabled(row.children)]))

describe('config show', () => {
  test('is the tree that boots: text that is read again gives the same rows with the same config', async () => {
    bench.home.write(
      'dump.mjs',
      `import { writeFileSync } from 'node:fs'
export const apply = ctx => ctx.on('session/created', () => {
  const rows = ctx.loader.rows().filter(({ state }) => state !== 'disabled')
  writeFileSync(new URL('dump.json', import.meta.url), JSON.stringify(rows.map(({ row: { id, kind, config, required, url } }) =>
    ({ id, kind: kind === 'include' ? 'group' : kind, config: kind === 'plugin' ? config : undefined, required }))))
})`,
    )
    bench.home.write(
      'more.yml',
      '- { id: c, name: ./noop.mjs, config: { z: [1, { deep: "a: b # c" }] } }\n- name: ./noop.mjs\n',
    )
    bench.home.write('noop.mjs', 'export const apply = () => {}')
    user(`- id: openai
  config: { idleMs: !env [IDLE, 5000], providers: { x: { baseURL: "http://127.0.0.1:1/v1" } } }
- { id: budget, config: { turn: { $replace: { maxSteps: !js 3 + 4 } } } }
- { id: bash, disabled: !js process.platform !== 'none' }
- { id: search, disabled: true }
- insert:
    - &dump { id: dump, name: ./dump.mjs }
    - { id: more, name: include, config: { path: ./more.yml } }
    - id: all
      name: group
      config: [{ id: one, name: ./noop.mjs, config: { text: "yes", words: "x\\ny", empty: {}, none: ~, list: [] } }]
    - { id: off, name: group, disabled: true, config: [{ id: in, name: ./noop.mjs }] }
- { id: 'more:c', config: { w: -0.5 }, required: false }
`)
    const argv = ['--set', 'loop.model=openai/other', '--set', 'all:one.list.0="5"']
    const { code, stdout, stderr } = await cambium(['config', 'show', ...argv])
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    expect(await bench.run([...argv, 'go'])).toMatchObject({ code: 0, stderr: '' })
    const booted = JSON.parse(readFileSync(`${bench.home.path}/dump.json`, 'utf8')).filter(
      (row: Row) => row.id !== 'headless',
    )
    const again = readTree({ text: stdout, file: '/elsewhere/cordis.yml' })
    expect(
      JSON.parse(
        JSON.stringify(
          enabled(again.rows).map(({ id, kind, config, required }) => ({
            id,
            kind,
            config: kind === 'plugin' ? config : undefined,
            required,
          })),
        ),
      ),
    ).toEqual(booted)
    const ids = booted.map(({ id }: Row) => id)
    expect(ids).toEqual(
      expect.arrayContaining(['llm', 'budget', 'dump', 'more', 'more:c', 'more:./noop.mjs#2', 'all:one']),
    )
    expect(ids.filter((id: string) => ['bash', 'search', 'off', 'off:in'].includes(id))).toEqual([])
    // Names lead to the same files from anywhere.
    const names = enabled(again.rows).filter(({ id }) => ['dump', 'more:c'].includes(id))
    expect(names.map(({ name }) => name)).toEqual([`${bench.home.path}/dump.mjs`, `${bench.home.path}/noop.mjs`])
  })

  test('says of each value which layer and place it comes from', async () => {
    const file = user('- id: loop\n  config:\n    model: x/y\n')
    const patch = bench.folder.write('p.yml', '- { id: fs, label: files }\n')
    const { stdout } = await cambium(['config', 'show', '--patch', patch, '--set', 'budget.turn.maxSteps=5'])
    expect(stdout).toContain(`\n    model: x/y # user ${file}:3:12\n`)
    expect(stdout).toContain('\n      maxSteps: 5 # --set budget.turn.maxSteps\n')
    expect(stdout).toContain('\n  label: files # patch p.yml:1:20\n')
    expect(stdout).toMatch(/\n- id: loop # shipped cordis\.yml:\d+:7\n/)
    const { layers, rows } = await shown('--patch', patch, 'loop')
    expect(layers.map(({ layer, state }: Record<string, string>) => `${layer} ${state}`)).toEqual([
      'shipped applied',
      'user applied',
      'patch applied',
    ])
    expect(rows).toMatchObject([
      {
        id: 'loop',
        name: '@cambium/agent/loop',
        config: { model: 'x/y' },
        layer: 'shipped',
        state: 'enabled',
        changedBy: [{ layer: 'user', at: `${file}:1:3` }],
        sources: { '/config/model': { layer: 'user', at: `${file}:3:12` } },
      },
    ])
  })

  test("writes the user's own files with a tilde", async () => {
    const home = `${homedir()}/.cambium-test-${process.pid}`
    const { stdout } = await cambium(['config', 'path'], { CAMBIUM_HOME: home })
    expect(stdout).toMatch(new RegExp(`^user +~/\\.cambium-test-${process.pid}/cordis\\.patch\\.yml +absent$`, 'm'))
  })

  test('evaluates and runs nothing; of a variable it says whether it is set', async () => {
    bench.home.write('ran.mjs', 'globalThis.showRan = true')
    user(`- { id: loop, config: { model: !js globalThis.showRan = 'x' }, disabled: !js globalThis.showRan = false }
- { id: openai, config: { providers: { a: { baseURL: !env HERE, apiKey: !env:string [GONE, none] } } } }
- insert: [{ id: r, name: ./ran.mjs }, { id: i, name: include, config: { path: !env GONE } }]
- { id: i:x, config: { a: 1 } }
`)
    const { code, stdout } = await cambium(['config', 'show'], { HERE: 'the-value' })
    expect(code).toBe(0)
    expect(globalThis).not.toHaveProperty('showRan')
    expect(stdout).toContain("model: !js globalThis.showRan = 'x' #")
    expect(stdout).toMatch(/baseURL: !env HERE # user \S+; HERE is set\n/)
    expect(stdout).toMatch(/apiKey: !env:string \[GONE, "\*\*\*"\] # user \S+; GONE is not set\n/)
    expect(stdout).not.toContain('the-value')
    const { rows } = await shown('loop', 'openai')
    expect(rows[0]).toMatchObject({
      state: 'depends',
      config: { model: { expression: "!js globalThis.showRan = 'x'" } },
    })
    expect(rows[1].config.providers.a.baseURL).toEqual({ expression: '!env HERE', set: false })
  })

  test('says which rows are disabled, by whom, and with which group', async () => {
    const file = user(
      '- { id: bash, disabled: true }\n- insert: [{ id: g, name: group, disabled: true, config: [{ id: x, name: ./x.mjs }] }]\n',
    )
    const { stdout } = await cambium(['config', 'show', 'bash', 'g', 'g:x'])
    expect(stdout).toContain(`disabled: true # user ${file}:1:25`)
    expect(stdout).toContain('disabled with g\n')
    expect(stdout).toContain('\n# g:x\n- id: x ')
    const { rows } = await shown('bash', 'g')
    expect(rows[0]).toMatchObject({ state: 'disabled', disabledBy: { id: 'bash', layer: 'user', at: `${file}:1:15` } })
    expect(rows[1].rows[0]).toMatchObject({ id: 'g:x', state: 'disabled', disabledBy: { id: 'g' } })
  })

  test('masks what looks like a secret, in text and in JSON, and what does not it leaves', async () => {
    const secrets = `
      apiKey: s3cret-a
      nested: { GITHUB_TOKEN: s3cret-b, pass_word: plain-a, password: 12345678901, tokens: { a: plain-b }, maxTokens: 5 }
      headers: { Authorization: Basic s3cret-c, X-Api-Key: s3cret-d, x-acme-key: s3cret-A, Accept: plain-c }
      credentials: [s3cret-e, { user: s3cret-f }]
      url: "https://me:s3cret-g@host.example/?key=s3cret-h&page=plain-d"
      args: [--token, s3cret-i, --api-key=s3cret-j, --verbose, plain-e, "Authorization: Bearer s3cret-k"]
      command: "curl -H 'Authorization: Bearer s3cret-l' plain-f"
      text: sk-s3cret0123456789abcdef
      secret: !js "process.env.X ?? 's3cret-m'"
      token: !env [NOT_SET, s3cret-n]
      glued: { PGPASSWORD: s3cret-o, GITHUB_PAT: s3cret-p, API_KEY_2: s3cret-q, token1: s3cret-r, X-Auth: s3cret-s, pass: s3cret-t }
      pairs: "Server=plain-l;Password=s3cret-u;AccountKey=s3cret-v== plain-m"
      line: "API_KEY=s3cret-w mcp --token s3cret-x --page plain-n -H 'Authorization: token s3cret-y' plain-o"
      json: '{"apiKey": "s3cret-z", "page": "plain-p"}'
      addresses: ["pg://u:s3cret@s3cret@plain-q/x", "pg://u:a/s3cret@plain-r/x", "https://s3cret@plain-s/x", "https://plain-t:4873/@scope/x"]
      hook: https://hooks.slack.com/services/T0/B0/s3cret
      by: { sk-s3cret0123456789abcdef: plain-u }
      chosen: !js "env.TOKEN === 'x' ? 'password=s3cret' : 'plain-v'"
      apiKeyEnv: plain-g
      maxTokensKey: plain-h
      tokenizer: plain-i
      publicKey: plain-j
      key: plain-k`
    user(`- insert: [{ id: x, name: ./x.mjs, config: &c {}}]\n- id: x\n  config:${secrets}\n`)
    for (const json of [[], ['--json']]) {
      const { code, stdout } = await cambium(['config', 'show', ...json, 'x'])
      expect(code).toBe(0)
      expect(stdout).not.toMatch(/s3cret|12345678901/)
      for (const letter of 'abcdefghijklmnopqrstuv') expect(stdout).toContain(`plain-${letter}`)
    }
    const { stdout } = await cambium(['config', 'show', '--set', 'openai.providers.x.apiKey=s3cret'])
    expect(stdout).not.toContain('s3cret')
  })

  test('is coloured on a terminal only, and the same text otherwise', async () => {
    user('- { id: loop, config: { model: "# no comment" } }\n')
    const plain = await cambium(['config', 'show'])
    const painted = await cambium(['config', 'show'], {}, new Sink(true))
    // biome-ignore lint/suspicious/noControlCharactersInRegex: colours
    expect(painted.stdout.replace(/\x1b\[\d+m/g, '')).toBe(plain.stdout)
    expect(painted.stdout).toContain('"# no comment" \x1b[2m# user')
    expect((await cambium(['config', 'show'], { NO_COLOR: '1' }, new Sink(true))).stdout).toBe(plain.stdout)
  })

  test("the layers' mistakes are told as a run tells them", async () => {
    const file = user('- { id: lop, disabled: true }\n')
    const { code, stdout, stderr } = await cambium(['config', 'show'])
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
    expect(stderr).toContain(`no row has the id "lop" (${file}:1:3)`)
    expect(stderr).toContain('--no-layers')
    expect((await cambium(['config', 'show', '--no-layers'])).code).toBe(0)
    expect(await cambium(['config', 'path'])).toMatchObject({ code: 0 })
  })
})

test('config path lists the files that are looked at, and what became of each', async () => {
  bench.folder.write('.cambium/cordis.patch.yml', '- { id: bash, disabled: true }\n')
  const states = async (...flags: string[]) => {
    const { stdout } = await cambium(['config', 'path', '--json', ...flags])
    return Object.fromEntries(JSON.parse(stdout).files.map(({ what, state }: Record<string, string>) => [what, state]))
  }
  expect(await states()).toEqual({ shipped: 'applied', user: 'absent', project: 'not trusted', trust: 'absent' })
  await cambium(['trust', '--yes'])
  user('')
  expect(await states()).toEqual({ shipped: 'applied', user: 'applied', project: 'applied', trust: 'read' })
  expect(await states('--no-layers')).toMatchObject({ user: 'left out', project: 'left out' })
  bench.folder.write('.cambium/cordis.patch.yml', '[]\n')
  const { stdout } = await cambium(['config', 'path'])
  expect(stdout).toMatch(/^project {2}\.cambium\/cordis\.patch\.yml +changed since it was trusted$/m)
  expect(existsSync(`${bench.home.path}/trust.json`)).toBe(true)
})

test.each([
  [['config'], 'config needs a word: show or path'],
  [['config', 'shwo'], 'did you mean cambium config show?'],
  [['config', 'path', 'loop'], 'rows go behind show: cambium config show loop'],
  [['config', 'show', 'lop'], 'did you mean loop?'],
  [['config', 'show', '--jsno'], 'did you mean --json?'],
  [['trust', 'a', 'b'], 'trust takes one folder'],
  [['trust', '--list', '--revoke'], '--list and --revoke exclude each other'],
])('%j is a usage error that says what to write', async (argv, text) => {
  const { code, stdout, stderr } = await cambium(argv)
  expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
  expect(stderr).toContain(text)
  expect(stderr).toContain('usage:')
})

test.each(['config', 'trust'])('the help of %s fits a screen', async name => {
  const { code, stdout } = await cambium([name, '--help'])
  expect(code).toBe(0)
  expect(Math.max(...stdout.split('\n').map(line => line.length))).toBeLessThanOrEqual(110)
  expect(stdout.split('\n').length).toBeLessThan(30)
})

describe('the text of a tree', () => {
  type Data = string | number | boolean | null | Data[] | { [key: string]: Data }
  const toWritten = (data: Data): Written => {
    if (Array.isArray(data)) return { kind: 'list', items: data.map(toWritten), comment: 'a: comment' }
    if (typeof data !== 'object' || data === null) return { kind: 'scalar', value: data, comment: 'a: comment' }
    return { kind: 'map', entries: Object.entries(data).map(([key, value]) => [key, toWritten(value)]), comment: 'x' }
  }
  const read = (text: string) => readTree({ text, file: '/x/cordis.yml' }, { env: {} }).rows[0]!.config
  const row = (config: Written): Written[] => [
    {
      kind: 'map',
      entries: [
        ['name', { kind: 'scalar', value: 'p' }],
        ['config', config],
      ],
    },
  ]

  test('holds any data so that the loader reads it back', () => {
    const text = fc.oneof(
      fc.string({ unit: 'binary' }),
      fc.constantFrom(
        'yes',
        'null',
        '~',
        '1e3',
        '0x1',
        '.5',
        '- a',
        'a: b',
        'a #b',
        '<<',
        '!env X',
        '*a',
        '%',
        '...',
        ' a ',
        ':',
        'a:',
      ),
    )
    const leaf = fc.oneof(text, fc.double(), fc.integer(), fc.boolean(), fc.constant(null))
    const { tree } = fc.letrec<{ tree: Data }>(tie => ({
      tree: fc.oneof(
        { maxDepth: 4 },
        leaf as fc.Arbitrary<Data>,
        fc.array(tie('tree'), { maxLength: 4 }),
        fc.dictionary(text, tie('tree'), { maxKeys: 4, noNullPrototype: true }),
      ),
    }))
    fc.assert(
      fc.property(tree, data => {
        expect(read(yamlOf(row(toWritten({ data }))))).toEqual({ data })
      }),
      { numRuns: 300 },
    )
  })

  test.each<[string, ExpressionText, unknown]>([
    ['plain', { tag: '!js', text: '1 + 1' }, 2],
    ['with quotes', { tag: '!js', text: `'it' + "'s"` }, "it's"],
    ['like a map', { tag: '!js', text: '({ a: 1 }).a' }, 1],
    ['like a comment', { tag: '!js', text: '"a" + " #b"' }, 'a #b'],
    ['of several lines', { tag: '!js', text: '1 +\n  2' }, 3],
    ['a list', { tag: '!js', text: '[1, 2]' }, [1, 2]],
    ['a default', { tag: '!env', text: 'GONE', fallback: { value: 'a, b] #' } }, 'a, b] #'],
    ['a number as default', { tag: '!env', text: 'GONE', fallback: { value: 5 } }, 5],
    ['text that looks like one', { tag: '!env', text: 'GONE', fallback: { value: '5' } }, '5'],
  ])('holds an expression %s so that the loader reads it back', (_, source, value) => {
    expect(read(yamlOf(row({ kind: 'map', entries: [['x', { kind: 'expression', source, comment: 'c' }]] })))).toEqual({
      x: value,
    })
  })
})
