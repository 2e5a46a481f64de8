import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { main } from '@cambium/cli'
import type { ModelServerOptions } from '@cambium/testkit'
import { afterEach, describe, expect, it } from 'vitest'
import type { ReplayReport } from '../src/replay/render.ts'
import { type Bench, openBench } from './run-command.ts'
import { testHost } from './streams.ts'

let bench: Bench
afterEach(() => bench?.close())

const open = async (replies: NonNullable<ModelServerOptions['replies']>) => {
  bench = await openBench({ replies })
}

async function replay(...argv: string[]) {
  const host = testHost({ cwd: bench.folder.path })
  const code = await main(['replay', ...argv], host)
  return { code, stdout: host.stdout.text, stderr: host.stderr.text }
}

async function report(...argv: string[]): Promise<ReplayReport & { code: number }> {
  const { code, stdout, stderr } = await replay('--json', ...argv)
  expect(stderr).toBe('')
  return { ...(JSON.parse(stdout) as ReplayReport), code }
}

const logs = () =>
  readdirSync(bench.home.path, { recursive: true, withFileTypes: true })
    .filter(entry => entry.isFile() && entry.name.endsWith('.jsonl'))
    .map(entry => join(entry.parentPath, entry.name))

/** Changes the log as if it had been recorded so. */
function record(change: (text: string) => string) {
  const [path] = logs()
  const before = readFileSync(path!, 'utf8')
  const after = change(before)
  expect(after).not.toBe(before)
  writeFileSync(path!, after)
}

const read = (file: string) => ({ toolCalls: [{ name: 'read', arguments: { file_path: file } }] })
const bash = (command: string) => ({ toolCalls: [{ name: 'bash', arguments: { command } }] })

