/** `cambium sessions` list, show, search, fork, rewind, delete and prune, in this process. */

import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { main } from '@cambium/cli'
import { type TempWorkspace, tempWorkspace } from '@cambium/testkit'
import stringWidth from 'string-width'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { type Bench, openBench } from './run-command.ts'
import { eventsOf, logOf, openSessions, sessions, turn, user, withSessions } from './session-home.ts'
import { Sink, testHost } from './streams.ts'

let home: TempWorkspace
let folder: TempWorkspace
beforeEach(() => {
  home = tempWorkspace()
  folder = tempWorkspace()
  vi.stubEnv('CAMBIUM_HOME', home.path)
})
afterEach(() => {
  vi.unstubAllEnvs()
  home.dispose()
  folder.dispose()
})

const here = () => ({ cwd: folder.path })
const make = (work: Parameters<typeof withSessions>[1]) => withSessions(home.path, work)

class Terminal extends Sink {
  readonly columns: number
  constructor(columns: number) {
    super(true)
    this.columns = columns
  }
}
const plain = { env: { NO_COLOR: '1' } }
/** What a terminal of that width shows, without colours. */
async function shown(columns: number, argv: readonly string[]): Promise<string[]> {
  const { lines } = await sessions(argv, { ...here(), ...plain, stdout: new Terminal(columns) })
  return [...lines]
}

/** Four of them, each written later than the one before, by the clock too. */
async function several(): Promise<void> {
  await make(async ctx => {
    const say = async (id: string, prompt: string, cwd = folder.path) => {
      const log = ctx.sessions.create(id, { cwd })
      turn(log, 1, prompt)
      await ctx.sessions.close(log)
      const now = Date.now()
      while (Date.now() === now);
    }
    await say('3f9ac1d2-aaaa-4bbb-8ccc-000000000001', 'fix the failing test')
    await say('3f9ac1d2-bbbb-4bbb-8ccc-000000000002', 'プロジェクトの構成を説明してください。長い題名です。')
    await say(
      '20261130-141503-k3f9qa',
      'tell me what this is about, and be \x1b]0;evil\x07 brief about it, but not too brief',
    )
    await say('elsewhere-0001', 'another folder', home.path)
  })
}

