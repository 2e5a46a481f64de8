import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { PassThrough } from 'node:stream'
import { afterEach, describe, expect, test, vi } from 'vitest'
import { type Bench, lineOf, openBench } from './run-command.ts'
import { Sink } from './streams.ts'

let bench: Bench
afterEach(() => bench?.close())

const bash = (command: string) => ({ toolCalls: [{ name: 'bash', arguments: { command } }] })

describe('one task', () => {
  test('one prompt with one answer is one request; standard output has the answer alone, standard error nothing', async () => {
    bench = await openBench({ replies: ['It is 4.'] })
    const { code, stdout, stderr } = await bench.run(['what', 'is', '2+2?'])
    expect({ code, stdout, stderr }).toEqual({ code: 0, stdout: 'It is 4.\n', stderr: '' })
    expect(bench.server.requests).toHaveLength(1)
    expect(bench.server.requests[0]?.body.messages.at(-1)).toMatchObject({ role: 'user', content: 'what is 2+2?' })
    bench.server.expectDone()
  })

  test('an answer cannot command the terminal that shows it, and is piped as it is', async () => {
    const text = 'a\tb\r\nمرحبا 👩‍🚀 \x1b]52;c;bWluZQ==\x07\x1b[31mred\u009b2J\rover'
    bench = await openBench({ replies: [text, text] })
    expect((await bench.run(['go'])).stdout).toBe(`${text}\n`)
    const { stdout } = await bench.run(['go'], { stdout: new Sink(true) })
    expect(stdout).toBe('a\tb\r\nمرحبا 👩‍🚀 \\x1b]52;c;bWluZQ==\\x07\\x1b[31mred\\x9b2J\\rover\n')
  })

  test('what is piped in reaches the model behind the words', async () => {
    bench = await openBench({ replies: ['fine'] })
    await bench.run(['review this'], { stdin: 'diff --git a b\n' })
    const text = JSON.stringify(bench.server.requests[0]?.body.messages.at(-1)?.content)
    expect(text).toMatch(/review this.*diff --git a b/)
  })

  test('tools run for real in the folder that --cwd names', async () => {
    bench = await openBench({ replies: [bash('echo hi > made.txt && pwd'), 'done'] })
    bench.folder.write('inner/keep.txt', '')
    const { code } = await bench.run(['--cwd', 'inner', 'make a file'])
    expect(code).toBe(0)
    expect(bench.folder.read('inner/made.txt')).toBe('hi\n')
    expect(JSON.stringify(bench.server.requests[1]?.body.messages.at(-1))).toContain(join(bench.folder.path, 'inner'))
  })

  test('json is one object with all the facts', async () => {
    bench = await openBench({
      replies: [
        { ...bash('true'), usage: { input: 100, output: 10, cached: 40 } },
        { text: 'done', usage: { input: 200, output: 5 } },
      ],
    })
    const { code, report, stderr } = await bench.run(['--output', 'json', 'go'])
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    expect(report).toMatchObject({
      answer: 'done',
      stopReason: 'completed',
      exitCode: 0,
      model: 'openai/test-model',
      cwd: bench.folder.path,
      turns: 1,
      steps: 2,
      toolCalls: 1,
      denied: [],
      usage: { inputTokens: 260, outputTokens: 15, cacheReadTokens: 40 },
    })
    expect(report.session).toMatch(/^[\w-]{8,}$/)
    expect(report.durationMs).toBeGreaterThan(0)
  })

  test('the cost is what the provider says that it charges, where it says so, failed attempts included', async () => {
    const chunk = (finish: string | null, cost: number) =>
      `data: ${JSON.stringify({
        choices: [{ index: 0, delta: { content: 'done' }, finish_reason: finish }],
        usage: { prompt_tokens: 10, completion_tokens: 1, cost },
      })}\n\n`
    bench = await openBench({
      replies: [
        { raw: `${chunk(null, 0.01)}data: {"error":{"code":503,"message":"down"}}\n\n` },
        { raw: chunk('stop', 0.02) },
      ],
    })
    vi.stubEnv('OPENROUTER_BASE_URL', bench.server.url)
    const { report } = await bench.run(['--model', 'openrouter/a/b', '--output', 'json', 'go'])
    expect(report).toMatchObject({ answer: 'done', exitCode: 0 })
    expect(report.cost).toBeCloseTo(0.03)
  })

  test('the effort that the command line names goes with each request', async () => {
    bench = await openBench({ replies: [bash('echo hi'), 'done'] })
    const { code } = await bench.run(['--effort', 'high', 'go'])
    expect(code).toBe(0)
    expect(bench.server.requests.map(({ body }) => body['reasoning_effort'])).toEqual(['high', 'high'])
    const { code: usage, stderr } = await bench.run(['--effort', 'as hard as you can', 'go'])
    expect(usage).toBe(2)
    expect(stderr).toContain('--effort as hard as you can is not a word')
  })

  test('the cost is there when the prices of the model are known', async () => {
    bench = await openBench({ replies: [{ text: 'done', usage: { input: 1_000_000, output: 100_000 } }] })
    const model = { id: 'test-model', price: { input: 2, output: 10 } }
    bench.folder.write(
      'prices.yml',
      JSON.stringify([{ id: 'openai', config: { providers: { openai: { models: [model] } } } }]),
    )
    const { report, stderr } = await bench.run(['-o', 'json', '--patch', 'prices.yml', 'go'])
    expect(stderr).toBe('')
    expect(report.cost).toBeCloseTo(3)
  })

  test('jsonl streams the events as they happen, live ones too, and ends with the object', async () => {
    bench = await openBench({ replies: [{ text: 'one\u2028two' }] })
    const { code, stdout } = await bench.run(['--output', 'jsonl', 'go'])
    expect(code).toBe(0)
    expect(stdout).not.toMatch(/[\u2028\u2029]/)
    const events = stdout
      .trimEnd()
      .split('\n')
      .map(line => JSON.parse(line))
    const types = events.map(event => event.type)
    expect(types.filter(type => type !== 'assistant/chunk')).toEqual(
      expect.arrayContaining(['turn/start', 'user/message', 'assistant/message', 'turn/end', 'headless/result']),
    )
    expect(types.at(-1)).toBe('headless/result')
    expect(events.at(-1).data.answer).toBe('one\u2028two')
    expect(new Set(events.slice(0, -1).map(event => event.session))).toEqual(new Set([events.at(-1).data.session]))
    const live = events.filter(event => event.type === 'assistant/chunk')
    expect(live.length).toBeGreaterThan(0)
    expect(live.every(event => event.seq === undefined)).toBe(true)
  })

  test('on a terminal, progress shows what runs; standard output still has the answer alone', async () => {
    bench = await openBench({ replies: [{ text: 'let me see', ...bash('echo hi') }, 'All good.'] })
    const { stdout, stderr } = await bench.run(['go'], { stderr: new Sink(true), env: { NO_COLOR: '1' } })
    expect(stdout).toBe('All good.\n')
    expect(stderr).toContain('openai/test-model')
    expect(stderr).toContain('let me see')
    expect(stderr).toMatch(/✓ bash .*echo hi/)
    expect(stderr).toMatch(/done · 2 steps · .*tokens in.* · session /)
    expect(stderr).not.toContain('All good.')
    expect(stderr).not.toContain('\x1b[3')
  })

  test('colours are on a terminal only, and --quiet takes everything away', async () => {
    bench = await openBench({ replies: ['a', 'b'] })
    const shown = await bench.run(['go'], { stderr: new Sink(true) })
    expect(shown.stderr).toContain('\x1b[3')
    const quiet = await bench.run(['--quiet', 'go'], { stderr: new Sink(true) })
    expect(quiet).toMatchObject({ code: 0, stdout: 'b\n', stderr: '' })
  })

  test('without a key the demo model answers, and one line says so', async () => {
    bench = await openBench()
    for (const name of ['OPENAI_API_KEY', 'OPENAI_BASE_URL']) vi.stubEnv(name, undefined)
    bench.folder.write('no-local.yml', '- { id: openai, config: { exclude: [ollama, lmstudio] } }\n')
    const { code, stdout, stderr } = await bench.run(['--model', 'auto', '--patch', 'no-local.yml', 'hello'])
    expect(code).toBe(0)
    expect(stdout.trim()).not.toBe('')
    expect(stderr).toMatch(/^.*no key is set, so the scripted demo model answers.*\n$/)
  })

  test('--set and --patch reach the tree', async () => {
    bench = await openBench({ replies: ['a'] })
    bench.folder.write('mine.yml', '- id: loop\n  config: { persona: "You are terse." }\n')
    await bench.run(['--patch', 'mine.yml', '--set', 'bash.x=1', 'go']).then(({ code, stderr }) => {
      expect(code).toBe(2)
      expect(stderr).toContain('x')
    })
    await bench.run(['--patch', 'mine.yml', 'go'])
    expect(bench.server.requests[0]?.text).toContain('You are terse.')
  })
})

