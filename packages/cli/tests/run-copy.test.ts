/** `cambium run` in a copy of a session: after a fork, and in place of what was said before. */

import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, describe, expect, test } from 'vitest'
import { type Bench, openBench } from './run-command.ts'
import { logOf as fileOf, openSessions, sessions } from './session-home.ts'

let bench: Bench
afterEach(() => bench?.close())

/** The log of a session, as lines. */
const logOf = (id: string): string[] => readFileSync(fileOf(bench.home.path, id), 'utf8').trimEnd().split('\n')

const asked = (at: number) => {
  const messages = bench.server.requests[at]!.body.messages.filter(({ role }) => role !== 'system')
  return messages.map(({ content }) =>
    typeof content === 'string'
      ? content
      : (content as { text?: string; type: string }[]).map(part => part.text ?? part.type),
  )
}

async function talk(...tasks: string[]): Promise<string> {
  let id = ''
  for (const [index, task] of tasks.entries()) {
    const { report } = await bench.run(['-o', 'json', ...(index ? ['--continue'] : []), task])
    id = report.session!
  }
  return id
}

describe('--fork', () => {
  test('goes on in a copy: the session stays as it is, and the report names both', async () => {
    bench = await openBench({ replies: ['one', 'two', 'other'] })
    const id = await talk('first', 'second')
    const before = logOf(id)
    const { code, report, stderr } = await bench.run(['-o', 'json', '--resume', id.slice(0, 12), '--fork', 'third'])
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    expect(report.session).not.toBe(id)
    expect(report.parent).toEqual({ id, events: before.length - 1 })
    expect(asked(2)).toEqual(['first', 'one', 'second', 'two', 'third'])
    expect(logOf(id)).toEqual(before)
    expect(JSON.parse(logOf(report.session!)[0]!).parent).toEqual(report.parent)
  })

  test('is what is proposed, word for word, when somebody writes the session', async () => {
    bench = await openBench({ replies: ['one', 'two'] })
    const id = await talk('first')
    const { ctx, end } = await openSessions(bench.home.path)
    await ctx.sessions.resume(id)
    const { code, stderr } = await bench.run(['--resume', id, 'more'])
    expect(code).toBe(1)
    expect(stderr).toContain(`go on in a copy: cambium run --resume ${id} --fork "…"`)
    const said = /cambium run (--resume \S+ --fork) "…"/.exec(stderr)![1]!.split(' ')
    expect(await bench.run([...said, 'more'])).toMatchObject({ code: 0, stdout: 'two\n' })
    await end()
  })

  test('a turn that has not ended is not in the copy, which is said', async () => {
    bench = await openBench({ replies: ['one', 'two'] })
    const id = await talk('first')
    const { ctx, end } = await openSessions(bench.home.path)
    const live = await ctx.sessions.resume(id)
    live.append('turn/start', { turn: 2 })
    await ctx.sessions.flush(live)
    const { stderr, stdout } = await bench.run(['--resume', id, '--fork', 'more'])
    expect(stdout).toBe('two\n')
    expect(stderr).toBe('cambium: turn 2 of it has not ended, and is not in the copy\n')
    await end()
  })
})

