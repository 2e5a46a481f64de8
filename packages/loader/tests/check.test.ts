import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { checkTrees, mistakesOf } from '@cambium/loader'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { bundleCommand, command } from './command-line.ts'

let started: string[] = []
beforeEach(() => {
  started = []
})
const plugin = (name: string, inject: string[], provide?: string[]) => ({
  name,
  inject,
  ...(provide && { provide }),
  apply: () => void started.push(name),
})

/** Plugins from elsewhere: those that say what they provide, and `silent`, which does not. */
const modules = {
  ink: plugin('ink', [], ['ink']),
  paper: plugin('paper', ['ink'], ['paper']),
  writer: plugin('writer', ['paper'], []),
  reader: plugin('reader', ['ink']),
  quill: plugin('quill', ['feather'], ['ink']),
  silent: plugin('silent', []),
  ping: plugin('ping', ['pong'], ['ping']),
  pong: plugin('pong', ['ping'], ['pong']),
}

async function check(text: string, options: { set?: string[] } = {}) {
  const [found] = await checkTrees([{ text, file: '/somewhere/cordis.yml' }], { ...options, modules })
  const short = (error: { message: string }) => error.message.replaceAll('/somewhere/', '')
  expect(started, 'no plugin runs').toEqual([])
  return { rows: found!.rows, mistakes: found!.mistakes.map(short), warnings: found!.warnings.map(short) }
}

const sound = { mistakes: [], warnings: [] }

