import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { builtBin } from '@cambium/testkit'
import { afterEach, describe, expect, test } from 'vitest'
import { type Bench, lineOf, openBench } from './run-command.ts'

const BIN = fileURLToPath(new URL('../bin/cambium.js', import.meta.url))

let bench: Bench
const children: ChildProcess[] = []
afterEach(async () => {
  for (const child of children.splice(0)) child.kill('SIGKILL')
  await bench.close()
})

/** The real command in a process of its own, from source. */
function cambium(argv: readonly string[], { input, open }: { input?: string | undefined; open?: boolean } = {}) {
  const child = spawn(process.execPath, [BIN, 'run', '--model', 'openai/test-model', ...argv], {
    cwd: bench.folder.path,
    env: { PATH: process.env.PATH, HOME: bench.home.path, ...bench.env },
    stdio: [input === undefined && !open ? 'ignore' : 'pipe', 'pipe', 'pipe'],
  })
  children.push(child)
  let stdout = ''
  let stderr = ''
  child.stdout?.on('data', data => {
    stdout += data
  })
  child.stderr?.on('data', data => {
    stderr += data
  })
  if (input !== undefined) child.stdin?.end(input)
  const finished = once(child, 'close').then(([code, signal]) => ({ code, signal, stdout, stderr }))
  return { child, finished }
}

/** Flags that mount a plugin of that source. */
function plugin(source: string): string[] {
  bench.folder.write('plugin.mjs', source)
  return ['--patch', bench.folder.write('patch.yml', '- insert: [{ id: it, name: ./plugin.mjs }]\n')]
}