describe('cambium sessions list', () => {
  test('has the sessions of the folder, newest first; piped it is plain', async () => {
    await several()
    const { code, lines, stderr } = await sessions(['list'], here())
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    const rows = lines.map(line => line.split('\t'))
    expect(rows.map(([id]) => id)).toEqual([
      '20261130-141503-k3f9qa',
      '3f9ac1d2-bbbb-4bbb-8ccc-000000000002',
      '3f9ac1d2-aaaa-4bbb-8ccc-000000000001',
    ])
    expect(rows[2]).toEqual([
      expect.any(String),
      expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
      expect.stringMatching(/^\d+$/),
      '-',
      folder.path,
      'fix the failing test',
    ])
    expect((await sessions(['list', '--all'], here())).lines).toHaveLength(4)
    expect((await sessions(['list', '--cwd', home.path], here())).stdout).toContain('another folder')
    expect((await sessions(['list', '--limit', '1'], here())).lines).toHaveLength(1)
    expect((await sessions(['list', 'FAILING', 'fix'], here())).lines).toHaveLength(1)
    const nothing = await sessions(['list', 'nowhere'], here())
    expect(nothing).toMatchObject({ code: 0, stdout: '' })
    expect(nothing.stderr).toContain('cambium sessions search')
    const { sessions: list } = (await sessions(['list', '--json'], here())).json<{ sessions: object[] }>()
    expect(list[0]).toMatchObject({ id: '20261130-141503-k3f9qa', short: 'k3f9qa', cwd: folder.path })
  })

  test.each([80, 120])('on a terminal of %i columns every line fits, and nothing commands it', async columns => {
    await several()
    for (const argv of [['list'], ['list', '--all']]) {
      const lines = await shown(columns, argv)
      expect(lines.length).toBeGreaterThan(2)
      for (const line of lines) expect(stringWidth(line)).toBeLessThanOrEqual(columns)
      expect(lines.join('\n')).not.toMatch(/(?!\n)\p{Cc}/u)
      // One title below the other.
      const at = (text: string) => stringWidth(lines.find(line => line.includes(text))!.split(text)[0]!)
      expect(at('fix the failing')).toBe(at('プロジェクト'))
    }
    expect((await shown(columns, ['list']))[0]).toMatch(/^k3f9qa +just now +\d\.\d kB +tell me what this is about/)
  })

  test('shows ids that are short, and fit no other session', async () => {
    await several()
    const ids = (await shown(100, ['list', '--all'])).map(line => line.split(' ')[0]!)
    expect(ids).toContain('3f9ac1d2-a')
    for (const id of ids) expect(await sessions(['show', id], here())).toMatchObject({ code: 0 })
    const { code, stderr } = await sessions(['show', '3f9ac1d2'], here())
    expect(code).toBe(2)
    expect(stderr).toContain('3f9ac1d2 fits 2 sessions\n  one of: 3f9ac1d2-b, 3f9ac1d2-a')
    expect(await sessions(['show', 'nobody1'], here())).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('there is no session nobody1'),
    })
  })

  test('marks copies and those that somebody writes, and names what is damaged with its path', async () => {
    await several()
    const live = await openSessions(home.path)
    const parent = await live.ctx.sessions.resume('3f9ac1d2-aaaa-4bbb-8ccc-000000000001')
    turn(live.ctx.sessions.fork(parent, { turn: 1, id: 'copy-0001' }), 2, 'in the copy')
    for (const session of live.ctx.sessions.list()) await live.ctx.sessions.flush(session)
    const broken = join(dirname(logOf(home.path, 'copy-0001')), 'broken-1.jsonl')
    writeFileSync(broken, 'not a log\n')
    const lines = await shown(80, ['list'])
    expect(lines.find(line => line.startsWith('copy-0001'))).toMatch(/\[live, copy of 3f9ac1d2-a\] fix the/)
    expect(lines.find(line => line.startsWith('3f9ac1d2-a'))).toMatch(/\[live\] fix the/)
    // A narrow one keeps room for what it is about.
    expect((await shown(44, ['list'])).find(line => line.startsWith('copy-0001'))).toMatch(/\[live, copy\] fix/)
    const at = lines.findIndex(line => line.startsWith('broken-1'))
    expect(lines[at]).toContain('damaged: its first line is not')
    expect(lines[at + 1]!.trim()).toBe(broken)
    const rows = (await sessions(['list'], here())).lines.map(line => line.split('\t'))
    expect(rows.find(([id]) => id === 'copy-0001')![3]).toBe('live,fork')
    expect(rows.find(([id]) => id === 'broken-1')![5]).toContain(`(${broken})`)
    await live.end()
  })

  test('of a folder without sessions says so, and that there are others', async () => {
    expect((await sessions(['list'], here())).stderr).toBe('cambium: there are no sessions yet\n')
    await several()
    const { code, stderr } = await sessions(['list'], { cwd: tempWorkspace().path })
    expect(code).toBe(0)
    expect(stderr).toContain('--all lists the 4 of other folders')
  })

  test('thousands are listed without a wait', async () => {
    await several()
    const file = logOf(home.path, '20261130-141503-k3f9qa')
    const text = readFileSync(file, 'utf8')
    for (let index = 0; index < 2_000; index++) {
      const id = `20261130-150000-${String(index).padStart(6, 'a')}`
      writeFileSync(join(dirname(file), `${id}.jsonl`), text.replace('20261130-141503-k3f9qa', id))
    }
    const startedAt = performance.now()
    expect((await sessions(['list'], here())).lines).toHaveLength(2_003)
    // Far less as a rule; reading each of them whole, or once for each other, would take far more.
    expect(performance.now() - startedAt).toBeLessThan(6_000)
  })
})