describe('a check', () => {
  test('of a sound tree finds nothing, in whatever order its rows stand', async () => {
    const text = '[{ id: w, name: writer }, { id: p, name: paper }, { id: i, name: ink }]'
    expect(await check(text)).toEqual({ rows: 3, ...sound })
  })

  test('names what waits for a service that no row provides, and the shipped plugin to add', async () => {
    const { mistakes, warnings } = await check("- { id: sh, name: '@cambium/toolbox/bash' }")
    expect(warnings).toEqual([])
    expect(mistakes).toEqual([
      'TREE_PENDING: pending: sh waits for ctx.tools; no enabled row provides it, and waits for ctx.fs; no enabled row ' +
        'provides it, and waits for ctx.process; no enabled row provides it\n' +
        '  where: cordis.yml:1:3 (row sh)\n' +
        '  fix:   add a row with name: "@cambium/tools"; add a row with name: "@cambium/machine/local"',
    ])
  })

  test('says which disabled row would provide it, or which service may be meant', async () => {
    const off = await check("[{ id: t, name: '@cambium/tools' }, { id: s, name: '@cambium/session', disabled: true }]")
    expect(off.mistakes.join()).toContain('fix:   enable the row s, which provides sessions')
    const typo = await check('[{ id: i, name: ink }, { id: r, name: reader, inject: [imk] }]')
    expect(typo.mistakes.join()).toContain(
      'waits for ctx.imk; no enabled row provides it\n  where: cordis.yml:1:24 (row r)\n' +
        '  fix:   add or enable a row that provides imk, or inject ink, if that is what you mean',
    )
  })

  test('tells the cause alone, not what follows from it', async () => {
    const { mistakes } = await check('[{ id: p, name: paper }, { id: w, name: writer }]')
    expect(mistakes).toHaveLength(1)
    expect(mistakes[0]).toContain('pending: p waits for ctx.ink')
  })

  test('warns where a plugin that declares nothing might provide the service', async () => {
    const { mistakes, warnings } = await check('[{ id: r, name: reader }, { id: s, name: silent }]')
    expect(mistakes).toEqual([])
    expect(warnings).toEqual([
      'TREE_PROVIDER_UNKNOWN: ctx.ink may be missing: r waits for it, and no row says that it provides it; only s ' +
        '(silent) might\n  where: cordis.yml:1:2 (row r)\n' +
        "  fix:   export const provide = ['ink'] from the plugin that provides it, or add or enable a row that provides ink",
    ])
  })

  test('warns of rows that may fail, and holds it against the rows that need them', async () => {
    const { mistakes, warnings } = await check(`
- { id: q, name: quill, required: false }
- { id: m, name: '@cambium/machine/local', required: false, config: { rot: x } }
- { id: r, name: reader }
`)
    expect(warnings.map(text => text.split('\n', 1)[0])).toEqual([
      'TREE_CONFIG_KEY_UNKNOWN: the config of @cambium/machine/local has no key `rot`',
      'TREE_PENDING: pending: q waits for ctx.feather; no enabled row provides it',
    ])
    expect(mistakes).toEqual([
      'TREE_PENDING: pending: r waits for ctx.ink; the row q would provide it, but waits itself\n' +
        '  where: cordis.yml:4:3 (row r)\n  fix:   give q what it waits for',
    ])
  })

  test('knows realms: a provider behind an `isolate` is none, one under the same label is', async () => {
    const group = (isolate: string) => `
- { id: i, name: ink }
- { id: g, name: group, isolate: { ink: ${isolate} }, config: [{ id: r, name: reader }] }
- { id: j, name: ink, isolate: { ink: mine } }
`
    const behind = await check(group('true'))
    expect(behind.mistakes.join()).toContain(
      'pending: g:r waits for ctx.ink; the row i provides it where this one cannot see it',
    )
    expect(await check(group('mine'))).toMatchObject(sound)
  })

  test('finds cycles once, and none where a service has another provider', async () => {
    const { mistakes } = await check('[{ id: a, name: ping }, { id: b, name: pong }]')
    expect(mistakes).toHaveLength(1)
    expect(mistakes[0]).toContain('TREE_SERVICE_CYCLE')
  })

  test('warns of two providers of one service', async () => {
    const { warnings } = await check('[{ id: a, name: ink }, { id: b, name: ink }]')
    expect(warnings.join()).toContain('TREE_PROVIDER_DOUBLE: a and b both provide ctx.ink\n  where: cordis.yml:1:24')
  })

  test('tells mistakes of the file together with those of its other rows, each once', async () => {
    const { mistakes, rows } = await check(`
- { id: a, name: reader, confg: {} }
- { id: b, name: ./lost.js }
- { id: b, name: ink }
- { id: c, name: '@cambium/machine/local', config: { rot: x } }
`)
    expect(rows).toBe(3)
    expect(mistakes.map(text => text.split(':', 1)[0]).sort()).toEqual([
      'TREE_CONFIG_KEY_UNKNOWN',
      'TREE_ID_DUPLICATE',
      'TREE_KEY_UNKNOWN',
      'TREE_MODULE_NOT_FOUND',
    ])
  })

  test('of several trees refuses a setting that fits none of them, once', async () => {
    const trees = ['one', 'two'].map(name => ({ text: '- { id: i, name: ink }', file: `/somewhere/${name}.yml` }))
    const [one, two] = await checkTrees(trees, { modules, set: ['j.x=1'] })
    expect([one!.mistakes, two!.mistakes.map(({ code }) => code)]).toEqual([[], ['TREE_TARGET_UNKNOWN']])
  })
})

test('a start that finds thousands of mistakes tells the first of them, and how many are left', async () => {
  const { bootTree } = await import('@cambium/loader')
  const text = Array.from({ length: 1_000 }, (_, n) => `- { id: r${n}, name: ./lost-${n}.js }`).join('\n')
  const error = await bootTree({ text }).then(
    () => undefined,
    error => error as Error,
  )
  expect(mistakesOf(error)).toHaveLength(1_000)
  expect(error!.message.length).toBeLessThan(10_000)
  expect(error!.message).toMatch(/… and 980 more$/)
})

