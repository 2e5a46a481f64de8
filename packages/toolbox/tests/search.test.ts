import { chmodSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { openWorkbench, textOf } from './workbench.ts'

const repository = {
  '.git/HEAD': 'ref: needle\n',
  '.git/config': '',
  '.gitignore': '*.log\n/build/\nnode_modules/\n',
  'nested/.gitignore': '!keep.log\n',
  'nested/keep.log': 'needle\n',
  'nested/drop.log': 'needle\n',
  'build/out.js': 'needle\n',
  'node_modules/pkg/index.js': 'needle\n',
  '.github/w.yml': 'needle\n',
  '.env': 'needle\n',
  'src/a.ts': 'one\nneedle here\nthree\nfour\nfive\nneedle again\n',
  'src/deep/b.ts': 'Needle\n',
  'src/deep/c.md': 'needle\n',
}

describe('grep takes a pattern for nothing but a pattern', () => {
  const lines = ['-webkit-box', 'a->b', '-1', '--flag', '--pre=/tmp/x.sh', '-f/etc/passwd', '-x']

  it.each(lines.map(line => [line.replace('a->b', '->')]))('%s', async pattern => {
    const bench = await openWorkbench({ files: { f: `${lines.join('\n')}\n`, g: 'other\n' } })
    const line = lines.findIndex(text => text.includes(pattern)) + 1
    const result = await bench.call('grep', { pattern })
    expect(result.isError).toBe(false)
    expect(textOf(result)).toMatch(new RegExp(`^f\n(.*\n)*${line}: ${lines[line - 1]}`))
    expect(textOf(result)).not.toContain('g\n')
  })

  it('and a path for nothing but a path', async () => {
    const bench = await openWorkbench({ files: { '-x': 'needle\n', f: 'needle\n' } })
    expect(await bench.ask('grep', { pattern: 'needle', path: '-x' })).toBe('-x\n1: needle')
  })

  it('and a name for nothing but a name', async () => {
    const names = ['a:12:b', 'new\nline', '-dash', 'ordinary']
    const bench = await openWorkbench()
    for (const name of names) writeFileSync(join(bench.dir, name), 'x\nneedle\n')
    const result = await bench.call('grep', { pattern: 'needle' })
    const { files } = result.value as { files: Array<{ path: string }> }
    expect(files.map(file => file.path)).toEqual(
      ['-dash', 'a:12:b', 'new\nline', 'ordinary'].map(n => join(bench.dir, n)),
    )
    expect(textOf(result)).toContain('a:12:b\n2: needle')
    expect(textOf(result)).toContain('new\\nline"\n2: needle')
  })
})

describe('grep', () => {
  it('tells nothing found from not searched', async () => {
    const bench = await openWorkbench({ files: { f: 'x\n' } })
    const nothing = await bench.call('grep', { pattern: 'needle' })
    expect(nothing.isError).toBe(false)
    expect(textOf(nothing)).toBe('No matches.')
    const invalid = await bench.call('grep', { pattern: '(' })
    expect(invalid).toMatchObject({ isError: true, error: { code: 'SEARCH_INVALID_PATTERN' } })
    expect(textOf(invalid)).toMatch(/not a regular expression: unclosed group\nescape/)
    const missing = await bench.call('grep', { pattern: 'x', path: 'g' })
    expect(missing).toMatchObject({ isError: true, error: { code: 'FS_NOT_FOUND' } })
  })

  it('searches hidden files and respects what git ignores', async () => {
    const bench = await openWorkbench({ files: repository })
    expect(await bench.ask('grep', { pattern: 'needle', output: 'files' })).toBe(
      ['.env', '.github/w.yml', 'nested/keep.log', 'src/a.ts', 'src/deep/c.md'].join('\n'),
    )
  })

  it('searches an ignored directory that is named', async () => {
    const bench = await openWorkbench({ files: repository })
    expect(await bench.ask('grep', { pattern: 'needle', path: 'build' })).toBe('build/out.js\n1: needle')
    expect(await bench.ask('grep', { pattern: 'needle', path: 'nested/drop.log' })).toBe('nested/drop.log\n1: needle')
  })

  it('filters by name and by path without bringing back what is ignored', async () => {
    const bench = await openWorkbench({ files: repository })
    const files = (glob: string) => bench.ask('grep', { pattern: 'needle', output: 'files', glob })
    expect(await files('*.log')).toBe('nested/keep.log')
    expect(await files('*.{ts,md}')).toBe('src/a.ts\nsrc/deep/c.md')
    expect(await files('src/**/*.md')).toBe('src/deep/c.md')
    expect(await files('!*.ts')).toBe(['.env', '.github/w.yml', 'nested/keep.log', 'src/deep/c.md'].join('\n'))
  })

  it('shows context, counts, and either case', async () => {
    const bench = await openWorkbench({ files: repository })
    expect(await bench.ask('grep', { pattern: 'needle', path: 'src/a.ts', context: 1 })).toBe(
      'src/a.ts\n1- one\n2: needle here\n3- three\n--\n5- five\n6: needle again',
    )
    expect(await bench.ask('grep', { pattern: 'needle', path: 'src', ignore_case: true, output: 'count' })).toBe(
      'src/a.ts: 2\nsrc/deep/b.ts: 1\nsrc/deep/c.md: 1',
    )
  })

  it('matches at the end of CRLF lines, over several lines, and with look-around', async () => {
    const bench = await openWorkbench({ files: { f: 'foo\r\nbar\r\nfood\r\n' } })
    expect(await bench.ask('grep', { pattern: 'foo$' })).toBe('f\n1: foo')
    expect(await bench.ask('grep', { pattern: 'foo\\r?\\nbar' })).toBe('f\n1: foo\n2: bar')
    expect(await bench.ask('grep', { pattern: 'foo(?!d)' })).toBe('f\n1: foo')
  })

  it('stops at its limits and says so', async () => {
    const bench = await openWorkbench({
      files: { a: 'needle\n'.repeat(30), b: 'needle\n', c: 'needle\n' },
      search: { grepMatches: 10 },
    })
    const text = await bench.ask('grep', { pattern: 'needle' })
    expect(text).toMatch(/^a\n1: needle\n(.*\n){9}\(stopped after 10 matches, there are more; narrow/)
    const few = await openWorkbench({ files: { a: 'n', b: 'n', c: 'n' }, search: { grepMatches: 2 } })
    expect(await few.ask('grep', { pattern: 'n', output: 'files' })).toContain('a\nb\n(stopped after 2 files')
    expect(await few.ask('grep', { pattern: 'n', path: 'c' })).toBe('c\n1: n')
  })

  it('shows of a long line the part that matched, in whole characters', async () => {
    const bench = await openWorkbench({ files: { f: `${'é'.repeat(50_000)}needle${'é'.repeat(50_000)}\n` } })
    const text = await bench.ask('grep', { pattern: 'needle' })
    expect(text).toMatch(/^f\n1: …é+needleé+…$/)
    expect(text.length).toBeLessThan(420)
    expect(text).not.toContain('\ufffd')
  })

  it('finds a line that is too long to be shown, and one with more matches than can be listed', async () => {
    const files = { a: `${'x'.repeat(5_000_000)}needle\n`, b: `one\n${'needle '.repeat(200_000)}\n`, c: 'needle\n' }
    const bench = await openWorkbench({ files })
    const long = '(a very long line; see parts of it with grep -o in bash)'
    expect(await bench.ask('grep', { pattern: 'needle' })).toBe(`a\n1: ${long}\n\nb\n2: ${long}\n\nc\n1: needle`)
    expect(await bench.ask('grep', { pattern: 'needle', output: 'count' })).toBe('a: 1\nb: 1\nc: 1')
    expect(await bench.ask('grep', { pattern: 'needle', output: 'files' })).toBe('a\nb\nc')
  })

  it('does not wait for a pipe or a device', async () => {
    const bench = await openWorkbench({ search: { timeoutMs: 5_000 } })
    await bench.ask('bash', { command: 'mkfifo pipe; ln -s /dev/zero zero; ln -s nowhere link' })
    for (const path of ['pipe', 'zero', '/dev/zero']) {
      const result = await bench.call('grep', { pattern: 'x', path })
      expect(result).toMatchObject({ isError: true, error: { code: 'SEARCH_NOT_FILE' } })
    }
    expect(await bench.ask('grep', { pattern: 'x', path: 'link' })).toBe(
      'Error: link is a link to something that does not exist\nlook where it leads with ls -l in bash',
    )
  })

  it('reads other encodings as well as it can', async () => {
    const bench = await openWorkbench({ files: { f: Buffer.from('caf\xe9 needle\n', 'latin1') } })
    expect(await bench.ask('grep', { pattern: 'needle' })).toBe('f\n1: caf\ufffd needle')
  })

  it('does not read a configuration of the machine', async () => {
    const bench = await openWorkbench({ files: { f: 'x\n', rc: '--files-with-matches\n--pre=/bin/false\n' } })
    process.env['RIPGREP_CONFIG_PATH'] = join(bench.dir, 'rc')
    try {
      expect(await bench.ask('grep', { pattern: 'x', path: 'f' })).toBe('f\n1: x')
    } finally {
      delete process.env['RIPGREP_CONFIG_PATH']
    }
  })

  it('says what is missing where there is no ripgrep', async () => {
    const bench = await openWorkbench({ files: { f: 'x\n' }, search: { rgPath: '/no/such/rg' } })
    const result = await bench.call('grep', { pattern: 'x' })
    expect(result).toMatchObject({ isError: true, error: { code: 'SEARCH_UNAVAILABLE' } })
    expect(textOf(result)).toContain('until then search with bash')
  })

  it('ends at its time limit and with its call, leaving no process', async () => {
    const bench = await openWorkbench({
      files: { f: 'x\n', 'slow.sh': '#!/bin/sh\necho $$ > pid\nexec sleep 100\n' },
      search: { timeoutMs: 200 },
    })
    const slow = join(bench.dir, 'slow.sh')
    chmodSync(slow, 0o755)
    const limited = await openWorkbench({ files: { f: 'x\n' }, search: { timeoutMs: 200, rgPath: slow } })
    expect(await limited.ask('grep', { pattern: 'x' })).toMatch(
      /^No matches in what was searched\.\n\(incomplete: the search was ended after 200 ms/,
    )
    expect(() => process.kill(Number(limited.files.read('pid')), 0)).toThrow()
    const cancelled = await openWorkbench({ files: { f: 'x\n' }, search: { rgPath: slow } })
    const result = await cancelled.call('grep', { pattern: 'x' }, AbortSignal.timeout(200))
    expect(result.isError).toBe(true)
    expect(() => process.kill(Number(cancelled.files.read('pid')), 0)).toThrow()
  })
})

describe('glob', () => {
  it('finds names everywhere and paths where they are, sorted, as git sees the tree', async () => {
    const bench = await openWorkbench({ files: repository })
    const glob = (pattern: string, path?: string) => bench.ask('glob', { pattern, ...(path ? { path } : {}) })
    expect(await glob('*.ts')).toBe('src/a.ts\nsrc/deep/b.ts')
    expect(await glob('src/*.ts')).toBe('src/a.ts')
    expect(await glob('./src/**/*.{ts,md}')).toBe('src/a.ts\nsrc/deep/b.ts\nsrc/deep/c.md')
    expect(await glob('*.log')).toBe('nested/keep.log')
    expect(await glob('*.js')).toBe('No file matches *.js.')
    expect(await glob('**')).toBe(
      [
        '.env',
        '.github/w.yml',
        '.gitignore',
        'nested/.gitignore',
        'nested/keep.log',
        'src/a.ts',
        'src/deep/b.ts',
        'src/deep/c.md',
      ].join('\n'),
    )
    expect(await glob('*.ts', 'src/deep')).toBe('src/deep/b.ts')
    expect(await glob(`${bench.dir}/src/*.ts`)).toBe('src/a.ts')
    expect(await glob('src/deep/c.md')).toBe('src/deep/c.md')
    expect(await glob('none/*.ts')).toBe('No file matches none/*.ts.')
  })

  it('finds ignored files in a directory that is named', async () => {
    const bench = await openWorkbench({ files: repository })
    expect(await bench.ask('glob', { pattern: '*.js', path: 'build' })).toBe('build/out.js')
    expect(await bench.ask('glob', { pattern: 'node_modules/pkg/*.js' })).toBe('node_modules/pkg/index.js')
  })

  it('takes a pattern for nothing but a pattern', async () => {
    const bench = await openWorkbench({ files: { '-a.txt': '', 'b.txt': '', 'd/-abc': '' } })
    writeFileSync(join(bench.dir, '-a\nb'), '')
    expect(await bench.ask('glob', { pattern: '-a*' })).toBe(`"-a\\nb"\n-a.txt\nd/-abc`)
    mkdirSync(join(bench.dir, '-x'))
    writeFileSync(join(bench.dir, '-x/y'), '')
    expect(await bench.ask('glob', { pattern: '*', path: '-x' })).toBe('-x/y')
  })

  it('lists the first of too many, the same each time, and says how many there are', async () => {
    const files = Object.fromEntries(Array.from({ length: 60 }, (_, i) => [`f${String(i).padStart(2, '0')}`, '']))
    const bench = await openWorkbench({ files, search: { globFiles: 3 } })
    expect(await bench.ask('glob', { pattern: '*' })).toBe(
      'f00\nf01\nf02\n(the first 3 of 60 files; narrow the pattern or path for the others)',
    )
  })

  it('is not led in circles', async () => {
    const bench = await openWorkbench({ files: { 'a/f': '' } })
    symlinkSync('..', join(bench.dir, 'a/b'))
    symlinkSync('x', join(bench.dir, 'x'))
    symlinkSync('/', join(bench.dir, 'root'))
    expect(await bench.ask('glob', { pattern: '**' })).toBe('a/f')
  })

  it('refuses a path that is no directory', async () => {
    const bench = await openWorkbench({ files: { f: '' } })
    expect(await bench.ask('glob', { pattern: '*', path: 'f' })).toContain('f is not a directory')
    expect(await bench.ask('glob', { pattern: '*', path: 'g' })).toContain('g does not exist')
  })
})

it('what only looks may run beside others, what changes something may not', async () => {
  const bench = await openWorkbench()
  const facts = ['read', 'write', 'edit', 'glob', 'grep', 'bash'].map(name => {
    const tool = bench.ctx.tools.get(name, bench.agent)!
    const args = { file_path: 'f', content: '', old_string: 'a', new_string: 'b', pattern: 'x', command: 'x' }
    return [name, tool.readOnly === true, tool.isConcurrencySafe?.(args) === true]
  })
  expect(facts).toEqual([
    ['read', true, true],
    ['write', false, false],
    ['edit', false, false],
    ['glob', true, true],
    ['grep', true, true],
    ['bash', false, false],
  ])
})

it('the tools leave with their plugins', async () => {
  const bench = await openWorkbench()
  const names = () => bench.ctx.tools.schemas(bench.agent).map(tool => tool.name)
  expect(names()).toEqual(['bash', 'edit', 'glob', 'grep', 'read', 'write'])
  await bench.unload()
  expect(names()).toEqual([])
})