describe('cambium sessions show', () => {
  const output = Array.from({ length: 20 }, (_, index) => `\x1b[31mline ${index}\x1b[0m ${'x'.repeat(200)}`).join('\n')
  async function told(): Promise<void> {
    await make(ctx => {
      const log = ctx.sessions.create('told-0001', { cwd: folder.path })
      turn(log, 1, 'fix the test', {
        thoughts: 'Tests first.\nThen the fix.',
        calls: [
          { name: 'bash', args: { command: 'npm test' }, output, meta: { exitCode: 1 } },
          { name: 'bash', args: { command: 'rm -rf /' }, output: 'not allowed', code: 'TOOL_DENIED' },
        ],
        answer: 'It is\x1b[2J fixed\u202e.',
      })
      turn(
        log,
        2,
        [
          { type: 'image', mediaType: 'image/png', data: 'A'.repeat(4_000) },
          { type: 'text', text: 'now the docs' },
        ],
        {
          steered: 'and be brief',
          model: 'other-model',
        },
      )
      const [first, , third] = log.surface()
      const message = { ...user('a\nb\nc\nd\ne'), source: { kind: 'plugin', plugin: 'compaction' } as const }
      log.append('context/replaced', { from: first!.seq, to: third!.seq, message })
      turn(log, 3, 'go on', {
        calls: [{ name: 'bash', args: { command: 'sleep 100' } }],
        answer: 'I was about',
        interrupted: true,
        reason: { kind: 'aborted', by: 'user', reason: 'SIGINT' },
      })
      log.append('turn/start', { turn: 4 })
    })
  }

  test('is a transcript: who said what, what was called and what came of it, where it was cut and compacted', async () => {
    await told()
    const { code, stdout, stderr } = await sessions(['show', 'told-0001'], here())
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    expect(stdout).toMatch(/^fix the test\nsession told-0001 · /)
    expect(stdout).toMatch(
      /── turn 1 · .* ──+\n\nyou:\nfix the test\n\nopenai\/test-model:\nthinking: Tests first\. Then the fix\.\n/,
    )
    expect(stdout).toMatch(
      / {2}✗ bash npm test exit code 1, 1\.2 s\n {6}line 0 x+…\n {6}line 1 x+…\n {6}line 2 x+…\n {6}… 17 more lines\n/,
    )
    expect(stdout).toContain('  ⊘ bash rm -rf / 1.2 s\n      not allowed\n')
    expect(stdout).toContain('the model is openai/other-model from here on; it was openai/test-model')
    expect(stdout).toContain('you:\n[image/png, 3.0 kB]\nnow the docs\n')
    expect(stdout).toContain('you:\nand be brief\n')
    expect(stdout).toMatch(
      /── compacted: the model reads this in place of 3 messages above ─+\na\nb\nc\n… 2 more lines\n/,
    )
    expect(stdout).toContain('I was about\n(interrupted here)\n')
    expect(stdout).toContain('turn 3 was stopped by the user: SIGINT')
    expect(stdout).toContain('turn 4 has not ended')
    expect(stdout).toMatch(/\n4 turns · 5 steps · 3 calls · 5\.0k tokens in, 100 out\n$/)
    expect(stdout).toContain('… bash sleep 100 no result')
    // What it says can neither command a terminal nor look like something else.
    expect(stdout).not.toMatch(/(?!\n)\p{Cc}|\u202e/u)
    expect(stdout).toContain('It is\\x1b[2J fixed\\u{202e}.')
  })

  test('results that the model reads shorter are counted, and shown as they were', async () => {
    await make(ctx => {
      const log = ctx.sessions.create('short-0001', { cwd: folder.path })
      turn(log, 1, 'look', { calls: [1, 2].map(at => ({ name: 'read', args: { at }, output: `whole result ${at}` })) })
      for (const { seq, message } of log.surface()) {
        if (message.source.kind !== 'tool') continue
        const [block] = message.content
        const short = { ...block, content: [{ type: 'text', text: '…' }] }
        const shorter = { ...message, content: [short] } as never
        log.append('context/replaced', { from: seq, to: seq, message: shorter })
      }
      turn(log, 2, 'go on')
    })
    const { stdout } = await sessions(['show', 'short-0001'], here())
    expect(stdout).toContain('whole result 2')
    expect(stdout).toMatch(/\n· compacted: the model reads 2 messages above shorter from here on\n\n── turn 2/)
    expect((await sessions(['show', 'short-0001', '--turn', '2'], here())).stdout).not.toContain('shorter')
  })

  test('shows all of it with --full, one turn with --turn, and what is stored with --raw and --json', async () => {
    await told()
    const full = await sessions(['show', 'told-0001', '--full'], here())
    expect(full.stdout).toContain(`line 19 ${'x'.repeat(200)}`)
    expect(full.stdout).toContain('thinking: Tests first.\nThen the fix.\n')
    const one = await sessions(['show', 'told-0001', '--turn', '2'], here())
    expect(one.stdout).toContain('now the docs')
    expect(one.stdout).not.toMatch(/fix the test|turn 1|turn 3|compacted/)
    expect(await sessions(['show', 'told-0001', '--turn', 'last'], here())).toMatchObject({
      stdout: expect.stringContaining('turn 4'),
    })
    const { code, stderr } = await sessions(['show', 'told-0001', '--turn', '9'], here())
    expect({ code, stderr }).toEqual({
      code: 2,
      stderr: expect.stringContaining('take one of 1 "fix the test", 2 "now the docs"'),
    })
    const raw = await sessions(['show', 'told-0001', '--raw'], here())
    expect(raw.lines.map(line => JSON.parse(line))).toEqual(eventsOf(home.path, 'told-0001'))
    const json = (await sessions(['show', 'told-0001', '--json'], here())).json<{
      turns: { turn: number }[]
      transcript: { kind: string }[]
    }>()
    expect(json).toMatchObject({ header: { id: 'told-0001' }, title: 'fix the test', toolCalls: 3 })
    expect(json.turns.map(found => found.turn)).toEqual([1, 2, 3, 4])
    expect(json.transcript.some(({ kind }) => kind === 'replaced')).toBe(true)
  })

  test('has colours on a terminal only, and NO_COLOR is honoured', async () => {
    await told()
    const colours = await sessions(['show', 'told-0001'], { ...here(), stdout: new Terminal(80) })
    expect(colours.stdout).toContain('\x1b[36myou:\x1b[39m')
    // Ours alone: none of those that were in the log.
    expect(colours.stdout.replaceAll('\x1b[31m\x1b[0m', '').split('\x1b[2J')).toHaveLength(1)
    const none = await sessions(['show', 'told-0001'], { ...here(), ...plain, stdout: new Terminal(80) })
    expect(none.stdout).not.toContain('\x1b')
  })

  test('says where it comes from, where its own part begins, and what was made from it', async () => {
    await several()
    await make(async ctx => {
      const parent = await ctx.sessions.resume('3f9ac1d2-aaaa-4bbb-8ccc-000000000001')
      turn(parent, 2, 'more')
      turn(ctx.sessions.rewind(parent, { turn: 2 }, { id: 'copy-0001' }).session, 2, 'otherwise')
    })
    expect((await sessions(['show', '3f9ac1d2-a'], here())).stdout).toContain('copied to copy-0001\n')
    const { stdout } = await sessions(['show', 'copy-0001'], here())
    expect(stdout).toMatch(/a copy of 3f9ac1d2-a, with its first \d+ events\n/)
    expect(stdout).toMatch(
      /you:\nfix the failing test\n[\s\S]*copied from 3f9ac1d2-a; what follows is this session's own[\s\S]*you:\notherwise/,
    )
  })

  test('a reader who leaves early ends it in good order', async () => {
    await told()
    const gone = Object.assign(new Error('gone'), { code: 'EPIPE' })
    expect(await sessions(['show', 'told-0001'], { ...here(), stdout: new Sink(false, gone) })).toMatchObject({
      code: 0,
      stderr: '',
    })
  })
})