describe('cordis check', () => {
  let folder = ''
  let script = ''
  const write = (files: Record<string, string>) => {
    for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text)
  }
  beforeAll(async () => {
    folder = mkdtempSync(join(new URL('../node_modules/', import.meta.url).pathname, '.check-test-'))
    script = await bundleCommand(folder)
    write({
      'package.json': '{ "type": "module" }',
      'noisy.js': 'console.log("at the top"); process.stdin.resume(); export const apply = () => console.log("ran")\n',
      'leaves.js': 'process.exit(0)\nexport const apply = () => {}\n',
      'stray.js': 'void Promise.reject(new Error("nobody awaits this"))\nexport const apply = () => {}\n',
      'sound.yml': '- { id: noisy, name: ./noisy.js, config: { level: !env [NOISE, 1] } }\n',
      'bad.yml': '- { id: leaves, name: ./leaves.js }\n- { id: r, nmae: ./noisy.js }\n',
      'stray.yml': '- { id: stray, name: ./stray.js }\n',
      'many.yml': Array.from({ length: 500 }, (_, n) => `- { id: r${n}, name: ./lost-${n}.js }`).join('\n'),
    })
  })
  afterAll(() => rmSync(folder, { recursive: true }))
  const cordis = (...args: string[]) => command(args, { cwd: folder, script }).end

  test('prints one line for a sound file, whatever its modules print', async () => {
    const { code, stdout, stderr } = await cordis('check', 'sound.yml')
    expect(stdout).toBe('sound.yml: 1 row, no mistakes\n')
    expect(stderr).toBe('at the top\n')
    expect(code).toBe(0)
  })

  test('prints what is wrong with each file, and how to mend it, and ends with 1', async () => {
    const { code, stdout } = await cordis('check', 'sound.yml', 'bad.yml', 'many.yml')
    expect(code).toBe(1)
    expect(stdout).toContain(`sound.yml: 1 row, no mistakes
bad.yml: 1 row, 3 mistakes

error: TREE_KEY_UNKNOWN: a row has no key \`nmae\`
  where: bad.yml:2:12 (row r)
  fix:   did you mean \`name\`? A plugin's own settings go under \`config\`.

error: TREE_ROW_INVALID: a row needs a \`name\`
  where: bad.yml:2:3 (row r)
  fix:   name a package path, a relative file, group or include

error: TREE_MODULE_FAILED: ./leaves.js cannot be imported: it called process.exit(0), which would end every tree
  where: bad.yml:1:23 (row leaves)
  fix:   call ctx.app.exit(code)

many.yml: 500 rows, 500 mistakes
`)
    expect(stdout).toMatch(/… and 480 more errors; --json has all\n\n$/)
  })

  test('--json is one document', async () => {
    const { code, stdout } = await cordis('check', '--json', 'sound.yml', 'bad.yml', 'stray.yml')
    expect(code).toBe(1)
    const document = JSON.parse(stdout)
    expect(document).toMatchObject({
      sound: false,
      trees: [
        { file: 'sound.yml', rows: 1, mistakes: [], warnings: [] },
        {
          file: 'bad.yml',
          rows: 1,
          mistakes: [{}, {}, { code: 'TREE_MODULE_FAILED', where: 'bad.yml:1:23 (row leaves)' }],
        },
        { file: 'stray.yml', rows: 1, mistakes: [] },
      ],
      unhandled: [expect.stringContaining('nobody awaits this')],
    })
  })

  test('takes settings, patches and variables as a start does', async () => {
    write({ 'vars.env': 'NOISE=5\n', 'off.yml': '- { id: r, name: ./noisy.js }\n- { id: leaves, disabled: true }\n' })
    expect((await cordis('check', 'bad.yml', '--patch', 'off.yml')).stdout).toMatch(/^bad.yml: 2 rows, 1 mistake\n/)
    const set = await cordis('check', 'sound.yml', '--env-file', 'vars.env', '--set', 'noizy.x=1')
    expect([set.code, set.stdout]).toEqual([1, expect.stringContaining('did you mean "noisy"?')])
    const usage = await cordis('check', '--jsn')
    expect([usage.code, usage.stdout]).toEqual([2, ''])
    const gone = await cordis('check', 'g*.yml')
    expect([gone.code, gone.stdout]).toEqual([1, ''])
    expect(gone.stderr).toContain('cordis: TREE_FILE_UNREADABLE: no file matches g*.yml')
  })
})
