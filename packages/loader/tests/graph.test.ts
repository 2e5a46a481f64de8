import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { bundleCommand, command } from './command-line.ts'

let folder = ''
let script = ''

const FILES: Record<string, string> = {
  'package.json': '{ "type": "module" }',
  'ink.js': "export const provide = ['ink']\nexport const apply = ctx => { ctx.provide('ink', {}) }\n",
  'pen.js': `
export const inject = ['ink']
export function apply(ctx) {
  for (let n = 0; n < 3; n++) ctx.effect(() => () => {}, 'nib')
  ctx.plugin({ name: 'inner', apply: inner => void inner.on('pen/lost', () => {}) })
  ctx.inject(['eraser'], () => {})
}
`,
  'fails.js': 'export const apply = () => { throw new Error("no paper\\n  left") }\n',
  'loud.js': `
import { execFileSync } from 'node:child_process'
import { writeSync } from 'node:fs'
export function apply(ctx) {
  ctx.app.claim('stdout')
  ctx.app.claim('stdin')
  console.log('noise')
  writeSync(1, 'noise\\n')
  execFileSync(process.execPath, ['-e', 'console.log("noise")'], { stdio: 'inherit' })
  process.stdin.resume()
  ctx.app.exit(7)
  ctx.app.main(() => { console.error('the work began'); return 5 })
  ctx.effect(() => () => console.error('disposed'), 'end')
}
`,
  'leaves.js': 'export const apply = () => process.exit(0)\n',
  'hangs.js': 'export const apply = () => new Promise(() => {})\n',
  'busy.js': 'export const apply = () => { for (;;); }\n',
  'stray.js': 'export const apply = () => { void Promise.reject(new Error("nobody awaits this")) }\n',
  'up.yml': `- { id: ink, name: ./ink.js }
- id: desk
  name: group
  config:
    - { id: pen, name: ./pen.js, label: 'the "best" <pen>' }
    - { id: old, name: ./pen.js, disabled: true }
`,
  'down.yml': `- { id: pen, name: ./pen.js }
- { id: fails, name: ./fails.js }
- { id: lost, name: ./lost.js }
- { id: loud, name: ./loud.js, required: false, inject: [paper] }
- { id: ok, name: ./ink.js, isolate: { ink: true } }
`,
  'loud.yml': '- { id: loud, name: ./loud.js }\n',
  'leaves.yml': '- { id: leaves, name: ./leaves.js }\n- { id: ok, name: ./ink.js }\n',
  'hangs.yml': '- { id: hangs, name: ./hangs.js }\n- { id: ok, name: ./ink.js }\n',
  'busy.yml': '- { id: busy, name: ./busy.js }\n',
  'stray.yml': '- { id: stray, name: ./stray.js }\n',
  'wrong.yml': '- { id: a, nam: x }\n',
}

beforeAll(async () => {
  folder = mkdtempSync(join(new URL('../node_modules/', import.meta.url).pathname, '.graph-test-'))
  for (const [name, text] of Object.entries(FILES)) writeFileSync(join(folder, name), text)
  script = await bundleCommand(folder)
})
afterAll(() => rmSync(folder, { recursive: true }))

const graph = (...args: string[]) => command(['graph', ...args], { cwd: folder, script }).end
const timeless = (text: string) => text.replace(/\d+(\.\d)? ms/g, '_ ms').replace(/ +/g, ' ')

test('a tree is shown with its groups, and for each row where it stands, what it gives, needs and holds', async () => {
  const { code, stdout, stderr } = await graph('up.yml')
  expect(timeless(stdout)).toBe(`up.yml: up in _ ms (2 active, 1 disabled)

row state source import start plugin
ink active up.yml:1 _ ms _ ms ./ink.js
 provides ink
 effects ctx.provide("ink")
desk group up.yml:2
├─ pen active up.yml:5 _ ms _ ms ./pen.js
│ a part waits for ctx.eraser
│ injects ink
│ effects nib ×3, ctx.plugin() ×2, ctx.on("pen/lost")
└─ old disabled up.yml:6 ./pen.js
`)
  expect([code, stderr]).toEqual([0, ''])
})

test('a tree that would not start is shown as far as it came, with what each row is missing', async () => {
  const { code, stdout } = await graph('down.yml')
  expect(code).toBe(1)
  expect(timeless(stdout)).toBe(`down.yml: would not start, after _ ms (2 waiting, 2 failed, 1 active)

row state source import start plugin
pen waiting down.yml:1 _ ms ./pen.js
 waits for ctx.ink; the row ok provides it where this one cannot see it; an \`isolate\` stands between the two: put both into one group, or give both the same label
 injects ink
fails failed down.yml:2 _ ms ./fails.js
 failed ./fails.js failed to start: no paper left; correct the plugin or its config, or set \`disabled: true\` or \`required: false\` on the row
lost failed down.yml:3 ./lost.js
 failed there is no file lost.js; did you mean "./loud.js"?
loud waiting down.yml:4 _ ms ./loud.js
 waits for ctx.paper; no enabled row provides it; add or enable a row that provides paper
 a start goes on without it
 injects paper
ok active down.yml:5 _ ms _ ms ./ink.js
 provides ink
 effects ctx.provide("ink")
`)
})

