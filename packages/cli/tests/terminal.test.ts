/** The command where a person would run it: with a controlling terminal, and twice at once. */

import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { afterEach, describe, expect, onTestFinished, test } from 'vitest'
import { type Bench, openBench } from './run-command.ts'

const BIN = fileURLToPath(new URL('../bin/cambium.js', import.meta.url))
const SCRIPT = ['/usr/bin/script', '/bin/script'].find(existsSync)
const hasTerminal =
  SCRIPT && process.platform === 'linux' && spawnSync(SCRIPT, ['-qec', 'true', '/dev/null']).status === 0

let bench: Bench
afterEach(() => bench.close())

const run = (file: string, argv: readonly string[]) => {
  const child = spawn(file, argv, {
    cwd: bench.folder.path,
    env: { PATH: process.env['PATH'], HOME: bench.home.path, TERM: 'xterm', EDITOR: 'vim', ...bench.env },
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: 60_000,
  })
  return Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')]).then(
    ([stdout, stderr, [code]]) => ({ stdout, stderr, code: code as number }),
  )
}

describe.skipIf(!hasTerminal)('on a terminal', () => {
  test('programs that want one do not wait for it and do not touch it', { timeout: 70_000 }, async () => {
    const refuses = createServer((_, response) => {
      response.writeHead(401, { 'www-authenticate': 'Basic realm="x"' }).end()
    })
    await new Promise<void>(resolve => refuses.listen(0, '127.0.0.1', resolve))
    onTestFinished(() => void refuses.close())
    const { port } = refuses.address() as AddressInfo
    const commands = [
      // One pipe: what comes through two has no order when the reader is late.
      'exec 2>&1; tty; (: </dev/tty) && echo has a terminal; read x </dev/tty || echo read nothing',
      'cat',
      'git init -q . && git config user.name n && git config user.email e && git commit --allow-empty',
      'git commit -q --allow-empty -m one && git rebase -i --root',
      `no_proxy='*' git clone http://127.0.0.1:${port}/x`,
    ]
    bench = await openBench({
      replies: [
        { toolCalls: commands.map(command => ({ name: 'bash', arguments: { command, timeout_ms: 15_000 } })) },
        'They have all ended.',
      ],
    })
    const command = [process.execPath, BIN, 'run', '--model', 'openai/test-model', 'go']
      .map(word => `'${word}'`)
      .join(' ')
    const { stdout, code } = await run(SCRIPT!, ['-qec', command, '/dev/null'])
    expect(code).toBe(0)
    expect(stdout).toContain('They have all ended.')
    const results = bench.server.requests[1]!.body.messages.filter(({ role }) => role === 'tool')
    const [tty, cat, commit, rebase, clone] = results.map(({ content }) => String(content))
    expect(results).toHaveLength(commands.length)
    for (const { content } of results) expect(content).not.toContain('timed out')
    expect(tty).toMatch(/^not a tty[\s\S]*read nothing$/)
    expect(tty).not.toContain('has a terminal')
    expect(cat).toBe('(no output)\n[exit code: 0]')
    expect(commit).toMatch(/[Aa]borting commit/)
    expect(rebase).not.toMatch(/vim/i)
    expect(clone).toMatch(/terminal prompts disabled/)
    // An editor would have switched to the other screen, git would have asked for a name; its refusal may pass by.
    expect(stdout).not.toContain('\x1b[?1049h')
    expect(stdout).not.toMatch(/(?<!could not read )Username/)
  })
})

test.skipIf(!hasTerminal)(
  'a person at a terminal is asked whether to trust a project',
  { timeout: 70_000 },
  async () => {
    bench = await openBench()
    bench.folder.write('.cambium/cordis.patch.yml', '- { id: bash, disabled: true }\n')
    const argv = ['-qec', `'${process.execPath}' '${BIN}' trust`, '/dev/null']
    const child = spawn(SCRIPT!, argv, {
      cwd: bench.folder.path,
      env: { PATH: process.env['PATH'], HOME: bench.home.path, TERM: 'xterm', ...bench.env },
      timeout: 60_000,
    })
    let shown = ''
    child.stdout.on('data', chunk => {
      shown += chunk
      if (shown.includes('[y/N]')) child.stdin.end('y\n')
    })
    expect(await once(child, 'close')).toEqual([0, null])
    expect(shown).toContain('Trust 1 file? [y/N] y')
    expect(shown).toContain('Trusted, until one of these files changes')
    const path = await run(process.execPath, [BIN, 'config', 'path'])
    expect(path.stdout).toMatch(/^project .* applied$/m)
  },
)

test('of two that go on with one session at once, one does and the other is told', { timeout: 70_000 }, async () => {
  let refused = () => {}
  const other = new Promise<void>(resolve => {
    refused = resolve
  })
  bench = await openBench({ replies: ['first', () => other.then(() => 'second'), 'third'] })
  const { session } = (await bench.run(['-o', 'json', 'start'])).report
  const outcomes = ['ONE', 'TWO'].map(task =>
    run(process.execPath, [BIN, 'run', '--model', 'openai/test-model', '--continue', task]).finally(refused),
  )
  const [lost, won] = (await Promise.all(outcomes)).sort((a, b) => b.code - a.code)
  expect(won).toMatchObject({ code: 0, stdout: 'second\n', stderr: '' })
  expect(lost).toMatchObject({ code: 1, stdout: '' })
  expect(lost!.stderr).toMatch(new RegExp(`session ${session} is being written by process \\d+`))
  expect(lost!.stderr).not.toMatch(/\n\s+at /)
  const after = (await bench.run(['-o', 'json', '--continue', 'and now'])).report
  expect(after).toMatchObject({ session, answer: 'third' })
  expect(bench.server.requests).toHaveLength(3)
  bench.server.expectDone()
})
