/** What the pages show is what is there: their code is quoted from files that tests run. */

import { execFile } from 'node:child_process'
import { mkdirSync, readdirSync, readFileSync, symlinkSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { BlockAssembler, createUserMessage, textOf } from '@cambium/llm'
import { bootTree, builtBin, type TempWorkspace, tempWorkspace } from '@cambium/testkit'
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

it('every piece of code and YAML on the page for plugin authors is quoted from its example', () => {
  const fences = fencesOf('docs/plugin-author.md')
  const code = fences.filter(({ language }) => !['sh', 'text'].includes(language))
  expect(code.length).toBeGreaterThan(10)
  const from = QUOTED.filter(file => file.startsWith('examples/author/'))
  expect(code.flatMap(fence => misquoted(fence, from) ?? [])).toEqual([])
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

/** A folder as the page has an author make it: the example's files, the built package, and a tsconfig whose paths lead to types. */
async function authorsFolder(): Promise<TempWorkspace> {
  const folder = tempWorkspace()
  for (const file of readdirSync(join(ROOT, 'examples/author'))) {
    if (!/^(run\.test\.ts|README\.md|package\.json)$/.test(file)) folder.write(file, read(`examples/author/${file}`))
  }
  folder.write('package.json', '{ "type": "module" }')
  folder.write('types/schemastery.d.ts', 'export default Schema\ndeclare class Schema {}\n')
  folder.write('tsconfig.json', '{ "compilerOptions": { "paths": { "schemastery": ["./types/schemastery.d.ts"] } } }')
  mkdirSync(join(folder.path, 'node_modules'))
  symlinkSync(dirname(dirname(await builtBin('cordis'))), join(folder.path, 'node_modules/cambium'))
  return folder
}

it('the example runs in a folder of its own, by the built command, and so do its tests', async () => {
  using folder = await authorsFolder()
  const env = { PATH: process.env['PATH'], HOME: folder.path }
  const run = promisify(execFile)
  const bin = join(folder.path, 'node_modules/cambium/bin/cordis.cjs')
  const started = run(process.execPath, [bin, 'start', 'try.yml', '--log-level', 'silent'], { cwd: folder.path, env })
  started.child.stdin!.end('note {"text": "tea at four"}\n')
  expect(await started).toEqual({ stdout: 'Noted as number 1.\n', stderr: '' })
  // Also where tsx is there before our hooks, and has the tsconfig's paths lead it to types.
  for (const first of [[], ['--import', import.meta.resolve('tsx')]]) {
    const args = [...first, '--test', '--test-reporter=tap', 'notes.test.js']
    const { stdout } = await run(process.execPath, args, { cwd: folder.path, env })
    expect(stdout).toMatch(/^# pass [1-9]/m)
  }
}, 60_000)