describe('limits and policy', () => {
  test('--max-steps ends with a summary and exit code 3', async () => {
    bench = await openBench({ replies: [bash('true'), 'I ran one command.'] })
    const { code, stdout, stderr } = await bench.run(['--max-steps', '1', 'go'])
    expect({ code, stdout }).toEqual({ code: 3, stdout: 'I ran one command.\n' })
    expect(stderr).toMatch(/^cambium: stopped by a limit: the one step .*\n {2}go on with: cambium run --resume \S+\n$/)
    expect(bench.server.requests[1]?.body.tools ?? []).toEqual([])
  })

  test('--timeout ends a model that stalls, with exit code 3', async () => {
    bench = await openBench({ replies: [{ text: 'well', fault: 'stall' }] })
    const { code, stderr } = await bench.run(['--timeout', '300ms', 'go'])
    expect(code).toBe(3)
    expect(stderr).toContain('stopped by a limit: the time limit was reached')
  })

  test('an answer that reached the output limit is printed, with exit code 3', async () => {
    bench = await openBench({ replies: [{ text: 'a long story that', fault: 'length' }] })
    const { code, stdout, stderr } = await bench.run(['go'])
    expect(code).toBe(3)
    expect(stdout.trim()).not.toBe('')
    expect(stderr).toContain('the answer is cut off')
  })

  test('a policy that refuses the task makes exit code 4, one that refuses a call a warning', async () => {
    bench = await openBench({ replies: [bash('rm -rf /'), 'I may not do that.'] })
    bench.folder.write(
      'gate.mjs',
      `export const name = 'gate'
       export function apply(ctx) {
         ctx.on('tools/pre-execute', async () => ({ kind: 'deny', reason: 'nothing is run here' }))
         ctx.on('agent/pre-step', async (input, next) =>
           input.messages.some(m => JSON.stringify(m).includes('evil')) ? { kind: 'reject', reason: 'no evil' } : next())
       }`,
    )
    bench.folder.write('gate.yml', '- insert: [{ id: gate, name: ./gate.mjs }]\n')
    const refused = await bench.run(['--patch', 'gate.yml', 'evil task'])
    expect(refused).toMatchObject({
      code: 4,
      stdout: '',
      stderr: expect.stringContaining('refused by policy: no evil'),
    })
    expect(bench.server.requests).toHaveLength(0)
    const { code, report, stderr } = await bench.run(['--patch', 'gate.yml', '-o', 'json', 'go'])
    expect(code).toBe(0)
    expect(report.denied).toEqual([{ tool: 'bash', reason: 'nothing is run here' }])
    expect(stderr).toBe('warning: 1 call refused by policy: bash (nothing is run here)\n')
  })
})

