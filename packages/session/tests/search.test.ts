import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Context, keepSecrets } from '@cambium/core'
import type { Session, SessionPersistence } from '@cambium/session'
import type { SessionHit } from '@cambium/session/search'
import * as search from '@cambium/session/search'
import type {} from '@cambium/session/title'
import { takeLease } from '@cambium/store'
import { describe, expect, it, vi } from 'vitest'
import { bootStore, logOf, scratch, user } from './boot.ts'
import { answer, call, result } from './script.ts'

vi.setConfig({ testTimeout: 60_000 })

const say = (session: Session, text: string) => session.append('user/message', { message: user(text) })

async function bootSearch(folder: string, config: Partial<search.Config> = {}) {
  const booted = await bootStore(join(folder, 'sessions'))
  const plugin = booted.ctx.plugin(
    search,
    search.Config({ folder: join(folder, 'search'), ...config } as search.Config),
  )
  await plugin
  const find = async (query: string, options?: search.SessionSearchOptions) =>
    (await booted.ctx.sessionSearch.search(query, options)).hits
  const ids = async (query: string) => (await find(query)).map(({ id }) => id).sort()
  return { ...booted, plugin, find, ids }
}

/** A stored session in which a person said these texts. */
async function talk(ctx: Context, id: string, ...texts: string[]) {
  const session = ctx.sessions.create(id, { cwd: '/work/shop' })
  for (const text of texts) say(session, text)
  await ctx.sessions.close(session)
}

/** The reads of whole logs from here on. */
function countReads(ctx: Context): string[] {
  const reads: string[] = []
  const store = ctx.sessionPersistence as SessionPersistence & { constructor: { prototype: SessionPersistence } }
  const { prototype } = store.constructor
  const original = prototype.read
  ctx.effect(() => {
    prototype.read = function (this: SessionPersistence, id) {
      reads.push(id)
      return original.call(this, id)
    }
    return () => {
      prototype.read = original
    }
  }, 'counted reads')
  return reads
}

const marked = ({ snippet, matches }: SessionHit) => matches.map(([from, to]) => snippet.slice(from, to))
const segments = (folder: string) =>
  existsSync(join(folder, 'search')) ? readdirSync(join(folder, 'search')).filter(name => name.endsWith('.seg')) : []