describe('copies', () => {
  let bench: Bench
  beforeEach(async () => {
    bench = await openBench({ replies: ['one', 'two', 'three', 'four'] })
  })
  afterEach(() => bench.close())
  const there = () => ({ cwd: bench.folder.path })
  const talk = async (...tasks: string[]) => {
    let id = ''
    for (const [index, task] of tasks.entries()) {
      id = (await bench.run(['-o', 'json', ...(index ? ['--continue'] : []), task])).report.session!
    }
    return id
  }
  const asked = (at: number) =>
    bench.server.requests[at]!.body.messages.flatMap(({ role, content }) => (role === 'system' ? [] : [content]))

  test('fork prints an id that can be gone on with, up to a turn where one is named', async () => {
    const id = await talk('first', 'second')
    const all = await sessions(['fork', id.slice(0, 8)], there())
    expect(all.code).toBe(0)
    const [line] = all.lines
    expect(all.stdout).toBe(`${line}\n`)
    expect(all.stderr).toMatch(/^a copy of \S+ up to turn 2; go on with: cambium run --resume \S+ "…"\n$/)
    const first = await sessions(['fork', id, '--turn', '1', '--json'], there())
    expect(first.json()).toMatchObject({ parent: { id }, turn: 1 })
    await bench.run(['--resume', /--resume (\S+)/.exec(all.stderr)![1]!, 'third'])
    expect(asked(2)).toEqual(['first', 'one', 'second', 'two', 'third'])
    await bench.run(['--resume', String(first.json()['id']), 'third'])
    expect(asked(3)).toEqual(['first', 'one', 'third'])
  })

  test('rewind prints an id and what was asked; the first turn too can be taken back', async () => {
    const id = await talk('first', 'second')
    const { lines, stderr, code } = await sessions(['rewind', id, '--turn', 'last'], there())
    expect(code).toBe(0)
    expect(stderr).toContain('that ends before turn 2; go on with: cambium run --resume')
    expect(stderr).toContain('that turn was asked: second')
    await bench.run(['--resume', lines[0]!, 'SECOND'])
    expect(asked(2)).toEqual(['first', 'one', 'SECOND'])
    const all = await sessions(['rewind', id, '--turn', '1', '--json'], there())
    expect(all.json()).toMatchObject({ back: 1, turn: 0, said: [{ type: 'text', text: 'first' }], parent: { id } })
    await bench.run(['--resume', String(all.json()['id']), 'FIRST'])
    expect(asked(3)).toEqual(['FIRST'])
    const { stderr: unknown, code: usage } = await sessions(['rewind', id, '--turn', '3'], there())
    expect(usage).toBe(2)
    expect(unknown).toContain('take one of 1 "first", 2 "second"')
  })
})