describe('a replay', () => {
  it('of a session with tools, failures and several turns is the same, asks nobody and touches nothing', async () => {
    await open([
      read('a.txt'),
      { fault: '500' },
      { reasoning: 'Let me write.', ...bash('echo once >> count.txt; exit 3') },
      'Done.',
      {
        toolCalls: [
          { name: 'read', arguments: { file_path: 'gone.txt' } },
          { name: 'none', arguments: {} },
        ],
      },
      { toolCalls: [{ name: 'read', arguments: '{"file_path": 5}' }] },
      'Done again.',
    ])
    bench.folder.write('a.txt', 'one\n')
    expect((await bench.run(['--set', 'retry.initialMs=1', 'first task'])).code).toBe(0)
    expect((await bench.run(['--continue', 'second task'])).code).toBe(0)
    bench.folder.write('a.txt', 'changed meanwhile\n')
    const before = logs()
    const asked = bench.server.requests.length
    const { stdout, code } = await replay()
    expect(stdout).toMatch(/^same: 2 turns, 6 steps, 3 tools replayed in /)
    expect(code).toBe(0)
    expect(bench.server.requests).toHaveLength(asked)
    expect(bench.folder.read('count.txt')).toBe('once\n')
    expect(logs()).toEqual(before)
  })

  it('is the same where results were too long for the model, also of a copy and of what was imported', async () => {
    await open([bash('seq 1 40000'), 'Long.', 'Longer.'])
    const { report: first } = await bench.run(['go', '-o', 'json'])
    await bench.run(['--resume', first.session!, '--fork', 'on'])
    const file = join(bench.folder.path, 'talk.json')
    const sessions = (...words: string[]) => main(['sessions', ...words], testHost({ cwd: bench.folder.path }))
    expect(await sessions('export', first.session!, '--output', file)).toBe(0)
    expect(await sessions('import', file, '--id', 'talk-2')).toBe(0)
    for (const argv of [[first.session!], [], ['talk-2']]) {
      expect((await report(...argv)).divergence, argv[0] ?? 'the copy').toBeUndefined()
    }
  })

  it('names the first difference: what the model was told, what it called, what came back', async () => {
    await open([read('a.txt'), 'Done.'])
    bench.folder.write('a.txt', 'one\ntwo\n')
    await bench.run(['a task'])
    record(text => text.replace('You are Cambium', 'You were Cambium'))
    const header = await replay()
    expect(header.code).toBe(1)
    expect(header.stdout).toContain('in turn 1, step 1: the system prompt\n')
    expect(header.stdout).toMatch(/ {2}- You were Cambium.*\n/)
    expect(header.stdout).toMatch(/ {2}\+ You are Cambium.*\n/)
    expect(await report('--ignore-header')).toMatchObject({ same: true, code: 0, tools: { replayed: 1, run: 0 } })
    bench.folder.write('a.txt', 'one\nTWO\n')
    const run = await report('--ignore-header', '--run-tools')
    expect(run).toMatchObject({ same: false, code: 1, tools: { replayed: 0, run: 1 } })
    expect(run.divergence).toMatchObject({
      turn: 1,
      step: 1,
      what: 'the outcome of read',
      came: 'success\n1→one\n2→TWO',
    })
  })

  it('names a tool that is not there any more', async () => {
    await open([bash('echo hi'), 'Done.'])
    await bench.run(['a task'])
    bench.home.write('cordis.patch.yml', '- id: bash\n  disabled: true\n')
    const header = await report()
    expect(header.divergence).toMatchObject({ what: 'the tools' })
    expect(header.divergence!.expected).toContain('bash')
    const { divergence } = await report('--ignore-header')
    expect(divergence).toMatchObject({ turn: 1, step: 1, what: 'the outcome of bash' })
    expect(divergence!.came).toContain('UNKNOWN_TOOL')
  })

  it('tells that a policy decides otherwise, in either direction', async () => {
    await open([bash('echo hi'), 'Done.'])
    bench.folder.write('deny.mjs', DENY)
    await bench.run(['a task'])
    const row = JSON.stringify([{ insert: [{ id: 'deny', name: join(bench.folder.path, 'deny.mjs') }] }])
    bench.home.write('cordis.patch.yml', row)
    const now = await report()
    expect(now.divergence).toMatchObject({ what: 'the outcome of bash', step: 1 })
    expect(now.divergence!.came).toContain('TOOL_DENIED')
    record(text =>
      text.replace(/"type":"tool\/result".*"durationMs":\d+\}/, line =>
        line.replace(/("message":\{.*\})(,"meta".*)$/, '$1,"error":{"code":"TOOL_DENIED","message":"no"}}'),
      ),
    )
    bench.home.write('cordis.patch.yml', '[]')
    const then = await report()
    expect(then.divergence?.what).toContain('the call of bash was refused (TOOL_DENIED), and is let through now')
  })

  it('of one turn takes over what was before it', async () => {
    await open(['One.', read('a.txt'), 'Two.', 'Three.'])
    bench.folder.write('a.txt', 'one\n')
    await bench.run(['first'])
    await bench.run(['--continue', 'second'])
    await bench.run(['--continue', 'third'])
    expect(await report('--turn', '2')).toMatchObject({ same: true, turns: 1, steps: 2, tools: { replayed: 1 } })
    expect(await report('--turn', '3')).toMatchObject({ same: true, turns: 1, steps: 1 })
    expect(await report()).toMatchObject({ same: true, turns: 3, steps: 4 })
    const { code, stderr } = await replay('--turn', '9')
    expect(code).toBe(2)
    expect(stderr).toContain('name one from 1 to 3')
  })

  it('stops where a turn was cancelled, says so, and goes on with the next', async () => {
    let stop = () => {}
    const running = new Promise<void>(resolve => {
      stop = resolve
    })
    await open([
      read('a.txt'),
      () => {
        stop()
        return { text: 'half an answer', pause: new Promise(() => {}) } as never
      },
      'After all.',
    ])
    bench.folder.write('a.txt', 'one\n')
    const { host, finished } = bench.start(['a long task'])
    await running
    host.signal('SIGINT')
    expect((await finished).code).toBe(130)
    expect((await bench.run(['--continue', 'go on'])).code).toBe(0)
    const found = await report()
    expect(found.divergence).toBeUndefined()
    expect(found).toMatchObject({ same: true, turns: 2, tools: { replayed: 1 } })
    expect(found.notes).toEqual(['turn 1 was cancelled (by user) in step 2: it is replayed up to there'])
  })

  it('goes through a fork from its beginning, and passes over events that nobody here knows', async () => {
    await open(['One.', 'Two.', 'Other.'])
    await bench.run(['first'])
    await bench.run(['--continue', 'second'])
    record(text => `${text}{"seq":${text.split('\n').length - 2},"time":1,"type":"strange/thing","data":{"x":1}}\n`)
    expect((await bench.run(['--continue', '--fork', 'another way'])).code).toBe(0)
    expect(logs()).toHaveLength(2)
    expect(await report()).toMatchObject({ same: true, turns: 3, steps: 3 })
  })

  it('of a turn that was cut off with its process goes up to there, and on after what closed it', async () => {
    await open([read('a.txt'), bash('echo once >> count.txt'), 'never read', 'I will look first.'])
    bench.folder.write('a.txt', 'one\n')
    await bench.run(['a task'])
    record(text => text.slice(0, text.indexOf('\n', text.lastIndexOf('"type":"tool/call"')) + 1))
    expect((await bench.run(['--continue', 'go on'])).code).toBe(0)
    expect(readFileSync(logs()[0]!, 'utf8')).toContain('TOOL_OUTCOME_UNKNOWN')
    const found = await report()
    expect(found).toMatchObject({ same: true, turns: 2, tools: { replayed: 1, run: 0 } })
    expect(found.notes).toEqual(['turn 1 was cut off with its process in step 2: it is replayed up to there'])
    expect(bench.folder.read('count.txt')).toBe('once\n')
  })

  it('of answers that hit the output limit, and of a compaction by hand, is the same', async () => {
    await open([{ ...bash('echo hi'), fault: 'length' }, 'One.', { text: 'much', finish: 'length' }, 'Three.'])
    await bench.run(['first'])
    await bench.run(['--continue', 'second'])
    record(text => {
      const events = text
        .trim()
        .split('\n')
        .map(line => JSON.parse(line))
      const [from, to] = [
        events.find(({ type }) => type === 'user/message'),
        events.findLast(({ type }) => type === 'assistant/message'),
      ]
      const message = {
        id: 'sum',
        role: 'user',
        content: [{ type: 'text', text: 'Summed up.' }],
        source: { kind: 'plugin', plugin: 'x' },
      }
      const seq = events.at(-1).seq + 1
      const event = { seq, time: 1, type: 'context/replaced', data: { from: from.seq, to: to.seq, message } }
      return `${text}${JSON.stringify(event)}\n`
    })
    await bench.run(['--continue', 'third'])
    expect(JSON.stringify(bench.server.requests.at(-1)!.body.messages)).toContain('Summed up.')
    const found = await report()
    expect(found.divergence).toBeUndefined()
    expect(found).toMatchObject({ same: true, turns: 3 })
  })

  it('says what it is asked for and is not there', async () => {
    await open([])
    const { code, stderr } = await replay()
    expect(code).toBe(2)
    expect(stderr).toContain('there is no session of')
    expect(await main(['replay', 'a', 'b'], testHost({ cwd: bench.folder.path }))).toBe(2)
  })
})

const DENY = `
export const name = 'deny'
export function apply(ctx) {
  ctx.on('tools/pre-execute', async (exec, next) =>
    exec.name === 'bash' ? { kind: 'deny', reason: 'no shell here' } : next())
}
`
