/** `cambium run` in a copy of a session: after a fork, and in place of what was said before. */

import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { createRoot } from '@cambium/core'
import * as session from '@cambium/session'
import * as jsonl from '@cambium/session/jsonl'
import { afterEach, describe, expect, test, vi } from 'vitest'
import { type Bench, openBench } from './run-command.ts'

let bench: Bench
afterEach(() => bench?.close())

/** The log of a session, as lines. */
function logOf(id: string): string[] {
  const root = join(bench.home.path, 'sessions')
  const file = readdirSync(root, { recursive: true, encoding: 'utf8' }).find(name => name.endsWith(`${id}.jsonl`))
  return readFileSync(join(root, file!), 'utf8').trimEnd().split('\n')
}

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
    const root = createRoot()
    await root.plugin(session)
    await root.plugin(jsonl, jsonl.Config({ folder: join(bench.home.path, 'sessions') } as jsonl.Config))
    await root.sessions.resume(id)
    const { code, stderr } = await bench.run(['--resume', id, 'more'])
    expect(code).toBe(1)
    expect(stderr).toContain(`go on in a copy: cambium run --resume ${id} --fork "…"`)
    const said = /cambium run (--resume \S+ --fork) "…"/.exec(stderr)![1]!.split(' ')
    expect(await bench.run([...said, 'more'])).toMatchObject({ code: 0, stdout: 'two\n' })
    await root.fiber.dispose()
  })

  test('a turn that has not ended is not in the copy, which is said', async () => {
    bench = await openBench({ replies: ['one', 'two'] })
    const id = await talk('first')
    const root = createRoot()
    await root.plugin(session)
    await root.plugin(jsonl, jsonl.Config({ folder: join(bench.home.path, 'sessions') } as jsonl.Config))
    const live = await root.sessions.resume(id)
    live.append('turn/start', { turn: 2 })
    await root.sessions.flush(live)
    const { stderr, stdout } = await bench.run(['--resume', id, '--fork', 'more'])
    expect(stdout).toBe('two\n')
    expect(stderr).toBe('cambium: turn 2 of it has not ended, and is not in the copy\n')
    await root.fiber.dispose()
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
    bench = await openBench({ replies: ['one', 'two'] })
    vi.stubEnv('RESTORER_ASKED', '')
    const id = await talk('first')
    const restorer = bench.folder.write(
      'restorer.mjs',
      `export const name = 'restorer'
export const provide = ['checkpoints']
const asked = []
export function apply(ctx, { conflict }) {
  ctx.provide('checkpoints', {
    async restore(source, seq, { dryRun = false, force = false }) {
      asked.push(JSON.stringify({ dryRun, force }))
      process.env['RESTORER_ASKED'] = asked.at(-1)
      const conflicts = conflict ? [{ path: 'a\\x1b.txt', why: 'changed since' }] : []
      return { restored: ['b.txt'], removed: ['c.txt'], conflicts, unknown: [] }
    },
  })
}
`,
    )
    const patch = (config: object) =>
      bench.folder.write('restore.yml', JSON.stringify([{ insert: [{ id: 'restorer', name: restorer, config }] }]))
    const rewind = ['--resume', id, '--rewind', '1', '--restore-files']
    patch({ conflict: true })
    const refused = await bench.run([...rewind, '--patch', 'restore.yml', 'x'])
    expect(refused.code).toBe(1)
    expect(process.env['RESTORER_ASKED']).toBe('{"dryRun":true,"force":false}')
    expect(refused.stderr).toContain('nothing was restored: 1 file cannot be put back without a loss')
    expect(refused.stderr).toContain('a\\x1b.txt (changed since)')
    expect(bench.server.requests).toHaveLength(1)
    const forced = await bench.run([...rewind, '--force', '--patch', 'restore.yml', 'x'])
    expect(forced.stdout).toBe('two\n')
    expect(process.env['RESTORER_ASKED']).toBe('{"dryRun":false,"force":true}')
    expect(forced.stderr).toContain('cambium: restored b.txt\ncambium: removed c.txt\ncambium: forced: a\\x1b.txt')
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