describe('cambium sessions delete', () => {
  test('asks a person, and refuses without one unless it is told to', async () => {
    await several()
    const file = logOf(home.path, '20261130-141503-k3f9qa')
    const refused = await sessions(['delete', 'k3f9qa'], here())
    expect(refused.code).toBe(2)
    expect(refused.stderr).toContain('add --yes when you are sure')
    const no = await sessions(['delete', 'k3f9qa'], { ...here(), keyboard: 'n\n' })
    expect(no).toMatchObject({ code: 1, stderr: expect.stringContaining('nothing was deleted') })
    expect(existsSync(file)).toBe(true)
    const yes = await sessions(['delete', 'k3f9qa'], { ...here(), keyboard: 'y\n' })
    expect(yes).toMatchObject({ code: 0, stdout: 'deleted 20261130-141503-k3f9qa\n' })
    expect(yes.stderr).toMatch(/^k3f9qa {2}\d\.\d kB {2}tell me .*\ndelete it\? \[y\/N\] $/)
    expect(existsSync(file)).toBe(false)
  })

  test('finds all of them first, deletes what it can, and leaves and names what is written, and copies', async () => {
    await several()
    const live = await openSessions(home.path)
    const parent = await live.ctx.sessions.resume('3f9ac1d2-aaaa-4bbb-8ccc-000000000001')
    await live.ctx.sessions.close(live.ctx.sessions.fork(parent, { turn: 1, id: 'copy-0001' }))
    const none = await sessions(['delete', 'k3f9qa', 'nobody1', '--yes'], here())
    expect(none.code).toBe(2)
    expect(existsSync(logOf(home.path, '20261130-141503-k3f9qa'))).toBe(true)
    const { code, stdout, stderr } = await sessions(['delete', '3f9ac1d2-a', 'k3f9qa', 'k3f9qa', '--yes'], here())
    expect(code).toBe(1)
    expect(stdout).toBe('deleted 20261130-141503-k3f9qa\n')
    expect(stderr).toContain('1 copy of it stays: copy-0001')
    expect(stderr).toContain('is being written by')
    await live.end()
    expect(await sessions(['delete', '3f9ac1d2-a', '--yes'], here())).toMatchObject({ code: 0 })
    expect(await sessions(['show', 'copy-0001'], here())).toMatchObject({ code: 0 })
  })
})