describe('what is found', () => {
  it('what people, models and tools said, and titles, each with its place and the words marked in a line of it', async () => {
    const { ctx, find } = await bootSearch(scratch())
    ctx.sessions.defineEvent('session/title')
    const session = ctx.sessions.create('one', { cwd: '/work/shop' })
    session.append('turn/start', { turn: 1 })
    say(session, 'Where is the\n\n  zebra kept?')
    session.append('step/start', { turn: 1, step: 1 })
    session.append('assistant/message', answer(1, 'I look for the zebra.', 'c1'))
    session.append('tool/call', call(1, 'c1'))
    session.append('tool/result', result(1, 'c1', 'zoo/zebra.ts\nzoo/lion.ts'))
    const title = session.append('session/title', { title: 'Zebra hunt', by: 'user' })
    const hits = await find('zebra', { perSession: 10 })
    expect(hits.map(({ id, role, snippet }) => [id, role, snippet])).toEqual([
      ['one', 'title', 'Zebra hunt'],
      ['one', 'tool', 'zoo/zebra.ts zoo/lion.ts'],
      ['one', 'assistant', 'I look for the zebra.'],
      ['one', 'user', 'Where is the zebra kept?'],
    ])
    expect(hits[0]).toMatchObject({ seq: title.seq, time: title.time, title: expect.any(String) })
    expect(hits.map(marked)).toEqual([['Zebra'], ['zebra'], ['zebra'], ['zebra']])
  })

  it.each([
    // A word is found by its beginning, and by the beginning of a part of it, whatever the case.
    ['parseHeader(line)', 'parseheader', 'ParseHeader', 'header', 'head', 'PARSE', 'parse'],
    ['class HTTPServer2 {}', 'httpserver', 'server', 'server2', '2'],
    ['MAX_LINE_BYTES', 'line', 'max_line', 'line_bytes', 'bytes'],
    ['deployments fail', 'deploy', 'deployment fa', 'FAIL deploy'],
    // Writing without blanks is found anywhere.
    ['私は東京都に住んでいます', '東京', '京都', '東京都', '住んで', '東', 'す'],
    ['我们需要修复解析器的错误', '解析器', '修复', '错误', '器'],
    ['한국어 문장입니다', '한국', '국어', '문장'],
    ['ใช้ภาษาไทยได้', 'ภาษา', 'ไทย'],
    ['パーサーのparseHeaderを直す', 'パーサー', 'header', 'parseheaderを'],
    // Accents of Latin letters, and wide forms, are written by nobody who searches.
    ['Žluťoučký kůň at the café', 'zlutoucky', 'kun', 'CAFE', 'café'],
    ['ＡＢＣ１２３ をテスト', 'abc123', 'ABC'],
    // What would be syntax elsewhere is text.
    ['run a AND b OR NOT c', 'AND', 'or not', 'NOT'],
    ['x => y * 2, C++ and a.b-c', '=>', 'c++', 'a.b-c', '* 2', '.b'],
    ['col:val NEAR(a) ^up', 'col:val', 'near(a)', '^up', '(a)'],
    ['say "hello" now', '"hello', 'hello"'],
    // In quotes several words in a row, over the end of a line too, and words as they are.
    ['the quick\n   brown fox', '"quick brown"', '"QUICK  brown fox"', '"fox"'],
    ['emoji 🚀 launch 𠮷野家', '🚀', '𠮷野', '野家'],
  ])('%j', async (text, ...queries) => {
    const { ctx, find } = await bootSearch(scratch())
    await talk(ctx, 'one', text)
    for (const query of queries) expect([query, (await find(query)).length]).toEqual([query, 1])
  })

  it.each([
    ['a discarded card', 'iscard', '"car"', 'cards', '"discarded a"'],
    ['the quick brown fox', '"quick fox"', '"quic brown"', '"brown fo"', 'quick red'],
    ['東京都', '京東', '"東都"'],
    ['parse header', 'parseheader', 'parse_header', 'parse-header'],
    ['a.b', 'a*b', 'a?b', '%', '_'],
  ])('what is not in %j', async (text, ...queries) => {
    const { ctx, find } = await bootSearch(scratch())
    await talk(ctx, 'one', text)
    for (const query of queries) expect([query, await find(query)]).toEqual([query, []])
  })

  it('a message is not found for what is in the message beside it', async () => {
    const { ctx, find } = await bootSearch(scratch())
    await talk(ctx, 'one', 'a discarded card', 'the isca river', 'apple', 'pear', 'apple and pear')
    expect((await find('isca')).map(({ seq }) => seq)).toEqual([1])
    expect((await find('apple pear')).map(({ seq }) => seq)).toEqual([4])
  })

  it('an empty query is refused in words', async () => {
    const { ctx } = await bootSearch(scratch())
    for (const query of ['', ' \n\t', '""', '" "'])
      await expect(ctx.sessionSearch.search(query)).rejects.toMatchObject({ code: 'SESSION_QUERY_EMPTY' })
  })

  it('each of tens of thousands of words, in the messages that have it and in no other', async () => {
    const { ctx, find } = await bootSearch(scratch())
    // More terms than one page holds, and more text than one block.
    const word = (number: number) => `${(number * 7919).toString(36)}q${number}`
    for (let id = 0; id < 4; id++) {
      const texts = Array.from({ length: 25 }, (_, message) =>
        Array.from({ length: 400 }, (_, at) => word((id * 25 + message) * 400 + at)).join(' filler, '),
      )
      await talk(ctx, `s${id}`, ...texts)
    }
    for (let number = 3; number < 40_000; number += 4_001) {
      const message = Math.floor(number / 400)
      const hits = (await find(`"${word(number)}"`)).map(({ id, seq }) => [id, seq])
      expect([number, hits]).toEqual([number, [[`s${Math.floor(message / 25)}`, message % 25]]])
    }
  })

  it('a hit in a long text shows the words that are close together, in a line that begins and ends with whole words', async () => {
    const { ctx, find } = await bootSearch(scratch())
    const filler = 'lorem ipsum dolor sit amet '.repeat(40)
    await talk(ctx, 'one', `${filler}apple ${filler}the apple and the pear\u001b[31m are\u202e ripe ${filler}`)
    const [hit] = await find('apple pear')
    expect(hit?.snippet).toMatch(/^….*the apple and the pear \[31m are ripe .*…$/)
    expect(hit?.snippet.length).toBeLessThan(200)
    expect(hit && marked(hit)).toEqual(['apple', 'pear'])
  })

  it('of a very long result the beginning and the end are searched', async () => {
    const { ctx, ids } = await bootSearch(scratch(), { maxResultChars: 1_000 })
    const session = ctx.sessions.create('one')
    session.append('turn/start', { turn: 1 })
    session.append('step/start', { turn: 1, step: 1 })
    session.append('tool/result', result(1, 'c', `aardvark ${'x '.repeat(5_000)} bison ${'y '.repeat(5_000)} cheetah`))
    expect(await ids('aardvark')).toEqual(['one'])
    expect(await ids('cheetah')).toEqual(['one'])
    expect(await ids('bison')).toEqual([])
  })

  it('newest sessions come first, each with its newest messages, and none hides the others', async () => {
    const { ctx, find } = await bootSearch(scratch())
    await talk(ctx, 'old', 'apple 1')
    const session = ctx.sessions.create('new', { cwd: '/work/else' })
    for (let number = 2; number < 9; number++) say(session, `apple ${number}`)
    const shown = async (options?: search.SessionSearchOptions) =>
      (await find('apple', options)).map(({ id, snippet }) => `${id}: ${snippet}`)
    expect(await shown()).toEqual(['new: apple 8', 'new: apple 7', 'new: apple 6', 'old: apple 1'])
    expect(await shown({ limit: 2 })).toEqual(['new: apple 8', 'new: apple 7'])
    expect(await shown({ perSession: 1 })).toEqual(['new: apple 8', 'old: apple 1'])
    expect(await shown({ cwd: '/work/shop' })).toEqual(['old: apple 1'])
  })

  it('only the last title of a session counts', async () => {
    const { ctx, find } = await bootSearch(scratch())
    ctx.sessions.defineEvent('session/title')
    const session = ctx.sessions.create('one')
    const title = (text: string) => session.append('session/title', { title: text, by: 'user' })
    title('First name')
    expect(await find('first')).toHaveLength(1)
    title('Second name')
    expect(await find('first')).toEqual([])
    expect(await find('name')).toMatchObject([{ role: 'title', snippet: 'Second name' }])
  })

  it('a known key is neither kept nor shown, one that becomes known later is not shown', async () => {
    const folder = scratch()
    const { ctx, find } = await bootSearch(folder)
    const known = ['sk-live-9f8e7d6c5b4a3f2e']
    let secrets = known
    keepSecrets(ctx, () => secrets)
    await talk(ctx, 'one', 'the key is sk-live-9f8e7d6c5b4a3f2e, the other tok_0a1b2c3d4e5f6a7b8c')
    expect(await find('"sk-live-9f8e7d6c5b4a3f2e"')).toEqual([])
    secrets = []
    expect((await find('key'))[0]?.snippet).toBe('the key is [redacted], the other tok_0a1b2c3d4e5f6a7b8c')
    secrets = ['tok_0a1b2c3d4e5f6a7b8c']
    expect((await find('key'))[0]?.snippet).toBe('the key is [redacted], the other [redacted]')
    expect(await find('tok_0a1b2c3d4e5f6a7b8c')).toEqual([])
  })
})

describe('keeping up', () => {
  it('nothing is made before the first search, and all is for the owner only', async () => {
    const folder = scratch()
    const { ctx, ids } = await bootSearch(folder)
    await talk(ctx, 'one', 'apple')
    expect(existsSync(join(folder, 'search'))).toBe(false)
    await ids('apple')
    expect(segments(folder)).toHaveLength(1)
    if (process.platform === 'win32') return
    expect(statSync(join(folder, 'search')).mode & 0o777).toBe(0o700)
    for (const name of readdirSync(join(folder, 'search')))
      expect([name, statSync(join(folder, 'search', name)).mode & 0o777]).toEqual([name, 0o600])
  })

  it('a live session is searched up to its last word, and not read from the disk', async () => {
    const { ctx, ids } = await bootSearch(scratch())
    const reads = countReads(ctx)
    const session = ctx.sessions.create('one')
    say(session, 'apple')
    expect(await ids('apple')).toEqual(['one'])
    say(session, 'pear')
    expect(await ids('pear')).toEqual(['one'])
    expect(await ids('apple')).toEqual(['one'])
    expect(reads).toEqual([])
  })

  it('a stored session is read once, and again only when it has changed', async () => {
    const folder = scratch()
    const first = await bootSearch(folder)
    await talk(first.ctx, 'one', 'apple')
    await talk(first.ctx, 'two', 'apple')
    await first.ids('apple')
    await first.stop()

    const second = await bootSearch(folder)
    const reads = countReads(second.ctx)
    expect(await second.ids('apple')).toEqual(['one', 'two'])
    expect(reads).toEqual([])
    const session = await second.ctx.sessions.resume('one')
    say(session, 'pear')
    await second.ctx.sessions.close(session)
    const progress: number[][] = []
    expect(await second.find('pear', { onProgress: (...numbers) => progress.push(numbers) })).toHaveLength(1)
    expect(reads).toEqual(['one'])
    expect(progress).toEqual([
      [0, 1],
      [1, 1],
    ])
    expect(await second.find('apple', { perSession: 9 })).toHaveLength(2)
    expect(reads).toEqual(['one'])
  })

  it('a log that was cut, or exchanged for another one, is read from its beginning', async () => {
    const folder = scratch()
    const { ctx, ids } = await bootSearch(folder)
    await talk(ctx, 'one', 'apple', 'pear')
    const path = logOf(join(folder, 'sessions'), 'one')
    const whole = readFileSync(path, 'utf8')
    expect(await ids('pear')).toEqual(['one'])
    writeFileSync(path, `${whole.trim().split('\n').slice(0, 2).join('\n')}\n`)
    expect(await ids('pear')).toEqual([])
    expect(await ids('apple')).toEqual(['one'])
    writeFileSync(path, whole.replaceAll('apple', 'quince').replace(/"createdAt":\d+/, '"createdAt":12345'))
    expect(await ids('apple')).toEqual([])
    expect(await ids('quince')).toEqual(['one'])
    expect(await ids('pear')).toEqual(['one'])
  })

  it('many searches of a growing session leave few files, and everything is found in them', async () => {
    const folder = scratch()
    const { ctx, find } = await bootSearch(folder)
    const session = ctx.sessions.create('one')
    for (let number = 0; number < 40; number++) {
      say(session, `apple number${number}x`)
      expect(await find(`number${number}x`)).toHaveLength(1)
    }
    expect(segments(folder).length).toBeLessThan(12)
    expect((await find('apple', { limit: 99, perSession: 99 })).map(({ seq }) => seq)).toEqual(
      Array.from({ length: 40 }, (_, index) => 39 - index),
    )
  })

  it('a deleted session is not found, and leaves the disk when the plugin ends', async () => {
    const folder = scratch()
    const { ctx, ids, plugin } = await bootSearch(folder)
    await talk(ctx, 'one', 'apple')
    await talk(ctx, 'two', 'apple')
    expect(await ids('apple')).toEqual(['one', 'two'])
    const before = statSync(join(folder, 'search', segments(folder)[0]!)).size
    await ctx.sessionPersistence.delete('one')
    await plugin.dispose()
    const [left] = segments(folder)
    expect(statSync(join(folder, 'search', left!)).size).toBeLessThan(before)
    expect(segments(folder)).toHaveLength(1)
  })

  it('a session that was deleted behind its back is not found, and leaves the disk with the next search', async () => {
    const folder = scratch()
    const { ctx, ids } = await bootSearch(folder)
    await talk(ctx, 'one', 'apple')
    expect(await ids('apple')).toEqual(['one'])
    rmSync(logOf(join(folder, 'sessions'), 'one'))
    expect(await ids('apple')).toEqual([])
    expect(segments(folder)).toEqual([])
  })

  it('rebuild makes it anew', async () => {
    const folder = scratch()
    const { ctx, ids } = await bootSearch(folder)
    await talk(ctx, 'one', 'apple')
    await talk(ctx, 'two', 'pear')
    await ids('apple')
    const before = segments(folder)
    expect(await ctx.sessionSearch.rebuild()).toEqual({ sessions: 2 })
    expect(segments(folder)).toHaveLength(1)
    expect(segments(folder)).not.toEqual(before)
    expect(await ids('pear')).toEqual(['two'])
  })

  it('a search that is cancelled while the index is made ends at once, and the next one goes on', async () => {
    const folder = scratch()
    const { ctx, ids } = await bootSearch(folder)
    for (let number = 0; number < 30; number++) await talk(ctx, `s${number}`, `apple ${'word '.repeat(2_000)}`)
    const controller = new AbortController()
    const reason = new Error('enough')
    const searching = ctx.sessionSearch.search('apple', {
      signal: controller.signal,
      onProgress: done => done === 3 && controller.abort(reason),
    })
    await expect(searching).rejects.toBe(reason)
    expect(readdirSync(join(folder, 'search')).filter(name => name.endsWith('.tmp') || name === 'lock')).toEqual([])
    expect(await ids('apple')).toHaveLength(20)
  })

  it('a search that is under way when the plugin ends is broken off', async () => {
    const folder = scratch()
    const { ctx, plugin } = await bootSearch(folder)
    for (let number = 0; number < 30; number++) await talk(ctx, `s${number}`, `apple ${'word '.repeat(2_000)}`)
    let ended: Promise<unknown> | undefined
    const searching = ctx.sessionSearch.search('apple', {
      onProgress: done => {
        if (done === 3) ended = plugin.dispose()
      },
    })
    await expect(searching).rejects.toThrow('unmounted')
    await ended
    expect(ctx.get('sessionSearch')).toBeUndefined()
    expect(readdirSync(join(folder, 'search')).filter(name => name !== 'index.json')).toEqual([])
  })
})

describe('what goes wrong', () => {
  it('a damaged log is named, and the others are searched', async () => {
    const folder = scratch()
    const { ctx } = await bootSearch(folder)
    await talk(ctx, 'good', 'apple')
    await talk(ctx, 'torn', 'apple', 'pear')
    await talk(ctx, 'lost', 'apple')
    const torn = logOf(join(folder, 'sessions'), 'torn')
    writeFileSync(torn, readFileSync(torn, 'utf8').replace('{"seq":1', '{"seq":1,,,'))
    writeFileSync(logOf(join(folder, 'sessions'), 'lost'), 'no log at all\n')
    for (const query of ['apple', 'apple']) {
      const { hits, indexed, notices } = await ctx.sessionSearch.search(query)
      expect(hits.map(({ id }) => id).sort()).toEqual(['good', 'torn'])
      expect(indexed).toBe(2)
      expect(notices).toEqual([
        expect.stringMatching(/^session lost cannot be read and is not searched: /),
        expect.stringMatching(/^session torn: line 3 of the log could not be read/),
      ])
    }
  })

  const damages: [string, (folder: string) => void][] = [
    ['cut off', folder => truncateSync(join(folder, segments(join(folder, '..'))[0]!), 60)],
    [
      'overwritten in the middle',
      folder => {
        const path = join(folder, segments(join(folder, '..'))[0]!)
        const bytes = readFileSync(path)
        bytes.fill(7, 0, 20)
        writeFileSync(path, bytes)
      },
    ],
    [
      'changed where it lists its words',
      folder => {
        const path = join(folder, segments(join(folder, '..'))[0]!)
        const bytes = readFileSync(path)
        bytes.write('aqqle', bytes.indexOf('apple'))
        writeFileSync(path, bytes)
      },
    ],
    ['empty', folder => writeFileSync(join(folder, segments(join(folder, '..'))[0]!), '')],
    ['gone in part', folder => rmSync(join(folder, segments(join(folder, '..'))[0]!))],
    [
      'of another version',
      folder => writeFileSync(join(folder, 'index.json'), '{"format":"cambium-search","version":99}'),
    ],
    ['of another program', folder => writeFileSync(join(folder, 'index.json'), 'SQLite format 3\0')],
  ]
  it.each(damages)('an index that is %s is made anew, and that is said once', async (_, damage) => {
    const folder = scratch()
    const { ctx, stop } = await bootSearch(folder)
    await talk(ctx, 'one', 'apple')
    await ctx.sessionSearch.search('apple')
    await stop()
    damage(join(folder, 'search'))
    const again = await bootSearch(folder)
    const { hits, notices } = await again.ctx.sessionSearch.search('apple')
    expect(hits).toHaveLength(1)
    expect(notices).toEqual([expect.stringContaining('the search index was made anew')])
    expect((await again.ctx.sessionSearch.search('apple')).notices).toEqual([])
  })

  it('an index that was deleted is made again, also between two searches, and foreign files beside it stay', async () => {
    const folder = scratch()
    const { ctx } = await bootSearch(folder)
    await talk(ctx, 'one', 'apple')
    expect((await ctx.sessionSearch.search('apple')).hits).toHaveLength(1)
    rmSync(join(folder, 'search'), { recursive: true })
    mkdirSync(join(folder, 'search'))
    writeFileSync(join(folder, 'search', 'notes.txt'), 'mine')
    expect(await ctx.sessionSearch.search('apple')).toMatchObject({ hits: [{ id: 'one' }], notices: [] })
    expect(readFileSync(join(folder, 'search', 'notes.txt'), 'utf8')).toBe('mine')
  })

  it('where it cannot be kept one is made for the process, which is said, and it goes with the plugin', async () => {
    const folder = scratch()
    const mine = () => readdirSync(tmpdir()).filter(name => name.startsWith('cambium-search-'))
    const before = mine()
    writeFileSync(join(folder, 'file'), '')
    const { ctx, plugin } = await bootSearch(folder, { folder: join(folder, 'file', 'search') })
    await talk(ctx, 'one', 'apple')
    for (let time = 0; time < 2; time++) {
      const { hits, notices } = await ctx.sessionSearch.search('apple')
      expect(hits).toHaveLength(1)
      expect(notices).toEqual([expect.stringMatching(/cannot be kept: .*file.*for this process only/)])
    }
    expect(mine().filter(name => !before.includes(name))).toHaveLength(1)
    await plugin.dispose()
    expect(mine().filter(name => !before.includes(name))).toEqual([])
  })

  it('while another process updates the index, what is in it is searched after a bounded wait', async () => {
    const folder = scratch()
    const { ctx } = await bootSearch(folder, { lockMs: 60 })
    await talk(ctx, 'one', 'apple')
    await ctx.sessionSearch.search('apple')
    await talk(ctx, 'two', 'apple')
    const taking = takeLease(join(folder, 'search', 'lock'), { staleMs: 30_000 })
    const { hits, indexed, notices } = await ctx.sessionSearch.search('apple')
    expect(hits.map(({ id }) => id)).toEqual(['one'])
    expect(indexed).toBe(1)
    expect(notices).toEqual([expect.stringMatching(`not up to date: .*being updated by process ${process.pid}`)])
    await expect(ctx.sessionSearch.rebuild()).rejects.toMatchObject({ code: 'STORE_LOCKED' })
    if (taking.kind === 'taken') taking.lease.release()
    expect((await ctx.sessionSearch.search('apple')).hits).toHaveLength(2)
  })

  it('two at once on one home both find everything', async () => {
    const folder = scratch()
    const [first, second] = [await bootSearch(folder), await bootSearch(folder)]
    for (let number = 0; number < 10; number++) await talk(first.ctx, `s${number}`, 'apple')
    const found = await Promise.all([first.ids('apple'), second.ids('apple'), first.ids('apple'), second.ids('apple')])
    for (const ids of found) expect(ids).toHaveLength(10)
  })
})