describe('sessions', () => {
  const contents = (index: number) => JSON.stringify(bench.server.requests[index]?.body.messages)

  test('--continue takes up the last session of the folder', async () => {
    bench = await openBench({ replies: ['My name is Ada.', 'Ada.'] })
    const first = await bench.run(['-o', 'json', 'say a name'])
    const second = await bench.run(['-o', 'json', '--continue', 'again'])
    expect(second.report).toMatchObject({ answer: 'Ada.', session: first.report.session, turns: 1, steps: 1 })
    expect(contents(1)).toMatch(/say a name.*My name is Ada\..*again/)
  })

  test('--resume takes an id, a part of one, or the last', async () => {
    bench = await openBench({ otherwise: 'ok' })
    const first = (await bench.run(['-o', 'json', 'apple'])).report
    const second = (await bench.run(['-o', 'json', 'pear'])).report
    const id = first.session ?? ''
    for (const argv of [
      ['--resume', id, 'x'],
      ['--resume', id.slice(-6), 'x'],
      [`--resume=${id}`, 'x'],
    ]) {
      const { report } = await bench.run(['-o', 'json', ...argv])
      expect(report.session).toBe(id)
    }
    expect((await bench.run(['-o', 'json', '--resume', 'x'])).report.session).toBe(id)
    expect((await bench.run(['-o', 'json', '--resume', second.session ?? '', 'x'])).report.session).toBe(second.session)
  })

  test('an unknown session, and none at all, are exit code 2 with what to do', async () => {
    bench = await openBench({ replies: ['ok'] })
    const none = await bench.run(['--continue', 'x'])
    expect(none).toMatchObject({ code: 2, stdout: '' })
    expect(none.stderr).toContain(`there is no session of ${bench.folder.path} yet`)
    await bench.run(['a task'])
    for (const wrong of ['zzz', 'beta']) {
      const { code, stdout, stderr } = await bench.run(['--resume', wrong, '--quiet', 'remove the old tests'])
      expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
      expect(stderr).toContain(`there is no session ${wrong}\n`)
    }
    const unknown = await bench.run(['--resume', '20200101-000000-abcdef', 'x'])
    expect(unknown).toMatchObject({ code: 2, stdout: '' })
    expect(unknown.stderr).toMatch(/there is no session 20200101-000000-abcdef\n {2}\S/)
  })

  test('a session whose work is done needs a task', async () => {
    bench = await openBench({ replies: ['ok'] })
    await bench.run(['go'])
    const { code, stderr } = await bench.run(['--continue'])
    expect(code).toBe(2)
    expect(stderr).toContain('there is no task')
  })

  test('a session that another process writes is refused by name', async () => {
    bench = await openBench({ replies: [{ text: 'slow', fault: 'stall' }] })
    const { host, finished } = bench.start(['go'])
    await bench.server.request(0)
    const { code, stderr } = await bench.run(['--continue', 'x'])
    expect(code).toBe(1)
    expect(stderr).toMatch(/^cambium: .*\n {2}\S/)
    expect(stderr).not.toMatch(/\n\s+at /)
    host.signal('SIGINT')
    expect((await finished).code).toBe(130)
  })
})