test('--json is one document of all trees, whatever their plugins print, read or end, and finite work does not begin', async () => {
  const { code, stdout, stderr } = await graph('--json', 'loud.yml', 'leaves.yml', 'stray.yml', 'wrong.yml', 'up.yml')
  expect(code).toBe(1)
  const { trees, unhandled } = JSON.parse(stdout)
  expect(stderr.match(/noise/g)).toHaveLength(3)
  expect(stderr).not.toContain('the work began')
  expect(stderr).toContain('disposed')
  const states = trees.map(({ file, state, rows }: { file: string; state: string; rows: { state: string }[] }) => [
    file,
    state,
    rows.map(row => row.state).join(),
  ])
  expect(states).toEqual([
    ['loud.yml', 'up', 'active'],
    ['leaves.yml', 'failed', 'failed,active'],
    ['stray.yml', 'up', 'active'],
    ['wrong.yml', 'unread', ''],
    ['up.yml', 'up', 'active,active,active,disabled'],
  ])
  expect(trees[1].rows[0].problem.problem).toContain('it called process.exit(0)')
  expect(trees[3].mistakes[0].code).toBe('TREE_KEY_UNKNOWN')
  expect(unhandled).toEqual([expect.stringContaining('nobody awaits this')])
  expect(trees[4].rows[2]).toEqual({
    id: 'desk:pen',
    name: './pen.js',
    kind: 'plugin',
    label: 'the "best" <pen>',
    parent: 'desk',
    source: 'up.yml:5:7',
    state: 'active',
    required: true,
    waits: [],
    partWaits: ['eraser'],
    injects: [{ service: 'ink', from: 'ink' }],
    provides: [],
    declares: [],
    effects: [
      { label: 'nib', count: 3 },
      { label: 'ctx.plugin()', count: 2 },
      { label: 'ctx.on("pen/lost")', count: 1 },
    ],
    importMs: expect.any(Number),
    startMs: expect.any(Number),
    problem: null,
  })
})

test('a row that does not finish starting is shown as such once the wait is over', async () => {
  const begun = performance.now()
  const { code, stdout } = await graph('hangs.yml', '--wait', '1')
  expect(performance.now() - begun).toBeLessThan(15_000)
  expect(code).toBe(1)
  expect(timeless(stdout)).toContain('hangs loading hangs.yml:1 _ ms ./hangs.js\n starting it is still starting\n')
  expect(timeless(stdout)).toContain('ok active')
})

test('a plugin that computes without an end is given up', async () => {
  const { code, stdout, stderr } = await graph('busy.yml', '--wait', '1')
  expect([code, stdout]).toEqual([1, ''])
  expect(stderr).toBe('cordis: a plugin keeps the process busy and does not come to an end\n')
})

test('--mermaid draws rows as nodes, groups around them, and each service as an edge from who provides it', async () => {
  const { stdout } = await graph('--mermaid', 'up.yml', 'down.yml')
  expect(stdout).toContain(`flowchart LR
subgraph t0["up.yml"]
t0r0["ink"]
subgraph t0r1["desk"]
t0r2["the #34;best#34; #60;pen#62;"]
t0r3["desk:old"]:::disabled
end
t0r0 -- "ink" --> t0r2
end
subgraph t1["down.yml"]
t1r0["pen"]:::waiting
t1r1["fails"]:::failed
t1r2["lost"]:::failed
t1r3["loud"]:::waiting
t1r4["ok"]
t1m0(["ctx.ink"])
t1m1(["ctx.paper"])
t1m0 -. "ink" .-> t1r0
t1m1 -. "paper" .-> t1r3
end
`)
})

test('a signal ends it with the code of the signal, and its plugins in order', async () => {
  const run = command(['graph', 'loud.yml', 'hangs.yml'], { cwd: folder, script })
  await run.says('disposed')
  run.child.kill('SIGTERM')
  expect(await run.end).toMatchObject({ code: 143, stdout: '' })
})

test.each([
  ['--json', '--mermaid'],
  ['--wait', 'long'],
])('%s %s is a usage error', async (...flags) => {
  const { code, stdout, stderr } = await graph('up.yml', ...flags)
  expect([code, stdout]).toEqual([2, ''])
  expect(stderr).toContain('cordis: ')
})
