import { mkdirSync, readFileSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { LineWindow } from '../src/line-window.ts'
import { openWorkbench, textOf } from './workbench.ts'

describe('read', () => {
  it('numbers lines, and says nothing more when that is all', async () => {
    const bench = await openWorkbench({ files: { f: 'one\n\n\tthree\r\n  four' } })
    const result = await bench.call('read', { file_path: 'f' })
    expect(textOf(result)).toBe('1→one\n2→\n3→\tthree\n4→  four')
    expect(result.value).toMatchObject({ lines: ['one', '', '\tthree', '  four'], total_lines: 4 })
  })

  it('shows a window and how to go on', async () => {
    const bench = await openWorkbench({ files: { f: 'a\nb\nc\nd\ne\n' } })
    expect(await bench.ask('read', { file_path: 'f', offset: 2, limit: 2 })).toBe(
      '2→b\n3→c\n(lines 2 to 3 of 5; go on with offset 4)',
    )
    expect(await bench.ask('read', { file_path: 'f', offset: 4 })).toBe('4→d\n5→e\n(end of file, 5 lines)')
    expect(await bench.ask('read', { file_path: 'f', offset: 6 })).toContain('f has 5 lines; there is no line 6')
  })

  it('keeps to its limits of lines and bytes', async () => {
    const bench = await openWorkbench({
      files: { f: `${'x'.repeat(99)}\n`.repeat(50), g: 'y\n'.repeat(100) },
      fs: { readBytes: 1_024, readLines: 20 },
    })
    const text = await bench.ask('read', { file_path: 'f' })
    expect(text).toContain('(the size limit was reached; lines 1 to 10 of 50; go on with offset 11)')
    expect(await bench.ask('read', { file_path: 'f', offset: 11 })).toMatch(/^11→x/)
    expect(await bench.ask('read', { file_path: 'g', limit: 1_000 })).toContain('lines 1 to 20 of 100')
  })

  it('cuts a long line and says how long it is', async () => {
    const bench = await openWorkbench({ files: { f: `short\n${'é'.repeat(5_000)}\nend\n` } })
    const text = await bench.ask('read', { file_path: 'f' })
    expect(text).toContain(`2→${'é'.repeat(2_000)}…\n3→end`)
    expect(text).toContain('(cut: line 2 of 10000 bytes; line 2 goes on with offset 2, skip_bytes 4000)')
  })

  it('shows a long line to its end, a page at a time, wherever a character lies', async () => {
    const long = 'aé台😀'.repeat(20_000)
    const bench = await openWorkbench({ files: { f: `short\n${long}\nend\n` } })
    let seen = ''
    let args: object = { file_path: 'f', offset: 2, limit: 1 }
    for (let page = 0; page < 20; page++) {
      const text = await bench.ask('read', args)
      seen += /^2→(.*?)…?$/m.exec(text)![1]
      const next = /skip_bytes (\d+)\)/.exec(text)?.[1]
      if (!next) break
      args = { file_path: 'f', offset: 2, skip_bytes: Number(next) }
    }
    expect(seen).toBe(long)
    expect(await bench.ask('read', { file_path: 'f', offset: 2, skip_bytes: 200_000 })).toContain('200000 bytes only')
  })

  it('says that a file is empty', async () => {
    const bench = await openWorkbench({ files: { f: '' } })
    expect(await bench.ask('read', { file_path: 'f' })).toBe('(the file is empty)')
  })

  it('refuses folders, binaries and what is not there, each with what to do', async () => {
    const bench = await openWorkbench({
      files: { 'a.bin': Buffer.from([1, 2, 0, 3]), 'u.txt': Buffer.from('\ufeffhi', 'utf16le'), 'notes.md': '' },
    })
    mkdirSync(join(bench.dir, 'd'))
    expect(await bench.ask('read', { file_path: 'd' })).toMatch(/d is a directory\nlist a directory/)
    expect(await bench.ask('read', { file_path: 'a.bin' })).toContain('a.bin is a binary file of 4 bytes')
    expect(await bench.ask('read', { file_path: 'u.txt' })).toContain('UTF-16')
    expect(await bench.ask('read', { file_path: 'note.md' })).toContain('did you mean notes.md?')
    expect(await bench.ask('read', { file_path: 'no/note.md' })).toContain('nor does its directory')
    expect(await bench.ask('read', { file_path: '/dev/zero' })).toContain('is a device')
  })

  it('shows other encodings with a warning', async () => {
    const bench = await openWorkbench({ files: { f: Buffer.from('caf\xe9\n', 'latin1') } })
    expect(await bench.ask('read', { file_path: 'f' })).toMatch(
      /^1→caf\ufffd\n\(some bytes here may not be valid UTF-8/,
    )
  })

  it('a window holds what splitting the whole text would give, wherever its bytes are cut', () => {
    const unit = fc.constantFrom('a', 'é', '台', '😀', '\n', '\r\n', '\t')
    fc.assert(
      fc.property(fc.string({ unit, maxLength: 80 }), fc.integer({ min: 1, max: 9 }), fc.nat(6), (text, size, skip) => {
        const window = new LineWindow({ offset: skip + 1, maxLines: 5, maxLineChars: 8, maxBytes: 10_000 })
        const bytes = Buffer.from(text)
        for (let at = 0; at < bytes.length; at += size) window.push(bytes.subarray(at, at + size))
        window.end()
        const lines = text.split('\n').map(line => line.replace(/\r$/, ''))
        if (text.endsWith('\n') || !text) lines.pop()
        expect(window.total).toBe(lines.length)
        const expected = lines.slice(skip, skip + 5)
        expect(window.lines.length).toBe(expected.length)
        window.lines.forEach((line, i) => {
          expect(line.text).not.toContain('\ufffd')
          if (line.cutFromBytes === undefined) expect(line.text).toBe(expected[i])
          else {
            expect(expected[i]!.startsWith(line.text)).toBe(true)
            expect(line.text.length).toBeGreaterThanOrEqual(7)
          }
          expect(line.text.length).toBeLessThanOrEqual(8)
        })
      }),
    )
  })
})

describe('write', () => {
  it('makes a file with its folders', async () => {
    const bench = await openWorkbench()
    const result = await bench.call('write', { file_path: 'a/b/c.txt', content: 'one\ntwo' })
    expect(textOf(result)).toBe('Created a/b/c.txt with 2 lines.')
    expect(bench.files.read('a/b/c.txt')).toBe('one\ntwo')
    expect(result.meta).toMatchObject({ kind: 'write', created: true })
  })

  it('replaces one, unread too, and shows what changed', async () => {
    const bench = await openWorkbench({ files: { f: 'a\nb\nc\n' } })
    const result = await bench.call('write', { file_path: 'f', content: 'a\nB\nc\n' })
    expect(textOf(result)).toBe('Replaced f, now 3 lines.\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c')
    expect(result.meta).toMatchObject({ kind: 'diff', created: false, added: 1, removed: 1 })
    expect(await bench.ask('write', { file_path: 'f', content: 'a\nB\nc\n' })).toContain(
      'It had the same content before.',
    )
  })

  it('goes through a link and keeps it', async () => {
    const bench = await openWorkbench({ files: { f: 'old' } })
    symlinkSync('f', join(bench.dir, 'l'))
    await bench.call('write', { file_path: 'l', content: 'new' })
    expect(readFileSync(join(bench.dir, 'f'), 'utf8')).toBe('new')
  })

  it('replaces a binary without a word about the difference, and refuses a folder', async () => {
    const bench = await openWorkbench({ files: { b: Buffer.from([0, 1, 2]) } })
    expect(await bench.ask('write', { file_path: 'b', content: 'text\n' })).toBe('Replaced b, now 1 line.')
    expect(await bench.ask('write', { file_path: 'b/c.txt', content: 'x' })).toContain('not a directory')
    const result = await bench.call('write', { file_path: '.', content: 'x' })
    expect(result.isError).toBe(true)
    expect(textOf(result)).toContain('is a directory')
  })

  it('takes CRLF and a byte order mark as they are given', async () => {
    const bench = await openWorkbench({ files: { f: 'a\nb\n' } })
    await bench.call('write', { file_path: 'f', content: '\ufeffa\r\nb\r\n' })
    expect(bench.files.read('f')).toBe('\ufeffa\r\nb\r\n')
  })
})
