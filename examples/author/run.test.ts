import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { bootTree, tempWorkspace } from '@cambium/testkit'
import { afterEach, expect, test, vi } from 'vitest'

const here = (file: string) => fileURLToPath(new URL(file, import.meta.url))
const root = here('../..')

afterEach(() => void vi.restoreAllMocks())

test('notes are made, kept clean of keys, and taken back, as the README shows', async () => {
  const lines: string[] = []
  vi.spyOn(console, 'log').mockImplementation((line: string) => void lines.push(line))
  const tree = await bootTree({ file: here('cordis.yml') })
  expect(await tree.ended).toBe(0)
  const shown = /\$ npm run demo:author\n([\s\S]*?)```/.exec(readFileSync(here('README.md'), 'utf8'))?.[1]
  expect(`${lines.join('\n')}\n`).toBe(shown)
})

test('a note that is old is dropped by the work in the background, which ends with its plugin', async () => {
  const tree = await bootTree(
    {
      file: here('cordis.yml'),
    },
    {
      patches: [{ text: '[{ id: ask, disabled: true }, { id: note-expiry, config: { maxAgeMs: 0, everyMs: 1 } }]' }],
    },
  )
  const dropped = new Promise<number>(resolve => tree.ctx.on('notes/dropped', ({ id }) => resolve(id)))
  tree.ctx.get('notes')!.make('tea at four')
  expect(await dropped).toBe(1)
  await tree.dispose()
  expect(tree.logs()).not.toMatch(/^(warn|error)/m)
})

test('what a person sets counts from the next turn on, without a restart', async () => {
  using home = tempWorkspace({ 'settings.yml': readFileSync(here('settings.yml'), 'utf8') })
  const patch = [
    { id: 'ask', disabled: true },
    { id: 'settings', config: { home: home.path, cwd: home.path } },
  ]
  const tree = await bootTree({ file: here('cordis.yml') }, { patches: [{ text: JSON.stringify(patch) }] })
  const told = async () => JSON.stringify((await tree.ctx.get('systemPrompt')!.assemble({})).sections)
  expect(await told()).toContain('Make notes in German.')
  const changed = new Promise<void>(resolve => tree.ctx.on('settings/changed', () => resolve()))
  home.write('settings.yml', 'notes:\n  language: Welsh\n')
  await changed
  expect(await told()).toContain('Make notes in Welsh.')
  await tree.dispose()
})

test('a patch gives them to the agent of the default tree', async () => {
  const tree = await bootTree({ file: `${root}/cordis.yml` }, { patches: [{ file: here('notes.patch.yml') }], env: {} })
  expect(tree.ctx.tools.schemas().map(({ name }) => name)).toEqual(expect.arrayContaining(['note', 'read']))
  await tree.dispose()
})

test('each line of standard input calls a tool', async () => {
  const bin = `${root}/packages/loader/bin/cordis.js`
  const started = promisify(execFile)(process.execPath, [bin, 'start', here('try.yml'), '--log-level', 'warn'])
  started.child.stdin!.end('note {"text": "tea at four"}\nnote {}\n')
  const { stdout } = await started
  expect(stdout.split('\n')).toEqual(['Noted as number 1.', expect.stringContaining('text'), ''])
})
