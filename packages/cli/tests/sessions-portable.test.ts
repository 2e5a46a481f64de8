/** `cambium sessions` export, import and search, in this process. */

import { readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { Readable } from 'node:stream'
import { createRoot } from '@cambium/core'
import * as credentials from '@cambium/store/credentials'
import fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { NO_USAGE } from '../src/outcome.ts'
import { storyMarkdown } from '../src/sessions/story-markdown.ts'
import { type Bench, openBench } from './run-command.ts'
import { eventsOf, logOf, openSessions, sessions, turn, withSessions } from './session-home.ts'

const SECRET = 'sk-canary-4f9a81c2d7e05b36'

let bench: Bench
beforeEach(async () => {
  bench = await openBench({ replies: ['and on'] })
})
afterEach(() => bench.close())
const here = () => ({ cwd: bench.folder.path })
const home = () => bench.home.path

async function told(): Promise<void> {
  await withSessions(home(), ctx => {
    const undo = ctx.sessions.defineEvent('strange/thing' as never)
    const log = ctx.sessions.create('told-0001', { cwd: bench.folder.path })
    turn(log, 1, `use ${SECRET} for it`, {
      thoughts: 'Let me look.',
      calls: [
        { name: 'bash', args: { command: 'cat `a`.md' }, output: 'a\n````\nb\n````\n', meta: { exitCode: 1 } },
        {
          name: 'bash',
          args: { command: 'seq 40' },
          output: Array.from({ length: 40 }, (_, at) => `row ${at}`).join('\n'),
        },
      ],
      answer: 'Here:\n\n```ts\nconst x = 1',
    })
    log.append('strange/thing' as never, { kept: true } as never)
    turn(
      log,
      2,
      [
        { type: 'image', mediaType: 'image/png', data: 'A'.repeat(400) },
        { type: 'text', text: '# what <b>is</b> it?' },
      ],
      {
        answer: 'An image <details> `<b>` & <https://example.com>\n<!-- open',
      },
    )
    undo()
  })
}

describe('an export', () => {
  test('as JSON is imported again without a loss, under another id, and goes on', async () => {
    await told()
    const file = `${bench.folder.path}/told.json`
    const exported = await sessions(['export', 'told-0001', '-o', file, '--no-redact'], here())
    expect(exported).toMatchObject({ code: 0, stdout: '' })
    expect(exported.stderr).toContain(`exported to ${file}`)
    expect(exported.stderr).toContain('it is not redacted')
    expect(statSync(file).mode & 0o777).toBe(0o600)
    const taken = await sessions(['import', 'told.json'], here())
    expect(taken.code).toBe(1)
    expect(taken.stderr).toMatch(
      /another session told-0001 is stored already .*\n {2}give this one another id, such as --id \S+/,
    )
    const { code, stdout, stderr } = await sessions(['import', 'told.json', '--id', 'told-0002'], here())
    expect({ code, stdout }).toEqual({ code: 0, stdout: 'told-0002\n' })
    expect(stderr).toContain('go on with: cambium run --resume told-0002 "…"')
    expect(eventsOf(home(), 'told-0002')).toEqual(eventsOf(home(), 'told-0001'))
    expect(await bench.run(['--resume', 'told-0002', 'go on'])).toMatchObject({ code: 0, stdout: 'and on\n' })
    expect(JSON.stringify(bench.server.requests[0]!.body.messages)).toContain('# what <b>is</b> it?')
  })

  test('has no key that is known here, unless that is asked for, and says so', async () => {
    await told()
    const root = createRoot()
    await root.plugin(credentials, { home: home() })
    await root.credentials.set('GROQ_API_KEY', SECRET)
    await root.fiber.dispose()
    const markdown = await sessions(['export', 'told-0001'], here())
    expect(markdown.stdout).toContain('> use \\[redacted\\] for it'.replaceAll('\\', ''))
    expect(markdown.stdout).toContain('- known keys and tokens were taken out')
    const json = await sessions(['export', 'told-0001', '--format', 'json'], here())
    expect(json.json()).toMatchObject({ format: 'cambium-session', version: 1, redacted: true })
    for (const { stdout } of [markdown, json]) expect(stdout).not.toContain(SECRET)
    const whole = await sessions(['export', 'told-0001', '--no-redact'], here())
    expect(whole.stdout).toContain(SECRET)
    expect(whole.stdout).not.toContain('taken out')
    writeFileSync(`${bench.folder.path}/redacted.json`, json.stdout)
    const taken = await sessions(['import', 'redacted.json', '--id', 'told-0003'], here())
    expect(taken.stderr).toContain('without the keys that were taken out of it')
  })

  test('has no key of the environment either, of any provider', async () => {
    const key = 'gsk-4b7d19e0a6c35f82'
    vi.stubEnv('GROQ_API_KEY', key)
    await withSessions(home(), ctx => turn(ctx.sessions.create('keyed-01', here()), 1, `my key is ${key}`))
    const { code, stdout } = await sessions(['export', 'keyed-01'], { ...here(), env: { GROQ_API_KEY: key } })
    expect(code).toBe(0)
    expect(stdout).not.toContain(key)
  })

  test('as Markdown reads well: fences, quotes and tags end where they should', async () => {
    await told()
    const { stdout } = await sessions(['export', 'told-0001'], here())
    expect(stdout).toMatch(/^# use /)
    expect(stdout).toContain('\n**bash** ``cat `a`.md`` · exit code 1, 1.2 s\n\n`````text\na\n````\nb\n````\n`````\n')
    expect(stdout).toContain('<details><summary>40 lines</summary>\n\n```text\nrow 0\n')
    expect(stdout).toContain('Here:\n\n```ts\nconst x = 1\n```\n')
    expect(stdout).toContain('> [image/png, 300 B]\n>\n> # what <b>is</b> it?')
    expect(stdout).toContain('An image \\<details> `<b>` & <https://example.com>\n\\<!-- open')
  })

  test('of any conversation keeps its own headings out of what was said', () => {
    const bits = fc.constantFrom(
      '```',
      '~~~~',
      '`',
      '````md',
      '\n',
      '> ',
      '    ',
      '<!--',
      '<details>',
      '# x',
      '- ',
      'word ',
      '\\',
      '|',
    )
    const words = fc.array(bits, { maxLength: 14 }).map(parts => parts.join(''))
    fc.assert(
      fc.asyncProperty(words, words, words, async (prompt, output, answer) => {
        const { ctx, end } = await memory()
        const log = ctx.sessions.create('s1', { cwd: '/work' })
        turn(log, 1, prompt, { answer, calls: [{ name: 'bash', args: { command: output }, output }] })
        turn(log, 2, 'the end')
        const usage = {
          answer: '',
          stopReason: 'completed',
          exitCode: 0,
          turns: 2,
          steps: 3,
          toolCalls: 1,
          denied: [],
          usage: NO_USAGE,
        } as const
        const options = { title: prompt, redacted: true, usage, present: () => undefined }
        const text = [...storyMarkdown({ header: log.header, events: log.events(), notices: [] }, options)].join('')
        expect(headings(text)).toEqual(['## Turn 1', '## Turn 2'])
        await end()
      }),
      { numRuns: 60 },
    )
  })

  test('that cannot be written leaves nothing behind', async () => {
    await told()
    const { code, stderr } = await sessions(['export', 'told-0001', '-o', 'gone/x.md'], here())
    expect(code).toBe(1)
    expect(stderr).toContain('the session cannot be written: there is no folder')
    const folder = await sessions(['export', 'told-0001', '-o', '.'], here())
    expect(folder).toMatchObject({ code: 1, stderr: expect.stringContaining('cannot be written: it is a folder (/') })
  })
})

/** Those of ours that stand outside of fences, as CommonMark has them. */
function headings(text: string): string[] {
  let fence: string | undefined
  const found: string[] = []
  for (const line of text.split('\n')) {
    const marks = /^ {0,3}(`{3,}|~{3,})/.exec(line)?.[1]
    if (fence) {
      if (marks?.startsWith(fence) && /^\s*[`~]+\s*$/.test(line)) fence = undefined
    } else if (marks && !(marks.startsWith('`') && line.replace(/^ {0,3}`+/, '').includes('`'))) fence = marks
    else if (/^## Turn \d+$/.test(line)) found.push(line)
  }
  expect(fence).toBeUndefined()
  return found
}

async function memory() {
  const ctx = createRoot()
  await ctx.plugin(await import('@cambium/session'))
  return { ctx, end: () => ctx.fiber.dispose() }
}

describe('an import', () => {
  test('takes the file of a log, and what is piped in', async () => {
    await told()
    const text = readFileSync(logOf(home(), 'told-0001'), 'utf8')
    const stdin = Readable.from([Buffer.from(text.slice(0, -30))])
    const { code, stderr } = await sessions(['import', '-', '--id', 'told-0004', '--cwd', '.'], { ...here(), stdin })
    expect(code).toBe(0)
    expect(stderr).toContain('the last line is cut off and was left out')
    expect(eventsOf(home(), 'told-0004')).toEqual(eventsOf(home(), 'told-0001').slice(0, -1))
  })

  test('of something wrong stores nothing, and says where it is wrong', async () => {
    bench.folder.write(
      'bad.json',
      '{"format":"cambium-session","version":1,"header":{"version":1,"id":"x1","createdAt":1,"cwd":"/"},"events":[{"seq":1}]}',
    )
    bench.folder.write('text.json', 'hello')
    const bad = await sessions(['import', 'bad.json'], here())
    expect(bad.code).toBe(1)
    expect(bad.stderr).toMatch(/it is not the type of an event \(.*bad\.json, events\[0\]\.type\)/)
    expect((await sessions(['import', 'text.json'], here())).stderr).toMatch(
      /the file is not JSON \(.*text\.json, line 1/,
    )
    expect((await sessions(['import', 'gone.json'], here())).stderr).toMatch(
      /the file cannot be read: it is not there \(.*gone\.json\)/,
    )
    expect((await sessions(['import', '.'], here())).stderr).toMatch(/the file cannot be read: it is a folder \(\/.*\)/)
    bench.folder.write('other.json', '{"messages":[]}')
    expect((await sessions(['import', 'other.json'], here())).stderr).toMatch(
      /its format is not "cambium-session" \(.*other\.json, format\)/,
    )
    expect((await sessions(['list', '--all'], here())).stdout).toBe('')
  })

  test('that cannot be stored is one message, and tried once', async () => {
    await told()
    const { stdout } = await sessions(['export', 'told-0001', '--format', 'json'], here())
    bench.folder.write('told.json', stdout)
    const place = dirname(logOf(home(), 'told-0001'))
    rmSync(place, { recursive: true })
    writeFileSync(place, 'in the way')
    const failed = await sessions(['import', 'told.json', '--id', 'told-0006'], here())
    expect(failed).toMatchObject({ code: 1, stdout: '' })
    expect(failed.stderr).toMatch(/^cambium: cannot .*\n {2}\S.*\n$/)
  })

  test('whose folder is not here says how to bring it to another one', async () => {
    await withSessions(home(), ctx => turn(ctx.sessions.create('told-0005', { cwd: '/nowhere/at/all' }), 1, 'hi'))
    const { stdout } = await sessions(['export', 'told-0005', '--format', 'json'], here())
    writeFileSync(`${bench.folder.path}/far.json`, stdout)
    const far = await sessions(['import', 'far.json', '--id', 'far-0001'], here())
    expect(far.stderr).toContain('it works in /nowhere/at/all, which is not here: import it with --cwd')
    const near = await sessions(['import', 'far.json', '--id', 'far-0002', '--cwd', '.', '--json'], here())
    expect(near.json()).toMatchObject({ id: 'far-0002', cwd: bench.folder.path, redacted: true })
  })
})

describe('cambium sessions search', () => {
  test('groups what it finds by session, and marks it', async () => {
    await told()
    const { ctx, end } = await openSessions(home())
    turn(ctx.sessions.create('other-0001', { cwd: home() }), 1, 'the quick brown fox')
    await end()
    const found = await sessions(['search', 'brown', '--all'], here())
    expect(found.code).toBe(0)
    expect(found.stdout).toMatch(/^other-0001 .*\n.* you .*the quick \*brown\* fox/)
    const none = await sessions(['search', 'brown'], here())
    expect(none).toMatchObject({ code: 0, stdout: '' })
    expect(none.stderr).toContain('--all looks into those of other folders')
    const json = await sessions(['search', 'brown', '--all', '--json'], here())
    expect(json.json<{ hits: object[] }>().hits[0]).toMatchObject({
      id: 'other-0001',
      short: 'other-0001',
      role: 'user',
    })
    const anew = await sessions(['search', '--rebuild'], here())
    expect(anew).toMatchObject({ code: 0, stderr: 'the index was made anew from 2 sessions\n' })
  })

  test('says what is missing where the tree has none', async () => {
    bench.folder.write('none.yml', '- { id: session-search, disabled: true }\n')
    const { code, stderr } = await sessions(['search', 'x', '--patch', 'none.yml'], here())
    expect(code).toBe(1)
    expect(stderr).toContain('the tree mounts no search of sessions')
  })
})
