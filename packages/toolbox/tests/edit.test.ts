import { chmodSync, lstatSync, statSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { replaceText } from '../src/replace.ts'
import { openWorkbench, textOf } from './workbench.ts'

const edit = (file_path: string, old_string: string, new_string: string, replace_all?: boolean) =>
  ['edit', { file_path, old_string, new_string, ...(replace_all === undefined ? {} : { replace_all }) }] as [
    string,
    object,
  ]

describe('the new text is taken literally', () => {
  const wild = "$$ $& $` $' $1 $" + '{x}'

  it.each([
    ['once', 'A\nB\ntarget\nZ\n', false, `A\nB\n${wild}\nZ\n`],
    ['everywhere', 'target\ntarget\n', true, `${wild}\n${wild}\n`],
    ['with CRLF', 'A\r\nB\r\ntarget\r\nZ\r\n', false, `A\r\nB\r\n${wild}\r\nZ\r\n`],
  ])('%s', async (_, before, all, after) => {
    const bench = await openWorkbench({ files: { f: before } })
    const result = await bench.call(...edit('f', 'target', wild, all))
    expect(result.isError).toBe(false)
    expect(bench.files.read('f')).toBe(after)
  })
})

describe('line endings', () => {
  it.each([
    ['LF in the call', 'a\nb', 'x\ny\nz'],
    ['CRLF in the call', 'a\r\nb', 'x\r\ny\r\nz'],
  ])('match in both spellings and are kept: %s', async (_, old, now) => {
    const bench = await openWorkbench({ files: { f: 'a\r\nb\r\nc\r\n' } })
    await bench.call(...edit('f', old, now))
    expect(bench.files.read('f')).toBe('x\r\ny\r\nz\r\nc\r\n')
  })

  it('of lines that were not touched stay as they are in a mixed file', async () => {
    const bench = await openWorkbench({ files: { f: 'a\r\nb\nc\r\n', g: 'a\r\nb\nc\r\nd\n' } })
    await bench.call(...edit('f', 'c', 'C'))
    expect(bench.files.read('f')).toBe('a\r\nb\nC\r\n')
    await bench.call(...edit('g', 'a\nb\nc\nd', 'a\nb\nnew\nc\nd'))
    expect(bench.files.read('g')).toMatch(/^a\r\nb\nnew\r?\nc\r\nd\n$/)
  })

  it('of new lines in a file are those of the line they come to', async () => {
    const bench = await openWorkbench({ files: { f: 'a\r\nb\r\n' } })
    await bench.call(...edit('f', 'b', 'b\nc'))
    expect(bench.files.read('f')).toBe('a\r\nb\r\nc\r\n')
  })

  it('can be changed when that is all that is asked', async () => {
    const bench = await openWorkbench({ files: { f: 'a\r\nb\r\n' } })
    await bench.call(...edit('f', 'a\r\nb\r\n', 'a\nb\n'))
    expect(bench.files.read('f')).toBe('a\nb\n')
  })

  it('no byte outside the replaced span ever changes', () => {
    const eol = fc.constantFrom('\n', '\r\n')
    const word = fc.string({ unit: fc.constantFrom('a', 'b', 'é', '\t', ' '), maxLength: 4 })
    const block = fc.array(fc.tuple(word, eol), { maxLength: 6 }).map(lines => lines.map(([w, e]) => w + e).join(''))
    fc.assert(
      fc.property(block, block, block, (before, after, replacement) => {
        const original = `${before}<<x\r\ny>>${after}`
        const outcome = replaceText(original, '<<x\ny>>', `{${replacement}}`, false)
        expect(outcome.kind).toBe('replaced')
        const { text } = outcome as { text: string }
        expect(text.startsWith(`${before}{`)).toBe(true)
        expect(text.endsWith(`}${after}`)).toBe(true)
        const middle = text.slice(before.length, text.length - after.length)
        expect(middle.replaceAll('\r\n', '\n')).toBe(`{${replacement}}`.replaceAll('\r\n', '\n'))
      }),
    )
  })
})

describe('bytes that a reader does not see', () => {
  it('a byte order mark stays, once, and the first line matches', async () => {
    const bench = await openWorkbench({ files: { f: '\ufeffimport a\r\nx=1\r\n' } })
    expect(await bench.ask('read', { file_path: 'f' })).toBe('1→import a\n2→x=1')
    await bench.call(...edit('f', 'import a', 'import b'))
    expect(bench.files.read('f')).toBe('\ufeffimport b\r\nx=1\r\n')
    await bench.call(...edit('f', 'import b\nx=1', 'import c\nx=2'))
    expect(bench.files.read('f')).toBe('\ufeffimport c\r\nx=2\r\n')
    const written = await bench.ask('write', { file_path: 'f', content: 'import d\nx=3\n' })
    expect(bench.files.read('f')).toBe('\ufeffimport d\r\nx=3\r\n')
    expect(written).toContain('CRLF line endings were kept')
  })

  it.each([
    ['Latin-1', Buffer.from('const x = 1;\n// caf\xe9 note\n', 'latin1')],
    ['GBK', Buffer.from([0x78, 0x20, 0x3d, 0x20, 0x31, 0x0a, 0xd6, 0xd0, 0xce, 0xc4])],
  ])('a file that is no UTF-8 (%s) is refused and untouched', async (_, bytes) => {
    const bench = await openWorkbench({ files: { f: bytes } })
    const result = await bench.call(...edit('f', 'x = 1', 'x = 2'))
    expect(result).toMatchObject({ isError: true, error: { code: 'EDIT_NOT_TEXT' } })
    expect(textOf(result)).toContain('not valid UTF-8')
    expect(bench.files.bytes('f')).toEqual(Buffer.from(bytes))
  })

  it('a genuine replacement character is a character', async () => {
    const bench = await openWorkbench({ files: { f: 'x = 1 \ufffd\n' } })
    await bench.call(...edit('f', '1 \ufffd', '2 \ufffd'))
    expect(bench.files.read('f')).toBe('x = 2 \ufffd\n')
  })

  it('tabs come from read to edit as they are', async () => {
    const bench = await openWorkbench({ files: { Makefile: 'all:\n\tgcc\ta.c\n' } })
    const shown = await bench.ask('read', { file_path: 'Makefile' })
    const line = shown.split('\n')[1]!.replace(/^2→/, '')
    await bench.call(...edit('Makefile', line, line.replace('a.c', 'b.c')))
    expect(bench.files.read('Makefile')).toBe('all:\n\tgcc\tb.c\n')
  })
})

describe('what does not match exactly is refused with a reason', () => {
  const refused = async (content: string, old: string) => {
    const bench = await openWorkbench({ files: { f: content } })
    const result = await bench.call(...edit('f', old, 'new'))
    expect(result.isError).toBe(true)
    expect(bench.files.read('f')).toBe(content)
    return textOf(result)
  }

  it('look-alike quotation marks, dashes and blanks', async () => {
    const file = 'const name = "Alice";\n// \u201cq\u201d \u2014 \u00a0x \uff21   \nend\n'
    const text = await refused(file, 'const name = \u201cAlice\u201d;')
    expect(text).toContain('line 1 differs from it in quotation marks, dashes or other look-alike characters only')
    expect(text).toContain('const name = "Alice";')
    expect(await refused(file, '// "q" - x A\nend')).toContain('line 2 differs from it in quotation marks')
  })

  it('blanks at line ends, and indentation', async () => {
    expect(await refused('a b   \nend\n', 'a b\nend')).toContain('line 1 differs from it in blanks at the end of lines')
    expect(await refused('if (x) {\n\tdo()\n}\n', 'if (x) {\n    do()\n}')).toContain(
      'blanks, tabs or indentation only',
    )
  })

  it('line numbers copied from read', async () => {
    const text = await refused('a\nb\nc\n', '2→b\n3→c')
    expect(text).toContain('has the line numbers of the read tool in it; without them it matches at line 2')
  })

  it('a typing error', async () => {
    expect(await refused('one\nfunction compute(a, b) {\n', 'function comptue(a, b) {')).toContain(
      'The nearest line is 2:\nfunction compute(a, b) {',
    )
    expect(await refused('one\n', 'quite another thing')).toContain('Nothing in the file is similar')
  })

  it('several matches, listed by line, overlapping ones too', async () => {
    expect(await refused('x aaa\nno\naaaa\n', 'aaa')).toContain('is in f 3 times, at lines 1 and 3')
    expect(await refused('dup\nx\ndup\ny\ndup\n', 'dup')).toContain('3 times, at lines 1, 3 and 5')
  })

  it('no difference at all', async () => {
    expect(await refused('new', 'new')).toContain('are the same')
  })

  it('everywhere goes from left to right', async () => {
    const bench = await openWorkbench({ files: { f: 'aaaa b aaa' } })
    await bench.call(...edit('f', 'aaa', 'X', true))
    expect(bench.files.read('f')).toBe('Xa b X')
  })

  it('a file that is not there, with the name that was meant', async () => {
    const bench = await openWorkbench({ files: { 'src/index.ts': '' } })
    expect(await bench.ask(...edit('src/indx.ts', 'a', 'b'))).toContain('did you mean src/index.ts?')
    expect(await bench.ask(...edit('src', 'a', 'b'))).toContain('is a directory')
  })
})

describe('a file is one file', () => {
  it('all edits of one answer land, however the path is spelt', async () => {
    const numbers = Array.from({ length: 100 }, (_, i) => `${i + 1}`)
    const bench = await openWorkbench({ files: { f: `${numbers.join('\n')}\n` } })
    symlinkSync('f', join(bench.dir, 'link'))
    const places = [50, 75, 10, 99, 33, 66]
    const spellings = ['f', './f', 'link', join(bench.dir, 'f'), `../${bench.dir.split('/').at(-1)}/f`, 'f']
    const calls = places.map((n, i) => edit(spellings[i]!, `\n${n}\n`, `\nEDITED-${n}\n`))
    const results = await bench.turn(...calls)
    expect(results.map(result => result.isError)).toEqual(places.map(() => false))
    // The scheduler may run them one by one; called at once they land as well.
    const more = await Promise.all(
      [20, 40, 60, 80].map(n => bench.call(...edit('link', `\n${n}\n`, `\nEDITED-${n}\n`))),
    )
    expect(more.map(result => result.isError)).toEqual([false, false, false, false])
    const expected = numbers.map(n => ([...places, 20, 40, 60, 80].includes(Number(n)) ? `EDITED-${n}` : n))
    expect(bench.files.read('f')).toBe(`${expected.join('\n')}\n`)
    expect(lstatSync(join(bench.dir, 'link')).isSymbolicLink()).toBe(true)
  })

  it('its mode stays; a new one obeys the umask', async () => {
    const bench = await openWorkbench({ files: { 'run.sh': 'echo a\n', 'a.txt': 'old' } })
    const mode = (file: string) => statSync(join(bench.dir, file)).mode & 0o777
    chmodSync(join(bench.dir, 'run.sh'), 0o755)
    chmodSync(join(bench.dir, 'a.txt'), 0o664)
    const umask = process.umask(0o002)
    try {
      await bench.call(...edit('run.sh', 'a', 'b'))
      await bench.call('write', { file_path: 'a.txt', content: 'new' })
      await bench.call('write', { file_path: 'deep/down/new.txt', content: 'new' })
    } finally {
      process.umask(umask)
    }
    expect([mode('run.sh'), mode('a.txt'), mode('deep/down/new.txt')]).toEqual([0o755, 0o664, 0o664])
  })

  it('edits see what others wrote in between, and no change of the clock disturbs them', async () => {
    const bench = await openWorkbench({ files: { f: 'a\r\nb\r\nc\r\n' } })
    await bench.ask('read', { file_path: 'f' })
    await bench.ask('bash', { command: 'touch f' })
    expect((await bench.call(...edit('f', 'a', 'A'))).isError).toBe(false)
    await bench.ask('bash', { command: "sed -i 's/b/BB/' f" })
    expect((await bench.call(...edit('f', 'c', 'C'))).isError).toBe(false)
    expect(bench.files.read('f')).toBe('A\r\nBB\r\nC\r\n')
  })
})

describe('what an edit reports', () => {
  it('a short difference for the model, the whole in structure for viewers', async () => {
    const lines = Array.from({ length: 30 }, (_, i) => `line ${i + 1}`)
    const bench = await openWorkbench({ files: { f: `${lines.join('\n')}\n` } })
    const result = await bench.call(...edit('f', 'line 15\n', 'line fifteen\nand more\n'))
    expect(textOf(result)).toBe(
      [
        'Edited f: 1 place, at line 15.',
        '@@ -12,7 +12,8 @@',
        ' line 12',
        ' line 13',
        ' line 14',
        '-line 15',
        '+line fifteen',
        '+and more',
        ' line 16',
        ' line 17',
        ' line 18',
      ].join('\n'),
    )
    expect(result.meta).toMatchObject({
      kind: 'diff',
      path: join(bench.dir, 'f'),
      added: 2,
      removed: 1,
      hunks: [{ oldStart: 12, oldLines: 7, newStart: 12, newLines: 8 }],
    })
  })

  it('a difference too long to read is cut', async () => {
    const bench = await openWorkbench({ files: { f: 'x\n'.repeat(200) } })
    const text = await bench.ask(...edit('f', 'x', 'y', true))
    expect(text).toContain('200 places')
    expect(text).toMatch(/more lines of the diff left out/)
    expect(text.split('\n').length).toBeLessThan(50)
  })
})
