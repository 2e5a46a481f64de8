import {
  chmodSync,
  existsSync,
  linkSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { gitFiles, openBench, sh, treeOf } from './checkpoint-bench.ts'

const bash = (command: string): [string, object] => ['bash', { command }]
const write = (file_path: string, content: string): [string, object] => ['write', { file_path, content }]
const edit = (file_path: string, old_string: string, new_string: string): [string, object] => [
  'edit',
  { file_path, old_string, new_string },
]

describe('what the file tools touch', () => {
  it('comes back as it was before the turn: changed ones, new ones, new folders', async () => {
    const bench = await openBench({ files: { 'a.txt': 'one\r\ntwo\r\n', 'sub/b.txt': 'b' } })
    chmodSync(join(bench.dir, 'sub/b.txt'), 0o755)
    const start = treeOf(bench.dir)
    await bench.turn(
      edit('a.txt', 'one', '1'),
      edit('a.txt', 'two', '2'),
      write('sub/b.txt', 'B'),
      write('x/y/new', 'n'),
    )
    await bench.turn(write('a.txt', 'later'))
    const report = await bench.restore(bench.before(1))
    expect(treeOf(bench.dir)).toEqual(start)
    expect(report).toMatchObject({ restored: ['a.txt', 'sub/b.txt'], conflicts: [], unknown: [], notices: [] })
    expect(report.removed.sort()).toEqual(['x', 'x/y', 'x/y/new'])
  })

  it('is logged before the write, once a file and turn, and holds no content', async () => {
    const bench = await openBench({ files: { a: 'secret-content' } })
    await bench.turn(write('a', 'A'), write('a', 'AA'))
    await bench.turn(write('a', 'AAA'))
    const kept = bench.log.events().flatMap(event => (event.type === 'checkpoint/kept' ? event.data.files : []))
    expect(kept.map(({ path, kind }) => [path, kind])).toEqual([
      ['a', 'file'],
      ['a', 'again'],
      ['a', 'file'],
    ])
    expect(JSON.stringify(bench.log.events().filter(({ type }) => type.startsWith('checkpoint/')))).not.toContain(
      'secret',
    )
  })

  it('costs nothing where nothing is written', async () => {
    const bench = await openBench({ files: { a: 'a' } })
    await bench.turn(['read', { file_path: 'a' }])
    expect(bench.log.events().filter(({ type }) => type.startsWith('checkpoint/'))).toEqual([])
    expect(existsSync(bench.ctx.sessions.folder(bench.log))).toBe(false)
  })

  it('outside of the folder only what was written there', async () => {
    const outside = await openBench({ files: { 'o.txt': 'o', 'other.txt': 'x' } })
    const bench = await openBench({})
    await bench.turn(write(join(outside.dir, 'o.txt'), 'changed'))
    writeFileSync(join(outside.dir, 'other.txt'), 'y')
    const report = await bench.restore(bench.before(1))
    expect(report.restored).toEqual([join(outside.dir, 'o.txt')])
    expect(outside.files.read('o.txt')).toBe('o')
    expect(outside.files.read('other.txt')).toBe('y')
  })

  it('a write that cannot be kept goes on, is told, and is unknown later', async () => {
    const bench = await openBench({ files: { big: 'x'.repeat(2_000) }, limits: { maxFileBytes: 1_000 } })
    await bench.turn(write('big', 'small'))
    expect(bench.files.read('big')).toBe('small')
    expect(bench.logs()).toContain('big cannot be put back later: it is larger than 1000 bytes')
    const report = await bench.restore(bench.before(1))
    expect(report.unknown).toEqual(['big'])
    expect(report.notices).toEqual(['big: it is larger than 1000 bytes'])
    expect(bench.files.read('big')).toBe('small')
  })
})

describe('what commands change', () => {
  it.each([
    ['in a git work tree, all of it copied', true, {}],
    ['in a git work tree, clean files taken from its objects', true, { copyBytes: 0 }],
    ['without git', false, {}],
  ])('comes back, %s', async (_, git, limits) => {
    const bench = await openBench({
      files: {
        'text.txt': 'hello\n',
        'crlf.txt': 'a\r\nb\r\n',
        'bin.dat': Buffer.from([0, 255, 1, 254, 10, 13]),
        'dir/deep/one.txt': '1',
        'dir/deep/two.txt': '2',
        'gone.txt': 'gone',
        'run.sh': '#!/bin/sh\n',
        'swap-file': 'file',
        'swap-folder/in': 'in',
        '.gitignore': 'ignored/\n',
        'ignored/keep': 'mine',
        'it\nis odd "q".txt': 'odd',
      },
    })
    symlinkSync('text.txt', join(bench.dir, 'link'))
    if (git)
      sh(bench.dir, 'git init -q . && git add -A && git -c user.name=a -c user.email=a@b commit -qm x && sleep 0.05')
    bench.files.write('untracked.txt', 'u')
    bench.files.write('text.txt', 'dirty\n')
    const start = treeOf(bench.dir)
    const repository = git ? gitFiles(bench.dir) : []
    const all = await openBench({ on: { files: bench.files }, limits })
    const [result] = await all.turn(
      bash(
        [
          'echo more >> text.txt; printf x > crlf.txt; printf "\\0\\1" > bin.dat; rm -r dir gone.txt untracked.txt',
          'chmod +x run.sh; rm link; ln -s crlf.txt link; rm swap-file; mkdir swap-file; echo x > swap-file/x',
          'rm -r swap-folder; echo f > swap-folder; mkdir -p n/e/w; echo n > n/e/w/n; ln -s /etc n/etc; mv "it',
          'is odd \\"q\\".txt" renamed',
        ].join('\n'),
      ),
    )
    expect(result?.isError).toBe(false)
    expect(treeOf(bench.dir)).not.toEqual(start)
    const report = await all.restore(all.before(1))
    expect(report).toMatchObject({ conflicts: [], unknown: [] })
    expect(treeOf(bench.dir)).toEqual(start)
    if (git) expect(gitFiles(bench.dir)).toEqual(repository)
  })

  it('a folder that became a link to another one: what lies behind the link is not taken for it', async () => {
    const bench = await openBench({ files: { 'd/a': '1', 'd/b': '1', 'other/a': '1', 'other/b': 'else' } })
    const start = treeOf(bench.dir)
    await bench.turn(bash('rm -r d; ln -s other d'))
    expect(await bench.restore(bench.before(1))).toMatchObject({ restored: ['d', 'd/a', 'd/b'], conflicts: [] })
    expect(treeOf(bench.dir)).toEqual(start)
  })

  it('names that are no UTF-8', async () => {
    const bench = await openBench()
    const odd = Buffer.concat([Buffer.from(`${bench.dir}/caf`), Buffer.from([0xe9])])
    writeFileSync(odd, 'latin')
    const start = treeOf(bench.dir)
    await bench.turn(bash(`rm caf*; printf x > $'n\\xff'`))
    await bench.restore(bench.before(1))
    expect(treeOf(bench.dir)).toEqual(start)
    expect(readFileSync(odd, 'utf8')).toBe('latin')
  })

  it('what git ignores is neither kept nor removed, also when the command makes it visible', async () => {
    const bench = await openBench({ files: { '.gitignore': 'out/\n*.log\n', 'out/a': '1', 'x.log': 'log' }, git: true })
    await bench.turn(bash('echo > .gitignore; echo 2 > out/a; echo new > out/b; echo 2 > x.log'))
    const report = await bench.restore(bench.before(1))
    expect(report).toMatchObject({ restored: ['.gitignore'], removed: [] })
    expect(bench.files.read('out/b')).toBe('new\n')
    expect(bench.files.read('x.log')).toBe('2\n')
  })

  it('a file that is ignored and in the index all the same', async () => {
    const bench = await openBench({ files: { '.gitignore': 'out/\n', 'out/forced': '1' } })
    sh(bench.dir, 'git init -q . && git add -A && git add -f out/forced')
    await bench.turn(bash('echo 2 > out/forced'))
    expect((await bench.restore(bench.before(1))).restored).toEqual(['out/forced'])
    expect(bench.files.read('out/forced')).toBe('1')
  })

  it('what is over a limit is named, and the rest comes back', async () => {
    const bench = await openBench({ files: { big: 'x'.repeat(5_000), small: 's' }, limits: { maxFileBytes: 1_000 } })
    await bench.turn(bash('echo > big; echo > small; head -c 3000 /dev/zero > made'))
    const report = await bench.restore(bench.before(1))
    expect(report).toMatchObject({ restored: ['small'], removed: ['made'], unknown: ['big'] })
    const watched = bench.log.last('checkpoint/watched')
    expect(watched?.data.unkept).toEqual(['1 file cannot be put back: larger than 1000 bytes'])
  })

  it('a tree of more files than the limit: what was not seen is neither kept nor removed', async () => {
    const bench = await openBench({ files: { a: 'a', 'd/e/f': 'f', 'd/e/g': 'g' }, limits: { maxFiles: 2 } })
    await bench.turn(bash('echo > a; rm d/e/f; echo > d/e/new'))
    const report = await bench.restore(bench.before(1))
    expect(report.restored).toEqual(['a'])
    expect(report.notices).toEqual(['turn 1: only the first 2 files are looked at'])
    expect(existsSync(join(bench.dir, 'd/e/new'))).toBe(true)
  })

  it('a repository with line endings converted is copied, not taken from git', async () => {
    const bench = await openBench({
      files: { '.gitattributes': '* text eol=crlf\n', a: 'x\r\ny\r\n' },
      limits: { copyBytes: 0 },
    })
    sh(
      bench.dir,
      'git init -q . && git add -A && git -c user.name=a -c user.email=a@b commit -qm x && sleep 0.05; git status',
    )
    await bench.turn(bash('rm a'))
    await bench.restore(bench.before(1))
    expect(bench.files.read('a')).toBe('x\r\ny\r\n')
  })

  it('no program that a repository names is started', async () => {
    const bench = await openBench({
      files: { a: 'a', '.gitattributes': '* filter=evil\n' },
      git: true,
      limits: { copyBytes: 0 },
    })
    const trap = `touch ${bench.home}/trapped; cat`
    sh(
      bench.dir,
      `git config core.fsmonitor '${trap}'; git config filter.evil.clean '${trap}'; git config core.pager '${trap}'`,
    )
    rmSync(join(bench.home, 'trapped'), { force: true })
    await bench.turn(bash('echo b > a'))
    await bench.restore(bench.before(1))
    expect(bench.files.read('a')).toBe('a')
    expect(existsSync(join(bench.home, 'trapped'))).toBe(false)
  })

  it('the working directory itself, removed with its repository', async () => {
    const bench = await openBench({ files: { a: 'a', 'd/b': 'b' }, git: true })
    await bench.turn(bash('rm -rf "$PWD"'))
    expect(existsSync(bench.dir)).toBe(false)
    await bench.restore(bench.before(1))
    expect(bench.files.read('a')).toBe('a')
    expect(bench.files.read('d/b')).toBe('b')
  })

  it('of clean files whose repository went with them it is said that they are lost', async () => {
    const bench = await openBench({ files: { a: 'a' }, limits: { copyBytes: 0 } })
    sh(
      bench.dir,
      'git init -q . && git add -A && git -c user.name=a -c user.email=a@b commit -qm x && sleep 0.05; git status',
    )
    await bench.turn(bash('rm -rf a .git'))
    const report = await bench.restore(bench.before(1))
    expect(report.unknown).toEqual(['a'])
    expect(report.notices.join()).toContain('its content was in the repository, which does not have it any more')
  })
})

describe('what others do meanwhile', () => {
  it('a file that somebody changed since is left, told, and taken by force', async () => {
    const bench = await openBench({ files: { a: '1', b: '1', c: '1' } })
    await bench.turn(bash('echo 2 > a; echo 2 > b; rm c; echo new > n'))
    bench.files.write('a', 'mine')
    bench.files.write('c', 'mine again')
    bench.files.write('n', 'mine too')
    const dry = await bench.restore(bench.before(1), { dryRun: true })
    expect(dry).toMatchObject({ restored: ['b'], removed: [] })
    expect(bench.files.read('b')).toBe('2\n')
    const report = await bench.restore(bench.before(1))
    expect(report).toEqual(dry)
    expect(report.conflicts).toEqual([
      { path: 'a', why: 'it was changed by somebody else since' },
      { path: 'c', why: 'it was made by somebody else since' },
      { path: 'n', why: 'it was changed by somebody else since' },
    ])
    expect([bench.files.read('a'), bench.files.read('b'), bench.files.read('n')]).toEqual(['mine', '1', 'mine too'])
    const forced = await bench.restore(bench.before(1), { force: true })
    expect(forced).toMatchObject({ restored: ['a', 'c'], removed: ['n'], conflicts: [] })
    expect(existsSync(join(bench.dir, 'n'))).toBe(false)
  })

  it('what a job in the background did afterwards is a conflict, not a loss', async () => {
    const bench = await openBench({ files: { a: '1' } })
    await bench.turn(bash('echo 2 > a'))
    sh(bench.dir, 'echo job >> a')
    expect((await bench.restore(bench.before(1))).conflicts).toHaveLength(1)
    expect(bench.files.read('a')).toBe('2\njob\n')
  })

  it('a link that appeared since is not followed', async () => {
    const bench = await openBench({ files: { 'd/a': '1', 'elsewhere/a': 'untouched' } })
    await bench.turn(write('d/a', '2'))
    rmSync(join(bench.dir, 'd'), { recursive: true })
    symlinkSync('elsewhere', join(bench.dir, 'd'))
    for (const force of [false, true]) {
      const { conflicts } = await bench.restore(bench.before(1), { force })
      expect(conflicts).toHaveLength(1)
      expect(bench.files.read('elsewhere/a')).toBe('untouched')
    }
  })

  it('a folder that the turn made stays where somebody put something in', async () => {
    const bench = await openBench()
    await bench.turn(bash('mkdir -p made/in; echo x > made/in/x'))
    bench.files.write('made/mine', 'm')
    expect(await bench.restore(bench.before(1))).toMatchObject({ removed: ['made/in', 'made/in/x'], conflicts: [] })
    expect(bench.files.read('made/mine')).toBe('m')
  })

  it('two sessions in one folder keep to what is theirs', async () => {
    const one = await openBench({ files: { a: '1', b: '1' } })
    const two = await openBench({ on: { files: one.files } })
    await one.turn(write('a', 'one'))
    await two.turn(write('b', 'two'))
    await two.turn(write('a', 'two'))
    expect((await one.restore(one.before(1))).conflicts.map(({ path }) => path)).toEqual(['a'])
    expect((await two.restore(two.before(1))).restored).toEqual(['a', 'b'])
    expect(one.files.read('a')).toBe('one')
    expect((await one.restore(one.before(1))).restored).toEqual(['a'])
    expect([one.files.read('a'), one.files.read('b')]).toEqual(['1', '1'])
  })
})

describe('putting back', () => {
  it('can be undone, and that too', async () => {
    const bench = await openBench({ files: { a: '1' } })
    const start = treeOf(bench.dir)
    await bench.turn(bash('echo 2 > a; mkdir d; echo d > d/d'))
    const changed = treeOf(bench.dir)
    const last = bench.log.seq - 1
    await bench.restore(bench.before(1))
    expect(treeOf(bench.dir)).toEqual(start)
    const undone = bench.log.seq - 1
    await bench.restore(last)
    expect(treeOf(bench.dir)).toEqual(changed)
    await bench.restore(undone)
    expect(treeOf(bench.dir)).toEqual(start)
  })

  it('of a session that is not open goes on beside its log', async () => {
    const bench = await openBench({ files: { a: '1' } })
    await bench.turn(write('a', '2'))
    await bench.turn(write('a', '3'))
    const [first, second, last] = [bench.before(1), bench.before(2), bench.log.seq - 1]
    const { id } = bench.log
    await bench.ctx.sessions.close(bench.log)
    const stored = await bench.ctx.sessionPersistence.read(id)
    const to = (seq: number) => bench.ctx.checkpoints.restore(stored, seq)
    for (const [seq, content] of [
      [first, '1'],
      [last, '3'],
      [second, '2'],
      [first, '1'],
      [last, '3'],
    ] as const) {
      expect((await to(seq)).conflicts).toEqual([])
      expect(bench.files.read('a')).toBe(content)
    }
    expect((await bench.ctx.sessionPersistence.read(id)).events).toHaveLength(last + 1)
  })

  it('keeps other names of a file, read-only ones, and the folder’s mode', async () => {
    const bench = await openBench({ files: { a: '1', ro: 'read-only', 'd/x': 'x' } })
    chmodSync(join(bench.dir, 'ro'), 0o400)
    chmodSync(join(bench.dir, 'd'), 0o700)
    linkSync(join(bench.dir, 'a'), join(bench.dir, 'twin'))
    const start = treeOf(bench.dir)
    await bench.turn(bash('echo 2 > a; chmod u+w ro; echo 2 > ro; chmod 0 ro; rm -r d'))
    await bench.restore(bench.before(1))
    expect(treeOf(bench.dir)).toEqual(start)
    expect(statSync(join(bench.dir, 'a')).ino).toBe(statSync(join(bench.dir, 'twin')).ino)
  })

  it('tells what it could not do, and doing it again finishes', async () => {
    const bench = await openBench({ files: { a: '1', 'd/b': '1', c: '1' } })
    await bench.turn(bash('echo 2 > a; rm -r d; echo 2 > c'))
    writeFileSync(join(bench.dir, 'd'), 'in the way')
    const report = await bench.restore(bench.before(1))
    expect(report.restored).toEqual(['a', 'c'])
    expect(report.conflicts.map(({ path }) => path)).toEqual(['d', 'd/b'])
    rmSync(join(bench.dir, 'd'))
    expect(await bench.restore(bench.before(1))).toMatchObject({ restored: ['d', 'd/b'], conflicts: [] })
    expect(bench.files.read('d/b')).toBe('1')
  })

  it('stops when it is cancelled and says what was not reached', async () => {
    const bench = await openBench({ files: { a: '1', b: '1' } })
    await bench.turn(write('a', '2'), write('b', '2'))
    const controller = new AbortController()
    bench.ctx.on('session/event', (_, { type }) => {
      if (type === 'checkpoint/kept') controller.abort()
    })
    const report = await bench.restore(bench.before(1), { signal: controller.signal })
    expect(report.conflicts.map(({ why }) => why)).toEqual([
      'it was not reached: cancelled',
      'it was not reached: cancelled',
    ])
    expect((await bench.restore(bench.before(1))).restored).toEqual(['a', 'b'])
  })

  it('is refused in the middle of a turn, and for events that are not there', async () => {
    const bench = await openBench({ files: { a: '1' } })
    await bench.turn(write('a', '2'))
    await expect(bench.restore(99_999)).rejects.toThrow('CHECKPOINT_SEQ_INVALID')
    bench.log.append('turn/start', { turn: 2 })
    await expect(bench.restore(0)).rejects.toThrow('CHECKPOINT_TURN_OPEN')
  })
})

describe('over time', () => {
  it('a plugin that is reloaded in the middle of a call goes on from the log', async () => {
    const bench = await openBench({ files: { a: '1', b: '1' } })
    const start = treeOf(bench.dir)
    let reloaded: Promise<void> | undefined
    bench.ctx.on('session/event', (_, { type }) => {
      if (type === 'checkpoint/left') reloaded ??= bench.reload()
    })
    bench.log.append('turn/start', { turn: 1 })
    await bench.turn(bash('echo 2 > a'), bash('sleep 0.2; echo 3 > a; echo 3 > b'), write('a', '4'))
    await reloaded
    await bench.turn(bash('echo 5 > a'))
    await bench.restore(bench.before(2))
    expect(treeOf(bench.dir)).toEqual(start)
  })

  it('a fork restores what was before it, also when its parent is deleted', async () => {
    const bench = await openBench({ files: { a: '1' } })
    await bench.turn(write('a', '2'))
    await bench.turn(bash('echo 3 > a'))
    const parent = bench.log
    const child = bench.ctx.sessions.fork(parent)
    child.append('turn/start', { turn: 3 })
    child.append('turn/end', { turn: 3, reason: { kind: 'completed' } })
    const object = (log: typeof child) =>
      sh(bench.ctx.sessions.folder(log), 'find . -path "*objects*" -type f | head -1').trim()
    expect(lstatSync(join(bench.ctx.sessions.folder(child), object(child))).nlink).toBe(2)
    await bench.ctx.sessions.close(parent)
    await bench.ctx.sessionPersistence.delete(parent.id)
    bench.use(child)
    expect((await bench.restore(bench.before(1))).restored).toEqual(['a'])
    expect(bench.files.read('a')).toBe('1')
  })

  it('a command that was cut off with its process shows in the stored session', async () => {
    const bench = await openBench({ files: { a: '1', b: '1' }, git: true, limits: { copyBytes: 0 } })
    const start = treeOf(bench.dir)
    // What a killed process leaves: everything up to the command, and what the command did.
    const seen = new Promise<void>(resolve => {
      bench.ctx.on('session/event', (_, { type }) => {
        if (type === 'checkpoint/watched') resolve()
      })
    })
    const turn = bench.turn(bash('echo 2 > a; rm b; echo new > n; sleep 30'))
    await seen
    const frozen = await openBench({ on: { files: bench.files } })
    await expect.poll(() => existsSync(join(bench.dir, 'n')), { interval: 5 }).toBe(true)
    await bench.ctx.sessions.flush(bench.log)
    sh(bench.home, `cp -r . ${frozen.home}`)
    const stored = await frozen.ctx.sessionPersistence.read(bench.log.id)
    const report = await frozen.ctx.checkpoints.restore(stored, -1)
    expect(report).toMatchObject({ restored: ['a', 'b'], removed: ['n'], conflicts: [], unknown: [] })
    expect(treeOf(bench.dir)).toEqual(start)
    await bench.ctx.fiber.dispose()
    await turn.catch(() => {})
  })

  it('and one that goes on keeps it apart from its own turns', async () => {
    const bench = await openBench({ files: { a: '1' } })
    const seen = new Promise<void>(resolve => {
      bench.ctx.on('session/event', (_, { type }) => {
        if (type === 'checkpoint/watched') resolve()
      })
    })
    const turn = bench.turn(bash('echo 2 > a; sleep 30'))
    await seen
    await expect.poll(() => bench.files.read('a'), { interval: 5 }).toBe('2\n')
    const later = await openBench({ on: { files: bench.files } })
    await bench.ctx.sessions.flush(bench.log)
    sh(bench.home, `cp -r . ${later.home}; rm -f ${later.home}/*/*.lock`)
    const cut = treeOf(bench.dir)
    later.use(await later.ctx.sessions.resume(bench.log.id))
    expect((await later.restore(later.before(1), { dryRun: true })).restored).toEqual(['a'])
    expect(later.log.last('checkpoint/left')?.data).toMatchObject({ turn: 1, done: true })
    await later.turn(write('a', '3'), bash('echo 4 > a; echo n > n'))
    await later.restore(later.before(2))
    expect(treeOf(bench.dir)).toEqual(cut)
    await later.restore(later.before(1))
    expect(bench.files.read('a')).toBe('1')
    await bench.ctx.fiber.dispose()
    await turn.catch(() => {})
  })

  it('the copy of the tree goes with the session’s end, what was kept stays', async () => {
    const bench = await openBench({ files: { a: '1'.repeat(10_000), b: 'b'.repeat(10_000) } })
    await bench.turn(bash('echo 2 > a'))
    const folder = join(bench.ctx.sessions.folder(bench.log), 'checkpoint')
    expect(statSync(join(folder, 'mirror')).size).toBe(20_000)
    expect(statSync(join(folder, 'mirror')).mode & 0o777).toBe(0o600)
    await bench.ctx.sessions.close(bench.log)
    expect(sh(folder, 'ls').trim()).toBe('objects')
    expect(Number(sh(folder, 'cat objects/*/* | wc -c'))).toBeLessThan(200)
  })

  it('is bounded: the oldest turns go first, and restoring says so', async () => {
    const bench = await openBench({ files: { a: '', b: '' }, limits: { maxTotalBytes: 6_000 } })
    const content = (turn: number) => String(turn).repeat(3_000)
    for (let turn = 1; turn <= 6; turn++) await bench.turn(write(turn % 2 ? 'a' : 'b', content(turn)))
    expect(bench.logs()).toContain('is not kept any more: the bound is reached')
    expect(await bench.restore(bench.before(6))).toMatchObject({ restored: ['b'], unknown: [] })
    const report = await bench.restore(bench.before(3))
    expect(report.unknown).toEqual(['a', 'b'])
    expect(report.notices.join()).toContain('its content is not kept any more')
  })

  it('a log that cannot be written stops the change', async () => {
    const bench = await openBench({ files: { a: '1' } })
    bench.ctx.on('session/flush', () => {
      if (bench.log.last('checkpoint/kept')) throw new Error('the disk is full')
    })
    const [result] = await bench.turn(write('a', '2'))
    expect(result?.isError).toBe(true)
    expect(bench.files.read('a')).toBe('1')
  })

  it('contents that cannot be kept do not stop it, and are told', async () => {
    const bench = await openBench({ files: { a: '1' } })
    await bench.turn(['read', { file_path: 'a' }])
    mkdirSync(bench.ctx.sessions.folder(bench.log), { recursive: true })
    writeFileSync(join(bench.ctx.sessions.folder(bench.log), 'checkpoint'), 'in the way')
    const results = await bench.turn(write('a', '2'), bash('echo 3 > a'))
    expect(results.map(({ error }) => error)).toEqual([undefined, undefined])
    expect(bench.logs()).toContain('a cannot be put back later: its content could not be kept')
    const report = await bench.restore(bench.before(2))
    expect(report.unknown).toEqual(['a'])
    expect(report.notices.join()).toContain('turn 2: what commands change is not known')
  })
})

it('links are put back as links', async () => {
  const bench = await openBench({ files: { a: '1' } })
  symlinkSync('a', join(bench.dir, 'l'))
  symlinkSync('nowhere', join(bench.dir, 'dangling'))
  await bench.turn(bash('rm l dangling; echo x > l'))
  await bench.restore(bench.before(1))
  expect([readlinkSync(join(bench.dir, 'l')), readlinkSync(join(bench.dir, 'dangling'))]).toEqual(['a', 'nowhere'])
  expect(bench.files.read('a')).toBe('1')
})

it('what the harness keeps for itself is no part of the folder, also where it lies in it', async () => {
  const bench = await openBench({ files: { a: '1' } })
  const inside = await openBench({ on: { files: bench.files, store: `${bench.dir}/state/sessions` } })
  await inside.turn(bash('echo 2 > a; echo x > state/x'))
  expect(await inside.restore(inside.before(1))).toMatchObject({ restored: ['a'], removed: ['state/x'], conflicts: [] })
  await inside.ctx.sessions.close(inside.log)
  expect((await inside.ctx.sessionPersistence.read(inside.log.id)).notices).toEqual([])
})

it('a cancelled command has changed what it has changed', async () => {
  const bench = await openBench({ files: { a: '1' } })
  const controller = new AbortController()
  bench.ctx.on('session/event', (_, { type }) => {
    if (type === 'tool/progress') controller.abort()
  })
  const [result] = await bench.cancellable(controller.signal, bash('echo 2 > a; echo n > n; echo done; sleep 30'))
  expect(result?.isError).toBe(true)
  expect(await bench.restore(bench.before(1))).toMatchObject({ restored: ['a'], removed: ['n'], conflicts: [] })
})

describe('many commands in one turn', () => {
  const marks = (log: Awaited<ReturnType<typeof openBench>>['log']) =>
    log.events().flatMap(({ type, data }) => {
      if (type === 'checkpoint/watched') return ['look']
      return type === 'checkpoint/left' && 'done' in data ? ['done'] : []
    })

  it('are looked at twice, before the first and at the end of the turn', async () => {
    const bench = await openBench({ files: { a: '1', b: '1' } })
    await bench.turn(bash('echo 2 > a'), bash('echo 3 > a; rm b'), bash('echo 2 > b; echo n > n'))
    expect(marks(bench.log)).toEqual(['look', 'done'])
    const left = bench.log.events().flatMap(event => (event.type === 'checkpoint/left' ? event.data.files : []))
    expect(left.map(({ path }) => path)).toEqual(['a', 'b', 'n'])
    expect(await bench.restore(bench.before(1))).toMatchObject({ restored: ['a', 'b'], removed: ['n'], conflicts: [] })
  })

  it('are told before a write in between, which then keeps what they left', async () => {
    const bench = await openBench({ files: { a: '1', b: '1' } })
    await bench.turn(bash('echo 2 > a'), write('a', '3'), bash('echo 4 > b'), write('c', 'c'))
    expect(marks(bench.log)).toEqual(['look', 'done'])
    const last = bench.log.seq - 1
    expect(await bench.restore(bench.before(1))).toMatchObject({ restored: ['a', 'b'], removed: ['c'], conflicts: [] })
    expect([bench.files.read('a'), bench.files.read('b')]).toEqual(['1', '1'])
    await bench.restore(last)
    expect([bench.files.read('a'), bench.files.read('b'), bench.files.read('c')]).toEqual(['3', '4\n', 'c'])
  })

  it('belong to their turn when it fails, also where the next one begins at once', async () => {
    const bench = await openBench({ files: { a: '1', b: '1' } })
    bench.failing()
    await bench.turn(bash('echo 2 > a'))
    await bench.turn(write('a', '3'), bash('echo 3 > b'))
    await bench.restore(bench.before(2))
    expect([bench.files.read('a'), bench.files.read('b')]).toEqual(['2\n', '1'])
    await bench.restore(bench.before(1))
    expect(bench.files.read('a')).toBe('1')
  })

  it('of a turn that failed are told before its session closes', async () => {
    const bench = await openBench({ files: { a: '1' } })
    bench.failing()
    await bench.turn(bash('echo 2 > a'))
    const { id } = bench.log
    await bench.ctx.sessions.close(bench.log)
    bench.files.write('a', 'mine')
    const stored = await bench.ctx.sessionPersistence.read(id)
    expect((await bench.ctx.checkpoints.restore(stored, -1)).conflicts.map(({ path }) => path)).toEqual(['a'])
  })

  it('what a file was between two of them is not known, and it stays', async () => {
    const bench = await openBench({ files: { a: '1' } })
    await bench.turn(bash('echo 2 > a'), bash('echo 3 > a'))
    const between = bench.log.events().find(({ type }) => type === 'checkpoint/watched')!.seq
    expect(await bench.restore(between)).toMatchObject({ restored: [], unknown: ['a'] })
    expect(bench.files.read('a')).toBe('3\n')
  })
})

it('calls that overlap keep each file once', async () => {
  const bench = await openBench({ files: { a: '1', b: '1' } })
  const { fs } = bench.ctx
  bench.ctx.tools.register({
    name: 'put',
    description: 'writes',
    parameters: { type: 'object', properties: { name: { type: 'string' } } },
    isConcurrencySafe: () => true,
    async execute({ name }: { name: string }) {
      await fs.write(join(bench.dir, name), '2')
      return 'written'
    },
  })
  await bench.together(['put', { name: 'a' }], ['put', { name: 'b' }], ['put', { name: 'a' }], ['put', { name: 'c' }])
  expect(bench.files.read('a')).toBe('2')
  expect(await bench.restore(bench.before(1))).toMatchObject({ restored: ['a', 'b'], removed: ['c'], conflicts: [] })
  expect([bench.files.read('a'), bench.files.read('b')]).toEqual(['1', '1'])
})

it('/restore-files puts the last turn back, or the one of a number', async () => {
  const bench = await openBench({ files: { a: '1' } })
  const commands = await bench.commands()
  await bench.turn(write('a', '2'))
  await bench.turn(write('a', '3'), write('n', 'n'))
  expect(await commands.say('/restore-files')).toBe('Put back 1 file: a\nRemoved 1 file: n')
  expect(bench.files.read('a')).toBe('2')
  expect(await commands.say('/restore-files undo')).toBe('Put back 2 files: a, n')
  expect([bench.files.read('a'), bench.files.read('n')]).toEqual(['3', 'n'])
  expect(await commands.say('/restore-files 1')).toBe('Put back 1 file: a\nRemoved 1 file: n')
  expect(await commands.say('/restore-files 1')).toBe('The files are as they were before turn 1.')
  expect(await commands.say('/restore-files 9')).toBe('There is no turn 9 in this session.')
  expect(bench.files.read('a')).toBe('1')
})
