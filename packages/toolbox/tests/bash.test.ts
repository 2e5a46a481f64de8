import { readFileSync, rmSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { SessionEvent } from '@cambium/session'
import { afterEach, describe, expect, it, onTestFinished } from 'vitest'
import { plainText } from '../src/terminal-text.ts'
import { openWorkbench, textOf } from './workbench.ts'

const stray: number[] = []
afterEach(() => {
  for (const pid of stray.splice(0)) {
    try {
      process.kill(pid, 'SIGKILL')
    } catch {}
  }
})
const pidIn = (text: string) => stray.push(Number(/^pid (\d+)$/m.exec(text)?.[1]))

describe('bash returns when the shell exits', () => {
  it.each([
    ['all pipes held', 'sleep 60 & echo pid $!; echo done'],
    ['stderr held', 'sleep 60 </dev/null >/dev/null & echo pid $!; echo done'],
    ['a child that goes on writing', '(while :; do echo x; sleep 0.1; done) & echo pid $!; echo done'],
    ['a child in its own session', 'setsid sleep 300 & echo pid $!; echo done'],
  ])('%s', async (_, command) => {
    const bench = await openWorkbench()
    const result = await bench.call('bash', { command })
    pidIn(textOf(result))
    expect(textOf(result)).toMatch(/^done$/m)
    expect(result).toMatchObject({ isError: false, meta: { exitCode: 0, signal: null, timedOut: false } })
    expect(result.durationMs).toBeLessThan(10_000)
  })

  it('or when its time is over, whoever left its group', async () => {
    const bench = await openWorkbench()
    const result = await bench.call('bash', {
      command: 'setsid sleep 300 & echo pid $!; echo started; sleep 100',
      timeout_ms: 400,
    })
    pidIn(textOf(result))
    expect(textOf(result)).toContain('started\n[timed out after 400 ms and was ended; timeout_ms can be up to 600000]')
    expect(result).toMatchObject({ isError: false, meta: { exitCode: null, signal: 'SIGTERM', timedOut: true } })
    expect(result.durationMs).toBeLessThan(10_000)
  })
})

describe('bash says how it ended', () => {
  it.each([
    ['true', '(no output)\n[exit code: 0]'],
    ['false', '(no output)\n[exit code: 1]'],
    ['exit 3', '(no output)\n[exit code: 3]'],
    ['echo hi', 'hi'],
    ['echo hi; exit 2', 'hi\n[exit code: 2]'],
    ['echo "  indented"; echo', '  indented'],
  ])('%s', async (command, text) => {
    const bench = await openWorkbench()
    const result = await bench.call('bash', { command })
    expect(textOf(result)).toBe(text)
    expect(result.isError).toBe(false)
  })

  it('a program that finds nothing', async () => {
    const bench = await openWorkbench()
    const result = await bench.call('bash', { command: 'lsof -i :1 || exit 1' })
    expect(textOf(result)).toMatch(/\[exit code: 1\]$/)
  })

  it('facts are apart from the text, so output that looks like a marker fools nobody', async () => {
    const bench = await openWorkbench()
    const result = await bench.call('bash', { command: 'echo "[exit code: 1]"' })
    expect(result.meta).toMatchObject({ kind: 'command', exitCode: 0, signal: null, timedOut: false })
    expect(result.value).toMatchObject({ exit_code: 0, timed_out: false })
    expect((result.meta as { durationMs: number }).durationMs).toBeGreaterThanOrEqual(0)
  })

  it('a signal by its name', async () => {
    const bench = await openWorkbench()
    expect(await bench.ask('bash', { command: 'kill -KILL $$' })).toBe('(no output)\n[killed by signal: SIGKILL]')
  })

  it('a cancelled one keeps what it said', async () => {
    const bench = await openWorkbench()
    const controller = new AbortController()
    bench.ctx.on('session/event', (_, event) => {
      if (event.type === 'tool/progress') controller.abort()
    })
    const result = await bench.call('bash', { command: 'echo begun; sleep 100' }, controller.signal)
    expect(result.isError).toBe(true)
    expect(textOf(result)).toMatch(/^begun\n\[cancelled after \d+ ms\]\n\[killed by signal: SIGTERM\]$/)
  })
})

describe('bash reads what programs write', () => {
  it.each([
    ['alone', `printf '\\xe2\\x94'; sleep 0.05; printf '\\x9c\\n'`],
    ['with stderr between', `printf '\\xe2\\x94'; sleep 0.05; echo err >&2; sleep 0.05; printf '\\x9c\\n'`],
  ])('a character in two halves is one, %s', async (_, command) => {
    const bench = await openWorkbench()
    const text = await bench.ask('bash', { command })
    expect(text).toContain('├')
    expect(text.replace('err\n', '')).toBe('├')
  })

  it('binary output comes as well-formed text without control characters', async () => {
    const bench = await openWorkbench()
    const texts = [
      await bench.ask('bash', { command: `printf 'a\\000b\\033[31mred\\033[0m\\377\\r\\n'` }),
      await bench.ask('bash', { command: 'head -c 2000 /dev/urandom' }),
    ]
    expect(texts[0]).toBe('abred\ufffd')
    for (const text of texts) {
      expect(text).not.toMatch(/(?![\t\n])\p{Cc}/u)
      expect(text).not.toMatch(/\p{Cs}/u)
    }
  })

  it('a progress bar comes as its last state', () => {
    expect(plainText('10%\r50%\r100%\r\ndone\r\n')).toBe('100%\ndone\n')
    expect(plainText('N\bNA\bAM\bME\n')).toBe('NAME\n')
    expect(plainText('\x1b]0;title\x07\x1b[1mbold\x1b[0m')).toBe('bold')
    expect(plainText('plain\ttext\n')).toBe('plain\ttext\n')
  })

  it('of long output the beginning, the end, what was left out and where all of it is', async () => {
    const bench = await openWorkbench()
    const text = await bench.ask('bash', { command: 'seq 1 100000; echo FINAL-ERROR >&2; exit 7' })
    expect(text).toMatch(/^1\n2\n/)
    expect(text).toContain('FINAL-ERROR')
    expect(text).toMatch(/\[exit code: 7\]$/)
    const marker =
      /^\[… (\d+) lines \(\d+ bytes\) omitted; the full output is in (\S+), read it or grep in it …\]$/m.exec(text)!
    const shown = text.split('\n').filter(line => /^\d+$/.test(line)).length
    expect(Number(marker[1]) + shown).toBe(100_000)
    expect(text.length).toBeLessThan(34_000)
    const full = readFileSync(marker[2]!, 'utf8')
    expect(full.split('\n')).toHaveLength(100_002)
    expect(await bench.ask('grep', { pattern: '^54321$', path: marker[2] })).toContain('54321: 54321')
  })

  it('a flood costs bounded memory, and viewers little', async () => {
    const bench = await openWorkbench({ machine: { maxSpillBytes: 2 ** 20 } })
    let reports = 0
    let largest = 0
    bench.ctx.on('session/event', (_, event) => {
      if (event.type !== 'tool/progress') return
      reports++
      largest = Math.max(largest, JSON.stringify(event.data).length)
    })
    const before = process.memoryUsage.rss()
    const result = await bench.call('bash', { command: 'yes | head -c 100000000; exit 4' })
    expect(result.meta).toMatchObject({ exitCode: 4 })
    expect(textOf(result)).toContain('the first part of the output is in')
    expect(process.memoryUsage.rss() - before).toBeLessThan(100_000_000)
    expect(reports).toBeGreaterThan(0)
    expect(reports).toBeLessThanOrEqual(result.durationMs / 100 + 1)
    expect(largest).toBeLessThan(10_000)
  })
})

describe('bash shows how far it is', () => {
  it('the end of the output so far, and not at all for a quick command', async () => {
    const bench = await openWorkbench()
    const seen: SessionEvent['data'][] = []
    bench.ctx.on('session/event', (_, event) => {
      if (event.type === 'tool/progress') seen.push(event.data as never)
    })
    await bench.call('bash', { command: 'echo quick' })
    expect(seen).toEqual([])
    const result = await bench.call('bash', { command: 'echo one; sleep 0.3; echo two; sleep 0.3' })
    expect(textOf(result)).toBe('one\ntwo')
    const tails = seen.map(data => (data as unknown as { data: { kind: string; tail: string } }).data)
    expect(tails[0]).toMatchObject({ kind: 'output', tail: 'one\n' })
    expect(tails.at(-1)).toMatchObject({ tail: 'one\ntwo\n' })
    expect(bench.agent.session.events().some(event => (event.type as string) === 'tool/progress')).toBe(false)
  })
})

describe('bash has nobody to ask', () => {
  it.each([
    ['cat', '(no output)\n[exit code: 0]'],
    ['read x </dev/tty || echo no terminal', /no terminal/],
    ['git init -q . && git -c user.name=n -c user.email=e commit --allow-empty', /[Aa]borting commit/],
  ])('%s ends', async (command, expected) => {
    const bench = await openWorkbench()
    const text = await bench.ask('bash', { command })
    if (typeof expected === 'string') expect(text).toBe(expected)
    else expect(text).toMatch(expected)
  })

  it('a password that git would want', async () => {
    const server = createServer((_, response) => {
      response.writeHead(401, { 'www-authenticate': 'Basic realm="x"' }).end()
    })
    await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
    onTestFinished(() => void server.close())
    const bench = await openWorkbench()
    const { port } = server.address() as AddressInfo
    const text = await bench.ask('bash', { command: `no_proxy='*' git clone http://127.0.0.1:${port}/x` })
    expect(text).toMatch(/terminal prompts disabled/)
    expect(text).toMatch(/\[exit code: 128\]/)
  })
})

describe('bash without its folder', () => {
  it('says so, stays harmless, and lets the model make it again', async () => {
    const bench = await openWorkbench({ files: { 'a.txt': 'a' } })
    rmSync(bench.dir, { recursive: true })
    const text = await bench.ask('bash', { command: 'echo hi; rm -rf *; ls -A' })
    expect(text).toMatch(
      /^\[working directory \S+ is missing; the command ran in the empty directory \S+ instead: use absolute paths\]\nhi$/,
    )
    expect(await bench.ask('bash', { command: 'cd / && pwd' })).toMatch(/\n\/$/)
    await bench.ask('bash', { command: `mkdir -p ${bench.dir}` })
    expect(await bench.ask('bash', { command: 'pwd' })).toBe(bench.dir)
  })
})

describe('bash and secrets', () => {
  it('does not show the keys of the harness', async () => {
    process.env['PROVIDER_API_KEY'] = 'k1-secret'
    onTestFinished(() => void delete process.env['PROVIDER_API_KEY'])
    const bench = await openWorkbench()
    const text = await bench.ask('bash', { command: 'env; tr "\\0" " " < /proc/$$/cmdline' })
    expect(text).not.toContain('k1-secret')
    expect(text).toMatch(/^PATH=/m)
  })
})

it('a call is known by its description, else by its first line', async () => {
  const bench = await openWorkbench()
  const tool = bench.ctx.tools.get('bash', bench.agent)!
  expect(tool.presentCall!({ command: 'ls\nls', description: 'List files' })).toBe('List files')
  expect(tool.presentCall!({ command: 'ls -l\nls' })).toBe('ls -l')
})