describe('the command as a process', () => {
  test('one task, from a pipe, with nothing on standard error', async () => {
    bench = await openBench({ replies: ['fine'] })
    const { finished } = cambium(['review', 'this'], { input: 'a diff' })
    expect(await finished).toEqual({ code: 0, signal: null, stdout: 'fine\n', stderr: '' })
    expect(bench.server.requests[0]?.text).toContain('a diff')
  })

  test('a program that leaves our input open does not make it wait for long', async () => {
    bench = await openBench({ replies: ['fine'] })
    const { child, finished } = cambium(['go'], { open: true })
    const startedAt = Date.now()
    await bench.server.request(0)
    expect(Date.now() - startedAt).toBeLessThan(9_000)
    expect(await finished).toMatchObject({ code: 0, stdout: 'fine\n', stderr: '' })
    child.stdin?.destroy()
  })

  test('kill -9 in mid-turn loses nothing that was said: --resume goes on', async () => {
    bench = await openBench({
      replies: [
        { toolCalls: [{ name: 'bash', arguments: { command: 'echo first > log.txt' } }] },
        { toolCalls: [{ name: 'bash', arguments: { command: 'echo $$ > pid; sleep 60' } }] },
        'All done.',
      ],
    })
    const { child, finished } = cambium(['write the log'])
    // The command runs, so what the model said is on disk.
    const pid = await lineOf(join(bench.folder.path, 'pid'))
    child.kill('SIGKILL')
    process.kill(-Number(pid), 'SIGKILL')
    expect((await finished).signal).toBe('SIGKILL')

    const resumed = await cambium(['-o', 'json', '--resume']).finished
    expect(resumed.code).toBe(0)
    expect(JSON.parse(resumed.stdout)).toMatchObject({ answer: 'All done.', stopReason: 'completed' })
    const asked = bench.server.requests[2]?.text ?? ''
    expect(asked).toContain('write the log')
    expect(asked).toMatch(/its outcome is unknown/)
    bench.server.expectDone()
    // One log, whole, every line of it JSON.
    const [folder = ''] = readdirSync(join(bench.home.path, 'sessions'))
    const logs = readdirSync(join(bench.home.path, 'sessions', folder)).filter(name => name.endsWith('.jsonl'))
    expect(logs).toHaveLength(1)
    const lines = readFileSync(join(bench.home.path, 'sessions', folder, logs[0] ?? ''), 'utf8')
      .trimEnd()
      .split('\n')
    expect(() => lines.map(line => JSON.parse(line))).not.toThrow()
  })

  test('SIGINT ends the turn cleanly with exit code 130', async () => {
    bench = await openBench({ replies: [{ text: 'hm', fault: 'stall' }] })
    const { child, finished } = cambium(['go'])
    await bench.server.request(0)
    child.kill('SIGINT')
    const { code, stdout, stderr } = await finished
    expect({ code, stdout }).toEqual({ code: 130, stdout: '' })
    expect(stderr).toMatch(/go on with: cambium run --resume \S+\n$/)
  })

  test('a plugin that logs to the console does not spoil standard output', async () => {
    bench = await openBench({ replies: ['fine'] })
    const { finished } = cambium([
      ...plugin("console.log('loading'); export const apply = () => console.info('up')"),
      'go',
    ])
    expect(await finished).toEqual({ code: 0, signal: null, stdout: 'fine\n', stderr: 'loading\nup\n' })
  })

  test.each([
    [
      'ends the process',
      'export const apply = () => process.exit(0)',
      /^cambium: the process was ended before the work/,
    ],
    [
      'waits for what never comes',
      "export const apply = ctx => ctx.on('agent/pre-step', () => new Promise(() => {}))",
      /^cambium: the work is not done, and nothing is left that it could wait for\n/,
    ],
  ])('a plugin that %s is never exit code 0', async (_what, source, said) => {
    bench = await openBench()
    const { code, stdout, stderr } = await cambium([...plugin(source), 'go']).finished
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' })
    expect(stderr).toMatch(said)
  })

  test('a tool that does not end cannot hold the command', async () => {
    bench = await openBench({ replies: [{ toolCalls: [{ name: 'hang', arguments: {} }] }] })
    const source = `export const inject = ['tools']
      export const apply = ctx => ctx.tools.register({ name: 'hang', description: 'x', parameters: { type: 'object' },
        execute: () => new Promise(() => setInterval(() => {}, 1000)) })`
    const { child, finished } = cambium([...plugin(source), '-o', 'jsonl', 'go'])
    await seen(child, /"tool\/call"/)
    child.kill('SIGTERM')
    const { code, stdout } = await finished
    expect(code).toBe(143)
    expect(JSON.parse(stdout.trimEnd().split('\n').at(-1)!).data).toMatchObject({ stopReason: 'interrupted' })
  })

  test('a folder that is gone is said in one sentence, and does not matter where none is needed', async () => {
    bench = await openBench()
    const bin = await builtBin('cambium')
    const inGone = async (words: string) => {
      const script = 'mkdir gone && cd gone && rmdir ../gone && exec "$0" "$1" $2'
      const child = spawn('sh', ['-c', script, process.execPath, bin, words], { cwd: bench.folder.path })
      children.push(child)
      const said: string[] = []
      for (const stream of [child.stdout, child.stderr]) stream.on('data', data => void said.push(`${data}`))
      const [code] = await once(child, 'close')
      return `${code} ${said.join('')}`
    }
    expect(await inGone('run hello')).toBe(
      '2 cambium: the folder that the command was started in is gone\n  change to another one and start it there\n',
    )
    expect(await inGone('--version')).toMatch(/^0 \d+\.\d+\.\d+\n$/)
  })

  test('a reader that closes the pipe does not make it crash', async () => {
    bench = await openBench({ replies: [{ text: 'word ', repeat: 2_000, delayMs: 1 }] })
    const { child, finished } = cambium(['-o', 'jsonl', 'go'])
    await seen(child, /\n/)
    child.stdout?.destroy()
    const { code, stderr } = await finished
    expect({ code, stderr }).toEqual({
      code: 130,
      stderr: expect.stringMatching(/^cambium: interrupted: standard output was closed\n/),
    })
  })
})

async function seen(child: ChildProcess, pattern: RegExp): Promise<void> {
  let text = ''
  await new Promise<void>(resolve => {
    child.stdout?.on('data', data => {
      text += data
      if (pattern.test(text)) resolve()
    })
  })
}