describe('--rewind', () => {
  test('says the new text in place of the turn, in a copy', async () => {
    bench = await openBench({ replies: ['one', 'two', 'three', 'TWO', 'again'] })
    const id = await talk('first', 'second', 'third')
    const before = logOf(id)
    const { report } = await bench.run(['-o', 'json', '--continue', '--rewind', '2', 'SECOND'])
    expect(asked(3)).toEqual(['first', 'one', 'SECOND'])
    expect(report).toMatchObject({ answer: 'TWO', parent: { id } })
    expect(logOf(id)).toEqual(before)
    await bench.run(['--resume', report.session!, '--rewind', 'last', 'Second'])
    expect(asked(4)).toEqual(['first', 'one', 'Second'])
  })

  test('keeps the pictures of the message whose text is edited, unless others are given', async () => {
    bench = await openBench({ replies: ['a picture', 'again'] })
    const png = Buffer.from(
      'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==',
      'base64',
    )
    bench.folder.write('shot.png', png)
    const { report } = await bench.run(['-o', 'json', '--image', 'shot.png', 'what is it?'])
    await bench.run(['--resume', report.session!, '--rewind', '1', 'what colour is it?'])
    expect(asked(1)).toEqual([['image_url', 'what colour is it?']])
  })

  test('without a new text nothing is done, and the message is shown', async () => {
    bench = await openBench({ replies: ['one', 'two'] })
    const id = await talk('first', 'fix\nthe list')
    const { code, stderr } = await bench.run(['--resume', id, '--rewind', '2'])
    expect(code).toBe(2)
    expect(stderr).toContain('--rewind needs what is to be said in place of turn 2')
    expect(stderr).toContain('it said: fix\\nthe list')
    expect(bench.server.requests).toHaveLength(2)
    expect(
      readdirSync(join(bench.home.path, 'sessions'), { recursive: true }).filter(name => /jsonl$/.test(`${name}`)),
    ).toHaveLength(1)
  })

  test('of a turn that there is not names those that there are', async () => {
    bench = await openBench({ replies: ['one'] })
    const id = await talk('first')
    const { code, stderr } = await bench.run(['--resume', id, '--rewind', '7', 'x'])
    expect(code).toBe(2)
    expect(stderr).toContain(`session ${id} has no turn 7`)
    expect(stderr).toContain('take one of 1 "first"')
  })

  test('restores files, and none when one of them is in the way, unless it is forced', async () => {
    const bash = (command: string) => ({ toolCalls: [{ name: 'bash', arguments: { command } }] })
    bench = await openBench({
      replies: [
        bash('echo one > a.txt; echo keep > b.txt'),
        'done',
        bash('echo two > a.txt; rm b.txt'),
        'done',
        'again',
        'more',
      ],
    })
    const id = await talk('first', 'second')
    const rewind = ['--resume', id, '--rewind', '2', '--restore-files']
    bench.folder.write('a.txt', 'mine\n')
    const refused = await bench.run([...rewind, 'x'])
    expect(refused.code).toBe(1)
    expect(refused.stderr).toMatch(/nothing was restored: 1 file cannot be put back without a loss: a\.txt \(/)
    expect(refused.stderr).toContain('--force puts them back all the same')
    expect(bench.server.requests).toHaveLength(4)
    expect(readdirSync(bench.folder.path)).toEqual(['a.txt'])
    const dry = await sessions(['rewind', id, '--turn', '2', '--restore-files', '--dry-run'], {
      cwd: bench.folder.path,
    })
    expect(dry.code).toBe(1)
    expect(dry.stdout).toMatch(/^would restore b\.txt\nin the way: a\.txt \(/)
    const forced = await bench.run([...rewind, '--force', 'x'])
    expect(forced.stdout).toBe('again\n')
    expect(forced.stderr).toContain('cambium: restored a.txt\ncambium: restored b.txt\n')
    expect(bench.folder.read('a.txt') + bench.folder.read('b.txt')).toBe('one\nkeep\n')
    const first = await sessions(['rewind', id, '--turn', '1', '--restore-files'], { cwd: bench.folder.path })
    expect(first.code).toBe(0)
    expect(first.stderr).toContain('removed a.txt\nremoved b.txt\n')
    expect(readdirSync(bench.folder.path)).toEqual([])
  })

  test('restores no files where none are kept, or while somebody works on them', async () => {
    bench = await openBench({ replies: ['one', 'two'] })
    const id = await talk('first')
    const rewind = ['--resume', id, '--rewind', '1', '--restore-files']
    bench.folder.write('none.yml', '- { id: file-checkpoints, disabled: true }\n')
    const none = await bench.run([...rewind, '--patch', 'none.yml', 'x'])
    expect(none.code).toBe(2)
    expect(none.stderr).toContain('no files can be restored: the tree keeps no checkpoints')
    const { ctx, end } = await openSessions(bench.home.path)
    await ctx.sessions.resume(id)
    const busy = await bench.run([...rewind, 'x'])
    expect(busy.code).toBe(1)
    expect(busy.stderr).toContain('is being written by')
    await end()
    expect(bench.server.requests).toHaveLength(1)
  })
})

test.each([
  ['--fork alone', ['--fork', 'x'], '--fork goes with --resume or --continue'],
  ['--rewind alone', ['--rewind', '2', 'x'], '--rewind goes with --resume or --continue'],
  ['both', ['-c', '--fork', '--rewind', '2', 'x'], '--fork and --rewind exclude each other'],
  ['a turn that is none', ['-c', '--rewind', 'two', 'x'], '--rewind two is not a turn'],
  ['--restore-files with --fork', ['-c', '--fork', '--restore-files', 'x'], '--restore-files goes with --rewind'],
  ['--force alone', ['-c', '--rewind', '2', '--force', 'x'], '--force goes with --restore-files'],
])('%s is a usage error', async (_, argv, text) => {
  bench = await openBench()
  const { code, stderr } = await bench.run(argv)
  expect(code).toBe(2)
  expect(stderr).toContain(text)
})
