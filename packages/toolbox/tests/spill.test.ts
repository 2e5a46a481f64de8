import { existsSync, readdirSync, readFileSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { keepSecrets } from '@cambium/core'
import * as jsonl from '@cambium/session/jsonl'
import * as redact from '@cambium/toolbox/redact'
import * as spill from '@cambium/toolbox/spill'
import { type ToolResult, toolResult } from '@cambium/tools'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { openWorkbench, textOf, type Workbench, type WorkbenchOptions } from './workbench.ts'

const CANARY = 'sk-canary-4f9a81c2d7e05b36'
const IMAGE = {
  type: 'image',
  mediaType: 'image/png',
  data: 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==',
} as const
const numbers = (count: number) => Array.from({ length: count }, (_, i) => `line ${i + 1}\n`).join('')
const tool = (name: string, execute: (args: never) => unknown, more: object = {}) =>
  ({ name, description: name, parameters: { type: 'object' }, execute, ...more }) as never

async function open(config: Partial<spill.Config> = {}, options: WorkbenchOptions = {}): Promise<Workbench> {
  const bench = await openWorkbench(options)
  await bench.ctx.plugin(redact)
  await bench.ctx.plugin(spill, { maxBytes: 8_192, ...config } as spill.Config)
  return bench
}

const NOTICE = /\[… (\d+) bytes? of (\d+) bytes \((\d+) lines?\) left out here; all of it is in (\S+?)(: .*)? …\]/
const spilled = (result: ToolResult) => {
  const text = textOf(result)
  const [notice, omitted, bytes, lines, path] = NOTICE.exec(text) ?? []
  expect(notice, text.slice(0, 300)).toBeDefined()
  return { text, notice: notice!, omitted: Number(omitted), bytes: Number(bytes), lines: Number(lines), path: path! }
}

describe('a result over its budget', () => {
  it('is shown as its beginning, its end and the place of the rest, which lies private with the session', async () => {
    const bench = await open()
    const full = numbers(5_000)
    bench.ctx.tools.register(tool('long', () => full))
    const { text, bytes, lines, path, notice } = spilled(await bench.call('long', {}))
    expect(Buffer.byteLength(text)).toBeLessThanOrEqual(8_192)
    expect(text.length).toBeGreaterThan(7_500)
    expect(text).toMatch(/^line 1\nline 2\n/)
    expect(text).toMatch(/\nline 4999\nline 5000\n$/)
    expect({ bytes, lines }).toEqual({ bytes: full.length, lines: 5_000 })
    expect(readFileSync(path, 'utf8')).toBe(full)
    expect(dirname(path)).toBe(join(bench.ctx.sessions.folder(bench.agent.session), 'spill'))
    expect(statSync(path).mode & 0o777).toBe(0o600)
    expect(statSync(dirname(path)).mode & 0o777).toBe(0o700)
    // It names the line to go on with, and the tools that can.
    const [before] = text.split(notice)
    expect(notice).toContain(`: read it with offset ${before!.split('\n').length}, or grep in it`)
  })

  it('can be read on by the model page by page, one endless line as well', async () => {
    const bench = await open()
    const wide = JSON.stringify(Array.from({ length: 9_000 }, (_, i) => `née-${i}`))
    bench.ctx.tools.register(tool('wide', () => wide))
    const { path } = spilled(await bench.call('wide', {}))
    let seen = ''
    for (let args: object | undefined = { file_path: path }; args; ) {
      const text = await bench.ask('read', args)
      seen += /^1→(.*?)…?$/m.exec(text)![1]
      const next = /offset (\d+), skip_bytes (\d+)/.exec(text)
      args = next ? { file_path: path, offset: Number(next[1]), skip_bytes: Number(next[2]) } : undefined
    }
    expect(seen).toBe(wide)
    const hit = await bench.ask('grep', { pattern: 'née-8999', path })
    expect(hit).toContain('née-8999')
  })

  it('fits its budget with all that is said, on whole characters, whatever it is made of', async () => {
    const bench = await open({ headShare: 0.3 })
    let content: unknown[] = []
    bench.ctx.tools.register(tool('any', () => toolResult({ content: content as never })))
    const unit = fc.constantFrom('a', 'é', '台', '😀', '\n', 'words and words ', '\u0007')
    const text = fc.tuple(fc.string({ unit, maxLength: 60 }), fc.nat(900)).map(([part, times]) => part.repeat(times))
    await fc.assert(
      fc.asyncProperty(fc.array(text, { minLength: 1, maxLength: 4 }), async texts => {
        content = texts.flatMap(item => [{ type: 'text', text: item }, IMAGE])
        const result = await bench.call('any', {})
        const shown = textOf(result)
        expect(Buffer.byteLength(shown)).toBeLessThanOrEqual(8_192)
        expect(shown).not.toContain('\ufffd')
        expect(result.content.filter(({ type }) => type === 'image')).toHaveLength(texts.length)
        const found = NOTICE.exec(shown)
        if (!found || texts.length > 1) return
        const full = readFileSync(found[4]!, 'utf8')
        const [head = '', tail = ''] = shown.split(found[0])
        expect(full.startsWith(head.replace(/\n$/, ''))).toBe(true)
        expect(full.endsWith(tail.replace(/^\n/, ''))).toBe(true)
        const left = Buffer.byteLength(full) - Number(found[1])
        expect(Math.abs(Buffer.byteLength(head + tail) - left)).toBeLessThanOrEqual(2)
      }),
      { numRuns: 40 },
    )
  }, 20_000)

  it.each([0, 1, 2, 3, 4, 5])('of one endless line is cut between characters, %i bytes on', async shift => {
    const bench = await open()
    const line = 'x'.repeat(shift) + '台é😀'.repeat(4_000)
    bench.ctx.tools.register(tool('line', () => line))
    const { text, notice } = spilled(await bench.call('line', {}))
    const [head = '', tail = ''] = text.split(notice).map(part => part.trim())
    expect(line.startsWith(head) && line.endsWith(tail), text).toBe(true)
    expect(Math.min(head.length, tail.length)).toBeGreaterThan(1_000)
  })

  it('keeps its pictures where they stand', async () => {
    const bench = await open()
    const text = (value: string) => ({ type: 'text', text: value })
    const content = [text(numbers(2_000)), IMAGE, text('middle'), IMAGE, text(numbers(2_000))]
    bench.ctx.tools.register(tool('mixed', () => toolResult({ content: content as never })))
    const result = await bench.call('mixed', {})
    expect(result.content.map(({ type }) => type)).toEqual(['text', 'image', 'image', 'text'])
    const { path } = spilled(result)
    expect(readFileSync(path, 'utf8')).toBe(`${numbers(2_000)}\nmiddle\n${numbers(2_000)}`)
  })

  it('of a failure is cut too, in its error as well; a short one is the very same', async () => {
    const bench = await open()
    bench.ctx.tools.register(tool('fails', () => toolResult({ content: numbers(5_000), isError: true })))
    bench.ctx.tools.register(tool('short', () => 'fine'))
    const result = await bench.call('fails', {})
    expect(result).toMatchObject({ isError: true, error: { code: 'TOOL_FAILED' } })
    expect(readFileSync(spilled(result).path, 'utf8')).toContain('line 5000')
    expect(result.error!.message.length).toBeLessThan(8_192)
    expect(await bench.call('short', {})).toMatchObject({ content: [{ type: 'text', text: 'fine' }] })
    expect(readdirSync(dirname(spilled(result).path))).toHaveLength(1)
  })

  it('that another listener has put there, or blocked with, is cut like one of a tool', async () => {
    const bench = await open()
    bench.ctx.tools.register(tool('plain', () => 'x'))
    for (const decision of [
      { kind: 'accept', content: [{ type: 'text', text: numbers(5_000) }] },
      { kind: 'accept', value: numbers(5_000) },
      { kind: 'block', feedback: numbers(5_000) },
    ] as const) {
      const off = bench.ctx.on('tools/post-execute', async () => decision)
      const result = await bench.call('plain', {})
      off()
      expect(readFileSync(spilled(result).path, 'utf8')).toBe(numbers(5_000))
      expect(result.isError).toBe(decision.kind === 'block')
    }
  })

  it('leaves nothing large in the log, and the value whole for who called', async () => {
    const bench = await open()
    const list = Array.from({ length: 3_000 }, (_, i) => `item ${i}`)
    const meta = { kind: 'list', count: 3_000, list }
    bench.ctx.tools.register(tool('list', () => toolResult({ value: list, meta })))
    const result = await bench.call('list', {})
    expect(result.value).toEqual(list)
    expect(result.meta).toEqual({ kind: 'list', count: 3_000, spill: spilled(result).path, omitted: ['list'] })
    expect(JSON.stringify(bench.agent.session.last('tool/result')).length).toBeLessThan(12_000)
  })

  it('without an agent, of a call inside another one, and of read itself stays as it is', async () => {
    const bench = await open({}, { files: { 'long.txt': numbers(1_900) } })
    bench.ctx.tools.register(tool('long', () => numbers(5_000)))
    expect(textOf(await bench.ctx.tools.execute({ name: 'long', arguments: '{}' }))).toBe(numbers(5_000))
    const outer = { name: 'outer', agent: bench.agent, signal: new AbortController().signal } as never
    expect(textOf(await bench.ctx.tools.execute({ name: 'long', arguments: '{}' }, { parent: outer }))).toBe(
      numbers(5_000),
    )
    expect(await bench.ask('read', { file_path: 'long.txt' })).toContain('1900→line 1900')
    expect(existsSync(join(bench.ctx.sessions.folder(bench.agent.session), 'spill'))).toBe(false)
  })

  it('that cannot be stored shows what fits, says that the rest is lost, and is no failure', async () => {
    const bench = await open()
    bench.ctx.tools.register(tool('long', () => numbers(5_000)))
    const folder = bench.ctx.sessions.folder(bench.agent.session)
    rmSync(folder, { recursive: true })
    writeFileSync(folder, 'in the way')
    const result = await bench.call('long', {})
    expect(result.isError).toBe(false)
    const text = textOf(result)
    expect(text).toMatch(/left out here; the rest is lost: it could not be stored: /)
    expect(text).toMatch(/^line 1\n[\s\S]*line 5000\n$/)
    expect(Buffer.byteLength(text)).toBeLessThanOrEqual(8_192)
  })
})

describe('what is kept', () => {
  it('holds no key, and neither does what is shown of it', async () => {
    const bench = await open()
    keepSecrets(bench.ctx, () => [CANARY])
    const noise = numbers(300)
    bench.ctx.tools.register(tool('env', () => `${noise}KEY=${CANARY}\n`.repeat(20)))
    const result = await bench.call('env', {})
    expect(JSON.stringify(result)).not.toContain(CANARY)
    const { path } = spilled(result)
    const full = readFileSync(path, 'utf8')
    expect(full).not.toContain(CANARY)
    expect(full.match(/KEY=\[redacted\]/g)).toHaveLength(20)
  })

  it('of a command lies there too, without keys however they were printed, and outlives the process service', async () => {
    const bench = await open({}, { bash: { maxOutputBytes: 4_000 } })
    keepSecrets(bench.ctx, () => [CANARY])
    const halves = `printf %s ${CANARY.slice(0, 11)}; sleep 0.05; echo ${CANARY.slice(11)}`
    const result = await bench.call('bash', { command: `seq 1 20000; ${halves}; seq 1 20000` })
    const path = /the full output is in (\S+), read it/.exec(textOf(result))![1]!
    expect(dirname(path)).toBe(join(bench.ctx.sessions.folder(bench.agent.session), 'spill'))
    expect(result.meta).toMatchObject({ kind: 'command', spill: path })
    const full = readFileSync(path, 'utf8')
    expect(full).toContain('20000\n[redacted]\n1\n')
    expect(full).not.toContain(CANARY.slice(0, 11))
    expect(await bench.ask('grep', { pattern: 'redacted', path })).toContain('20001: [redacted]')
    await bench.unload()
    expect(existsSync(path)).toBe(true)
  })

  it('is bounded: a file by its beginning, a session by its oldest, in whose place a sentence stays', async () => {
    const bench = await open({ maxFileBytes: 40_000, maxTotalBytes: 90_000 }, { bash: { maxOutputBytes: 4_000 } })
    bench.ctx.tools.register(tool('long', () => numbers(9_000)))
    const path = /the first (\d+) bytes are in (\S+?): /.exec(textOf(await bench.call('long', {})))!
    expect(statSync(path[2]!).size).toBe(Number(path[1]))
    expect(Number(path[1])).toBeLessThanOrEqual(40_000)
    expect(readFileSync(path[2]!, 'utf8')).toMatch(/\n$/)
    utimesSync(path[2]!, 1, 1)
    await bench.call('long', {})
    await bench.call('long', {})
    expect(await bench.ask('read', { file_path: path[2] })).toContain('removed to make room')
    const folder = dirname(path[2]!)
    const total = readdirSync(folder).reduce((sum, name) => sum + statSync(join(folder, name)).size, 0)
    expect(total).toBeLessThanOrEqual(90_000)
    // What a command has written itself counts as well.
    const output = await bench.call('bash', { command: 'yes | head -c 60000' })
    expect(existsSync((output.meta as { spill: string }).spill)).toBe(true)
    const sizes = readdirSync(folder).map(name => statSync(join(folder, name)).size)
    expect(sizes.reduce((sum, size) => sum + size, 0)).toBeLessThanOrEqual(90_000)
  })

  it('goes when its session is deleted, and not when it ends', async () => {
    const bench = await openWorkbench()
    const { ctx } = bench
    await ctx.plugin(jsonl, { folder: `${bench.dir}/sessions` } as jsonl.Config)
    await ctx.plugin(spill, { maxBytes: 8_192 } as spill.Config)
    ctx.tools.register(tool('long', () => numbers(5_000)))
    const { path } = spilled(await bench.call('long', {}))
    await ctx.sessions.close(bench.agent.session)
    expect(existsSync(path)).toBe(true)
    await ctx.sessionPersistence.delete(bench.agent.id)
    expect(existsSync(path)).toBe(false)
    expect(basename(dirname(path))).toBe('spill')
  })

  it('stays readable after the plugin has left, which then cuts nothing more', async () => {
    const bench = await openWorkbench()
    const plugin = await bench.ctx.plugin(spill, { maxBytes: 8_192 } as spill.Config)
    bench.ctx.tools.register(tool('long', () => numbers(5_000)))
    const { path } = spilled(await bench.call('long', {}))
    await plugin.dispose()
    expect(bench.ctx.get('spill')).toBeUndefined()
    expect(textOf(await bench.call('long', {}))).toBe(numbers(5_000))
    expect(await bench.ask('read', { file_path: path, limit: 1 })).toContain('1→line 1')
  })
})