describe('cambium sessions prune', () => {
  test('tells first, asks, and leaves what is kept; of all folders, or of one', async () => {
    await several()
    const dry = await sessions(['prune', '--keep', '1', '--dry-run'], here())
    expect(dry.code).toBe(0)
    expect(dry.stdout).toContain('3 sessions would go')
    const refused = await sessions(['prune', '--keep', '1'], here())
    expect(refused.code).toBe(2)
    expect((await sessions(['list', '--all'], here())).lines).toHaveLength(4)
    const folderOnly = await sessions(['prune', '--keep', '1', '--cwd', folder.path, '--yes'], here())
    expect(folderOnly).toMatchObject({ code: 0, stdout: expect.stringMatching(/^deleted 2 sessions, .* left\n$/) })
    expect((await sessions(['list', '--all'], here())).lines).toHaveLength(2)
    const none = await sessions(['prune', '--older-than', '30d', '--json'], here())
    expect(none.json()).toMatchObject({ dryRun: false, removed: [] })
  })

  test('asks with one line for each', async () => {
    await several()
    const { stderr } = await sessions(['prune', '--keep', '1'], here())
    expect(stderr).toMatch(/^(?:\S.*\n){3}3 sessions would go, .*\ncambium: nobody can be asked/)
  })

  test('without any limit says so', async () => {
    await several()
    for (const argv of [['prune'], ['prune', '--dry-run'], ['prune', '--yes']]) {
      const { code, stdout, stderr } = await sessions(argv, here())
      expect({ code, stdout }).toEqual({ code: 0, stdout: '' })
      expect(stderr).toMatch(/no limit is set\n {2}say --older-than, --keep or --max-size, or set jsonl\.retention/)
    }
    const set = await sessions(['prune', '--set', 'jsonl.retention.maxSessions=9'], here())
    expect(set.stdout).toMatch(/^deleted 0 sessions/)
  })

  test.each([
    [['--older-than', '30'], '--older-than 30 is not an age'],
    [['--max-size', 'big'], '--max-size big is not a size'],
    [['--keep', 'all'], '--keep all is not a whole number'],
  ])('%j is a usage error', async (argv, text) => {
    const { code, stderr } = await sessions(['prune', ...argv], here())
    expect(code).toBe(2)
    expect(stderr).toContain(text)
  })
})

describe('the command line', () => {
  test('each subcommand has a help of its own, with its flags', async () => {
    const all = await sessions(['--help'])
    for (const verb of ['list', 'show', 'search', 'fork', 'rewind', 'delete', 'prune', 'export', 'import']) {
      expect(all.stdout).toMatch(new RegExp(`^ {2}${verb} `, 'm'))
      for (const argv of [
        [verb, '--help'],
        ['-h', verb],
      ]) {
        const { code, stdout, lines } = await sessions(argv)
        expect(code).toBe(0)
        expect(stdout).toMatch(new RegExp(`^usage: cambium sessions ${verb}`))
        expect(Math.max(...lines.map(line => line.length))).toBeLessThanOrEqual(120)
      }
    }
    const host = testHost()
    await main(['help', 'sessions', 'prune'], host)
    expect(host.stdout.text).toContain('--older-than <age>')
  })

  test.each([
    [[], 'sessions needs a word'],
    [['show'], 'usage: cambium sessions show <id> [flags]\n       cambium sessions show --help lists what there is\n'],
    [
      ['list', '--trun', '1'],
      'usage: cambium sessions list [flags] [word …]\n       cambium sessions list --help lists',
    ],
    [['lst'], 'did you mean cambium sessions list?'],
    [['rm', 'x'], 'did you mean cambium sessions delete?'],
    [['show'], 'sessions show needs an id'],
    [['show', 'a1', 'b1'], 'sessions show takes one id'],
    [['delete'], 'sessions delete needs an id'],
    [['rewind', 'a1'], 'sessions rewind needs --turn'],
    [['rewind', 'a1', '--turn', 'x'], '--turn x is not a turn'],
    [['rewind', 'a1', '--turn', '1', '--force'], '--force goes with --restore-files'],
    [['list', '--all', '--cwd', '.'], '--all and --cwd exclude each other'],
    [['list', '--full'], 'unknown flag --full'],
    [['search'], 'sessions search needs something to look for'],
    [['export', 'a1', '--format', 'pdf'], 'one of: markdown, json'],
  ])('%j is a usage error', async (argv, text) => {
    const { code, stderr } = await sessions(argv, here())
    expect(code).toBe(2)
    expect(stderr).toContain(text)
  })

  test('without a store it says what is missing', async () => {
    folder.write('none.yml', '- { id: jsonl, disabled: true }\n- { id: session-search, disabled: true }\n')
    const { code, stderr } = await sessions(['list', '--patch', 'none.yml'], here())
    expect(code).toBe(2)
    expect(stderr).toContain('the tree mounts no store of sessions')
  })
})
