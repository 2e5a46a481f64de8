/** What the pages show is what is there: their code is quoted from files that tests run. */

import { execFile, spawn } from 'node:child_process'
import { on, once } from 'node:events'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { BlockAssembler, createUserMessage, FAILURE_CODES, textOf } from '@cambium/llm'
import { bootTree, builtBin, tempWorkspace } from '@cambium/testkit'
import { expect, it } from 'vitest'

const ROOT = fileURLToPath(new URL('..', import.meta.url))
const read = (file: string) => readFileSync(join(ROOT, file), 'utf8')

interface Fence {
  readonly page: string
  readonly line: number
  readonly language: string
  /** What its first line names, if that is a comment with a file name. */
  readonly file: string | undefined
  readonly text: string
}

function fencesOf(page: string): Fence[] {
  const text = read(page)
  return [...text.matchAll(/^```(\S*)[^\n]*\n([\s\S]*?)^```$/gm)].map(match => {
    const [, language = '', body = ''] = match
    const named = /^(?:\/\/|#) (\S+\.\w+)\n/.exec(body)
    return {
      page,
      line: text.slice(0, match.index).split('\n').length,
      language,
      file: named?.[1],
      text: named ? body.slice(named[0].length) : body,
    }
  })
}

/** Whoever is quoted: everything there is started by a test. */
const QUOTED = ['examples', 'tests/snippets'].flatMap(folder =>
  readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' })
    .filter(file => /\.([jt]s|ya?ml|json)$/.test(file) && !file.includes('node_modules'))
    .map(file => join(folder, file)),
)

/** Why a fence is not a quotation, or undefined. */
function misquoted({ page, line, file, text }: Fence, from: readonly string[] = QUOTED): string | undefined {
  const at = `${page}:${line}`
  if (!file) return `${at} does not begin with a comment that names its file`
  const candidates = from.filter(path => path.endsWith(`/${file}`))
  if (!candidates.length) return `${at} names ${file}, which is no file of examples/`
  // Whole lines only.
  if (candidates.some(path => `\n${read(path)}`.includes(`\n${text}`))) return undefined
  return `${at} is not what ${candidates.join(' or ')} says`
}

it.each([
  ['docs/plugin-author.md', 'examples/author/', 8],
  ['docs/llm-adapter.md', 'examples/adapter/', 7],
])('every piece of code and YAML on %s is quoted from %s', (page, folder, least) => {
  const code = fencesOf(page).filter(({ language }) => !['sh', 'text'].includes(language))
  expect(code.length).toBeGreaterThan(least)
  const from = QUOTED.filter(file => file.startsWith(folder))
  expect(code.flatMap(fence => misquoted(fence, from) ?? [])).toEqual([])
})

it('the page for adapter authors has every code of a failure, and what becomes of each', async () => {
  const rows = [
    { name: '@cambium/llm' },
    { name: './abacus.ts' },
    { name: '@cambium/llm/retry', config: { fallback: ['abacus/beads'] } },
  ]
  const tree = await bootTree({ data: rows, file: join(ROOT, 'examples/adapter/cordis.yml') })
  const becomes = FAILURE_CODES.map((code, at) => {
    const course = tree.ctx.recovery.course()
    const fail = () => course.after({ provider: 'other', model: `m${at}` }, { code, message: '' }).kind
    const kinds = [fail(), fail(), fail(), fail(), fail()]
    const again = kinds.filter(kind => kind === 'again').length
    return [code, ['no', 'once'][again] ?? 'yes', kinds.includes('fallback') ? 'yes' : 'no']
  })
  await tree.dispose()
  const table = read('docs/llm-adapter.md').matchAll(/^\| `([A-Z_]+)` \|.*\| (yes|once|no) \| (yes|no) \|$/gm)
  expect([...table].map(([, ...row]) => row).sort()).toEqual(becomes.sort())
})

it('every plugin that a README shows is quoted from a file that a test runs', () => {
  const pages = ['README.md', ...readdirSync(join(ROOT, 'packages')).map(name => `packages/${name}/README.md`)]
  const plugins = pages
    .flatMap(fencesOf)
    .filter(({ language, text }) => language === 'ts' && /^export .*\bapply\b/m.test(text))
  expect(plugins.length).toBeGreaterThan(2)
  expect(plugins.flatMap(fence => misquoted(fence) ?? [])).toEqual([])
})

it('the plugins that only READMEs show run', async () => {
  const file = join(ROOT, 'tests/snippets/cordis.yml')
  const names = ['@cambium/llm', '@cambium/session', '@cambium/tools', './greeter.ts', './my-provider.ts']
  const tree = await bootTree({ data: names.map(name => ({ name })), file })
  const result = await tree.ctx.tools.execute({ name: 'greet', arguments: '{"who": "Ada", "times": 2}' })
  expect(textOf(result)).toBe('hello Ada\nhello Ada\n')
  const answer = new BlockAssembler()
  const messages = [createUserMessage({ content: 'hello', source: { kind: 'user' } })]
  for await (const chunk of tree.ctx.llm.stream({ provider: 'mine', model: 'any', messages })) answer.push(chunk)
  expect(answer.blocks()).toEqual([{ type: 'text', text: 'hi' }])
  await tree.dispose()
})

const run = promisify(execFile)

/** Resolves with what `stream` has sent once that contains `text`. */
async function until(stream: Readable, text: string): Promise<string> {
  let sent = ''
  for await (const [piece] of on(stream, 'data', { signal: AbortSignal.timeout(30_000) })) {
    sent += piece
    if (sent.includes(text)) return sent
  }
  throw new Error(`it ended without "${text}": ${sent}`)
}

it('whoever follows the page has plugins that are tested, and reloaded while they run', async () => {
  using home = tempWorkspace()
  const env = { PATH: process.env['PATH'], HOME: home.path }
  const bin = await builtBin('cordis')
  await run(process.execPath, [bin, 'create', 'plugin', 'notes'], { cwd: home.path, env })
  const cwd = join(home.path, 'notes')
  for (const { file, text } of fencesOf('docs/plugin-author.md')) {
    // What is shown in part belongs to a file that the folder has, or to another folder.
    if (file && read(`examples/author/${file}`) === text) home.write(`notes/${file}`, text)
  }
  // Where tsx is there before our hooks it follows these paths, as those to the types of the whole package.
  home.write('notes/types/schemastery.d.ts', 'export default Schema\ndeclare class Schema {}\n')
  home.write(
    'notes/tsconfig.json',
    '{ "compilerOptions": { "paths": { "schemastery": ["./types/schemastery.d.ts"] } } }',
  )

  const checked = await run(process.execPath, [bin, 'check', 'try.yml'], { cwd, env })
  expect(checked.stdout).toContain('no mistakes')

  for (const first of [[], ['--import', import.meta.resolve('tsx')]]) {
    const args = [...first, '--test', '--test-reporter=tap', 'notes.test.js']
    const { stdout } = await run(process.execPath, args, { cwd, env })
    expect(stdout).toMatch(/^# pass 3$/m)
  }

  const child = spawn(process.execPath, [bin, 'start', 'try.yml', '--watch'], { cwd, env })
  const [out, err] = [child.stdout.setEncoding('utf8'), child.stderr.setEncoding('utf8')]
  child.stdin.write('note {"text": "tea at four"}\n')
  await until(out, 'Noted as number 1.')
  const reloaded = until(err, 'note-tool.ts → note-tool reloaded')
  home.write('notes/note-tool.ts', home.read('notes/note-tool.ts').replace('Noted as', 'Kept as'))
  await reloaded
  child.stdin.end('note {"text": "cake at five"}\n')
  await until(out, 'Kept as number 2.')
  expect(await once(child, 'close')).toEqual([0, null])
}, 90_000)
