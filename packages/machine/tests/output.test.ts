import { readFileSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import { type OutputGap, outputText } from '@cambium/machine'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { OutputCapture } from '../src/capture.ts'
import { openMachine } from './machine.ts'

const gaps = (output: readonly object[]) => output.filter((part): part is OutputGap => 'omittedBytes' in part)

describe('output of a command', () => {
  it.each([
    ['alone', `printf '\\xe2\\x94'; sleep 0.05; printf '\\x9c\\n'`],
    ['with the other stream between', `printf '\\xe2\\x94'; echo err >&2; sleep 0.05; printf '\\x9c\\n'`],
  ])('a character that arrives in two halves is whole, %s', async (_, command) => {
    const { ctx, dir } = await openMachine()
    const heard = { stdout: '', stderr: '' }
    const result = await ctx.process.run({
      command,
      cwd: dir,
      onOutput(text, stream) {
        heard[stream] += text
      },
    })
    expect(outputText(result, 'stdout')).toBe('├\n')
    expect(heard.stdout).toBe('├\n')
  })

  it('half a character at the end is shown as such, not lost', async () => {
    const { ctx, dir } = await openMachine()
    let heard = ''
    const result = await ctx.process.run({
      command: `printf 'a\\xe2\\x94'`,
      cwd: dir,
      onOutput(text) {
        heard += text
      },
    })
    expect(outputText(result)).toBe('a\ufffd')
    expect(heard).toBe('a\ufffd')
  })

  it('both streams come in order of arrival', async () => {
    const { ctx, dir } = await openMachine()
    const command = 'for i in 1 2 3; do echo out$i; sleep 0.02; echo err$i >&2; sleep 0.02; done'
    const result = await ctx.process.run({ command, cwd: dir })
    expect(outputText(result)).toBe('out1\nerr1\nout2\nerr2\nout3\nerr3\n')
  })

  it('a long one keeps its beginning and end, counts what it left out, and a file has all of it', async () => {
    const { ctx, dir } = await openMachine()
    const result = await ctx.process.run({
      command: 'seq 1 100000; echo FINAL-ERROR >&2; exit 7',
      cwd: dir,
      maxBytes: 8_000,
      spill: true,
    })
    expect(result.exitCode).toBe(7)
    const text = outputText(result, 'stdout')
    expect(text).toMatch(/^1\n2\n/)
    expect(text).toMatch(/\n100000\n$/)
    expect(outputText(result, 'stderr')).toBe('FINAL-ERROR\n')
    const [gap] = gaps(result.output)
    expect(gap!.omittedLines + text.split('\n').length - 1).toBe(100_000)
    expect(result.totalBytes - result.droppedBytes).toBeLessThanOrEqual(8_000)
    expect(result.spill!.complete).toBe(true)
    const full = readFileSync(result.spill!.path, 'utf8')
    expect(full.replace('FINAL-ERROR\n', '')).toBe(Array.from({ length: 100_000 }, (_, i) => `${i + 1}\n`).join(''))
    expect(statSync(dirname(result.spill!.path)).mode & 0o777).toBe(0o700)
    expect(statSync(result.spill!.path).mode & 0o777).toBe(0o600)
  })

  it('a long one is kept in a folder of the caller, who alone removes it', async () => {
    const { ctx, dir } = await openMachine({ maxSpillTotalBytes: 1 })
    const folder = `${dir}/of/the caller`
    const request = { command: 'seq 1 5000', cwd: dir, maxBytes: 1_024, spill: { folder } }
    const first = await ctx.process.run(request)
    const second = await ctx.process.run(request)
    for (const { spill } of [first, second]) {
      expect(dirname(spill!.path)).toBe(folder)
      expect(readFileSync(spill!.path, 'utf8')).toMatch(/^1\n2\n[\s\S]*\n5000\n$/)
      expect(statSync(spill!.path).mode & 0o777).toBe(0o600)
    }
    await ctx.fiber.dispose()
    expect(statSync(first.spill!.path).size).toBeGreaterThan(20_000)
  })

  it('a short one has no file', async () => {
    const { ctx, dir } = await openMachine()
    expect(await ctx.process.run({ command: 'echo hi', cwd: dir, spill: true })).not.toHaveProperty('spill')
  })

  it('huge output, one line without an end too, costs bounded memory and disk', async () => {
    const { ctx, dir } = await openMachine({ maxSpillBytes: 1_000_000 })
    const before = process.memoryUsage.rss()
    let peak = 0
    const result = await ctx.process.run({
      command: `head -c 150000000 /dev/zero | tr '\\0' a; exit 4`,
      cwd: dir,
      spill: true,
      onOutput() {
        peak = Math.max(peak, process.memoryUsage.rss())
      },
    })
    expect(result).toMatchObject({ exitCode: 4, totalBytes: 150_000_000 })
    expect(outputText(result)).toMatch(/^a+$/)
    expect(outputText(result).length).toBeLessThanOrEqual(64_000)
    expect(result.spill!.complete).toBe(false)
    expect(statSync(result.spill!.path).size).toBe(1_000_000)
    expect(peak - before).toBeLessThan(100_000_000)
  })

  it('files of old output make room for new ones', async () => {
    const { ctx, dir } = await openMachine({ maxSpillTotalBytes: 250_000 })
    const paths: string[] = []
    for (let i = 0; i < 3; i++) {
      const result = await ctx.process.run({
        command: 'head -c 100000 /dev/zero',
        cwd: dir,
        maxBytes: 1024,
        spill: true,
      })
      paths.push(result.spill!.path)
    }
    expect(() => statSync(paths[0]!)).toThrow()
    expect(statSync(paths[1]!).size).toBe(100_000)
    expect(statSync(paths[2]!).size).toBe(100_000)
  })
})

describe('the capture', () => {
  const chunks = fc.array(
    fc.record({
      stream: fc.constantFrom('stdout' as const, 'stderr' as const),
      text: fc.string({ unit: fc.constantFrom('a', '\n', 'é', '台', '😀'), minLength: 1, maxLength: 60 }),
    }),
    { maxLength: 40 },
  )

  it('keeps everything in order while it fits, wherever the bytes are split', () => {
    fc.assert(
      fc.property(chunks, fc.integer({ min: 1, max: 7 }), (parts, size) => {
        const capture = new OutputCapture(1_000_000)
        for (const { stream, text } of parts) {
          const bytes = Buffer.from(text)
          for (let at = 0; at < bytes.length; at += size) capture.push(stream, bytes.subarray(at, at + size))
        }
        const { output, droppedBytes } = capture.finish()
        expect(droppedBytes).toBe(0)
        expect(outputText({ output })).toBe(parts.map(part => part.text).join(''))
      }),
    )
  })

  it('never exceeds its bound, never breaks a character, and accounts for every byte and line', () => {
    fc.assert(
      fc.property(chunks, fc.integer({ min: 16, max: 200 }), (parts, maxBytes) => {
        const capture = new OutputCapture(maxBytes)
        for (const { stream, text } of parts) capture.push(stream, Buffer.from(text))
        const { output, droppedBytes } = capture.finish()
        const shown = outputText({ output })
        const all = parts.map(part => part.text).join('')
        expect(shown).not.toContain('\ufffd')
        const lost = Buffer.byteLength(all) - Buffer.byteLength(shown)
        expect(gaps(output).reduce((sum, gap) => sum + gap.omittedBytes, 0)).toBe(droppedBytes)
        // Half a character at a gap is neither shown nor counted as left out.
        expect(lost - droppedBytes).toBeGreaterThanOrEqual(0)
        expect(lost - droppedBytes).toBeLessThanOrEqual(6)
        expect(Buffer.byteLength(shown)).toBeLessThanOrEqual(maxBytes)
        const lines = (text: string) => text.split('\n').length - 1
        expect(lines(shown) + gaps(output).reduce((sum, gap) => sum + gap.omittedLines, 0)).toBe(lines(all))
        for (const stream of ['stdout', 'stderr'] as const) {
          const whole = parts.flatMap(part => (part.stream === stream ? [part.text] : [])).join('')
          const [head = '', tail = ''] = splitAtGap(output, stream)
          expect(whole.startsWith(head)).toBe(true)
          expect(whole.endsWith(tail)).toBe(true)
        }
      }),
    )
  })

  function splitAtGap(output: ReturnType<OutputCapture['finish']>['output'], stream: 'stdout' | 'stderr'): string[] {
    const texts = ['']
    for (const part of output) {
      if (part.stream !== stream) continue
      if ('text' in part) texts[texts.length - 1] += part.text
      else texts.push('')
    }
    return texts
  }
})