describe('an end before its time', () => {
  test('Ctrl-C cancels the turn, ends the tool, keeps the session, and says how to go on', async () => {
    bench = await openBench({ replies: [bash('echo $$ > pid; sleep 60'), 'Finished.'] })
    const { host, finished } = bench.start(['-o', 'jsonl', 'go'])
    const pid = Number(await lineOf(join(bench.folder.path, 'pid')))
    host.signal('SIGINT')
    const { code, stdout, stderr } = await finished
    expect(code).toBe(130)
    const { data } = JSON.parse(stdout.trimEnd().split('\n').at(-1) ?? '')
    expect(data).toMatchObject({ stopReason: 'interrupted', exitCode: 130 })
    expect(stderr).toContain(`go on with: cambium run --resume ${data.session}`)
    expect(isAlive(pid)).toBe(false)

    // Without a task it goes on with what was interrupted.
    const resumed = await bench.run(['--resume', data.session])
    expect(resumed).toMatchObject({ code: 0, stdout: 'Finished.\n' })
    bench.server.expectDone()
  })

  test('a second signal ends at once', async () => {
    bench = await openBench({ replies: [{ fault: 'stall', text: 'x' }] })
    const { host, finished } = bench.start(['go'])
    await bench.server.request(0)
    host.signal('SIGINT')
    host.signal('SIGINT')
    expect(host.aborts).toEqual([130])
    await finished
  })

  test('SIGTERM has its own exit code, and half an answer is not printed', async () => {
    bench = await openBench({ replies: [{ text: 'half an answer', fault: 'stall', after: 1 }] })
    const { host, finished } = bench.start(['go'], { stderr: new Sink(true) })
    await host.stderr.contains(/answering/)
    host.signal('SIGTERM')
    expect(await finished).toMatchObject({ code: 143, stdout: '' })
  })

  test('a signal while standard input is awaited ends the wait', async () => {
    bench = await openBench()
    const { host, finished } = bench.start([], { stdin: new PassThrough() })
    await host.listening
    host.signal('SIGINT')
    expect((await finished).code).toBe(130)
  })

  test('a reader of events who leaves ends the work; one of the answer does not make it fail', async () => {
    bench = await openBench({ replies: ['answer'], otherwise: { text: 'x', fault: 'stall' } })
    const closed = () => new Sink(false, Object.assign(new Error('write EPIPE'), { code: 'EPIPE' }))
    expect(await bench.run(['go'], { stdout: closed() })).toMatchObject({ code: 0, stderr: '' })
    expect((await bench.run(['-o', 'jsonl', 'go'], { stdout: closed() })).code).toBe(130)
  })

  test('an error that nobody caught is one line, not a stack, and the tree ends in order', async () => {
    bench = await openBench({ replies: [bash('echo $$ > pid; sleep 60')] })
    const { host, finished } = bench.start(['-o', 'json', 'go'])
    const pid = Number(await lineOf(join(bench.folder.path, 'pid')))
    host.crash(new Error('boom\n    at somewhere'))
    const { code, report, stderr } = await finished
    expect(code).toBe(1)
    expect(report.stopReason).toBe('interrupted')
    expect(stderr).toContain('cambium: boom\n')
    expect(stderr).not.toContain('at somewhere')
    expect(isAlive(pid)).toBe(false)
  })

  test('nothing is left in the process afterwards', async () => {
    bench = await openBench({ otherwise: ({ body }) => (body.messages.length > 2 ? 'done' : bash('echo hi')) })
    await bench.run(['warm up'])
    const before = left()
    await bench.run(['go'])
    // What the warm-up had not quite let go of may have left since.
    const more = left()
    for (const kind of before) if (more.includes(kind)) more.splice(more.indexOf(kind), 1)
    expect(more).toEqual([])
  })

  test('standard output that cannot be written is a failure', async () => {
    bench = await openBench({ replies: ['answer'] })
    const full = new Sink(false, Object.assign(new Error('no space left'), { code: 'ENOSPC' }))
    const { code, stderr } = await bench.run(['go'], { stdout: full })
    expect(code).toBe(1)
    expect(stderr).toContain('standard output cannot be written: no space left')
  })
})

/** What keeps a process alive, without connections: the server under test has its own ends of them. */
function left(): string[] {
  return process
    .getActiveResourcesInfo()
    .filter(name => !/^TCP|^Immediate|^CloseReq/.test(name))
    .sort()
}

/** A process that has ended but was not yet waited for counts as ended. */
function isAlive(pid: number): boolean {
  try {
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'))
  } catch {
    return false
  }
}
