import {
  chmodSync,
  existsSync,
  linkSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { isHarnessError } from '@cambium/core'
import { describe, expect, it } from 'vitest'
import { openMachine } from './machine.ts'

const modeOf = (path: string) => statSync(path).mode & 0o7777

async function failure(work: Promise<unknown>): Promise<string> {
  try {
    await work
  } catch (error) {
    if (isHarnessError(error)) return `${error.code} ${error.problem}`
    throw error
  }
  throw new Error('it should have failed')
}

describe('naming', () => {
  it('relative paths start at the given folder, a tilde at home', async () => {
    const { ctx } = await openMachine()
    expect(ctx.fs.resolve('a/../b', '/w')).toBe('/w/b')
    expect(ctx.fs.resolve('/x', '/w')).toBe('/x')
    expect(ctx.fs.resolve('~/x', '/w')).toBe(join(homedir(), 'x'))
  })

  it('two spellings of one file have one real path, also before it exists', async () => {
    const { ctx, dir } = await openMachine()
    mkdirSync(join(dir, 'real'))
    symlinkSync('real', join(dir, 'link'))
    symlinkSync('real/new.txt', join(dir, 'file-link'))
    const expected = join(dir, 'real/new.txt')
    expect(await ctx.fs.realpath(join(dir, 'link/new.txt'))).toBe(expected)
    expect(await ctx.fs.realpath(join(dir, 'file-link'))).toBe(expected)
    writeFileSync(expected, '')
    expect(await ctx.fs.realpath(join(dir, 'link/new.txt'))).toBe(expected)
    expect(await ctx.fs.realpath(join(dir, 'file-link'))).toBe(expected)
  })

  it('links that lead in a circle are an error', async () => {
    const { ctx, dir } = await openMachine()
    symlinkSync('b', join(dir, 'a'))
    symlinkSync('a', join(dir, 'b'))
    expect(await failure(ctx.fs.realpath(join(dir, 'a')))).toMatch(/^FS_FAILED .*circle/)
  })
})

describe('looking', () => {
  it('tells files, folders, links and nothing apart', async () => {
    const { ctx, dir } = await openMachine()
    writeFileSync(join(dir, 'f'), 'abc')
    mkdirSync(join(dir, 'd'))
    symlinkSync('f', join(dir, 'l'))
    expect(await ctx.fs.list(dir)).toEqual([
      { name: 'd', kind: 'directory' },
      { name: 'f', kind: 'file' },
      { name: 'l', kind: 'link' },
    ])
    expect(await ctx.fs.stat(join(dir, 'l'))).toMatchObject({ kind: 'file', size: 3 })
    expect(await ctx.fs.stat(join(dir, 'none'))).toBeUndefined()
  })

  it('reads a whole file, also one that does not know its size', async () => {
    const { ctx, dir } = await openMachine()
    writeFileSync(join(dir, 'f'), 'abc')
    expect(String((await ctx.fs.read(join(dir, 'f'), { maxBytes: 3 })).bytes)).toBe('abc')
    expect(String((await ctx.fs.read('/proc/self/status', { maxBytes: 100_000 })).bytes)).toContain('Pid:')
  })

  it('refuses what is too large, no regular file, or not there, and never waits for a pipe', async () => {
    const { ctx, dir } = await openMachine()
    writeFileSync(join(dir, 'f'), 'abcd')
    await ctx.process.run({ argv: ['mkfifo', 'pipe'], cwd: dir })
    const read = (name: string) => failure(ctx.fs.read(join(dir, name), { maxBytes: 3 }))
    expect(await read('f')).toBe(`FS_TOO_LARGE ${dir}/f is larger than 3 bytes`)
    expect(await read('.')).toBe(`FS_NOT_FILE ${dir} is a directory`)
    expect(await read('pipe')).toMatch(/^FS_NOT_FILE .*pipe/)
    expect(await read('none')).toBe(`FS_NOT_FOUND ${dir}/none does not exist`)
    expect(await read('f/x')).toMatch(/^FS_NOT_DIRECTORY/)
    expect(await failure(ctx.fs.read('/dev/zero', { maxBytes: 3 }))).toMatch(/^FS_NOT_FILE/)
    expect(await read('a\0b')).toBe(`FS_NOT_FOUND ${dir}/a\0b holds a NUL character, which no path can`)
    expect(await read('x'.repeat(5_000))).toMatch(/^FS_FAILED .{200}… is longer than a path or a name in it may be$/)
    expect(await failure(ctx.fs.write(join(dir, 'pipe'), 'x'))).toMatch(/^FS_NOT_FILE/)
  })

  it('streams a file in pieces and closes it when the reader has enough', async () => {
    const { ctx, dir } = await openMachine()
    writeFileSync(join(dir, 'big'), 'x'.repeat(200_000))
    const open = () => readdirSync('/proc/self/fd').length
    const before = open()
    let total = 0
    for await (const chunk of ctx.fs.stream(join(dir, 'big'))) total += chunk.length
    expect(total).toBe(200_000)
    for await (const chunk of ctx.fs.stream(join(dir, 'big'))) {
      expect(chunk.length).toBeLessThanOrEqual(64 * 1024)
      break
    }
    expect(open()).toBe(before)
  })
})

describe('writing', () => {
  it('keeps the mode of an existing file; a new one obeys the umask', async () => {
    const { ctx, dir } = await openMachine()
    const [script, shared, made] = ['run.sh', 'a.txt', 'new'].map(name => join(dir, name)) as [string, string, string]
    writeFileSync(script, 'old')
    chmodSync(script, 0o755)
    writeFileSync(shared, 'old')
    chmodSync(shared, 0o664)
    const umask = process.umask(0o002)
    try {
      expect(await ctx.fs.write(script, 'new')).toMatchObject({ created: false, realpath: script })
      expect(await ctx.fs.write(shared, 'new')).toMatchObject({ created: false })
      expect(await ctx.fs.write(made, 'new')).toMatchObject({ created: true })
    } finally {
      process.umask(umask)
    }
    expect([script, shared, made].map(modeOf)).toEqual([0o755, 0o664, 0o664])
    expect(readFileSync(script, 'utf8')).toBe('new')
  })

  it('follows links and keeps them, one into nothing too', async () => {
    const { ctx, dir } = await openMachine()
    writeFileSync(join(dir, 'f'), 'old')
    symlinkSync('f', join(dir, 'l'))
    symlinkSync('g', join(dir, 'dangling'))
    await ctx.fs.write(join(dir, 'l'), 'new')
    await ctx.fs.write(join(dir, 'dangling'), 'made')
    expect(lstatSync(join(dir, 'l')).isSymbolicLink()).toBe(true)
    expect(readlinkSync(join(dir, 'dangling'))).toBe('g')
    expect(readFileSync(join(dir, 'f'), 'utf8')).toBe('new')
    expect(readFileSync(join(dir, 'g'), 'utf8')).toBe('made')
  })

  it('a file with two names keeps both', async () => {
    const { ctx, dir } = await openMachine()
    writeFileSync(join(dir, 'one'), 'a longer old text')
    linkSync(join(dir, 'one'), join(dir, 'two'))
    await ctx.fs.write(join(dir, 'one'), 'new')
    expect(readFileSync(join(dir, 'two'), 'utf8')).toBe('new')
  })

  it('leaves nothing behind when it fails, and the old content where it was', async () => {
    const { ctx, dir } = await openMachine()
    writeFileSync(join(dir, 'f'), 'old')
    const { version } = (await ctx.fs.stat(join(dir, 'f')))!
    writeFileSync(join(dir, 'f'), 'other')
    expect(await failure(ctx.fs.write(join(dir, 'f'), 'new', { ifVersion: version }))).toMatch(/^FS_CHANGED/)
    expect(await failure(ctx.fs.write(join(dir, 'no/f'), 'new'))).toMatch(/^FS_NOT_FOUND/)
    expect(readdirSync(dir)).toEqual(['f'])
    expect(readFileSync(join(dir, 'f'), 'utf8')).toBe('other')
  })

  it('a reader never sees half of it', async () => {
    const { ctx, dir } = await openMachine()
    const path = join(dir, 'f')
    const [a, b] = ['a'.repeat(300_000), 'b'.repeat(300_000)] as [string, string]
    writeFileSync(path, a)
    let writing = true
    const writer = (async () => {
      for (let i = 0; i < 20; i++) await ctx.fs.write(path, i % 2 ? a : b)
      writing = false
    })()
    while (writing) {
      const { bytes } = await ctx.fs.read(path, { maxBytes: 1_000_000 })
      expect([a, b]).toContain(String(bytes))
    }
    await writer
  })

  it('names the version it wrote', async () => {
    const { ctx, dir } = await openMachine()
    const { version } = await ctx.fs.write(join(dir, 'f'), 'one')
    expect((await ctx.fs.stat(join(dir, 'f')))!.version).toBe(version)
    await ctx.fs.write(join(dir, 'f'), 'two', { ifVersion: version })
    expect(readFileSync(join(dir, 'f'), 'utf8')).toBe('two')
  })

  it('makes folders, and an empty private one that goes with the provider', async () => {
    const { ctx, dir } = await openMachine()
    await ctx.fs.mkdir(join(dir, 'a/b/c'))
    await ctx.fs.mkdir(join(dir, 'a/b/c'))
    expect(statSync(join(dir, 'a/b/c')).isDirectory()).toBe(true)
    writeFileSync(join(dir, 'f'), '')
    expect(await failure(ctx.fs.mkdir(join(dir, 'f')))).toBe(`FS_NOT_DIRECTORY ${dir}/f exists and is not a directory`)
    expect(await failure(ctx.fs.mkdir(join(dir, 'f/d')))).toMatch(/^FS_NOT_DIRECTORY/)
    const temporary = await ctx.fs.tempDir()
    expect(await ctx.fs.tempDir()).toBe(temporary)
    expect(modeOf(temporary)).toBe(0o700)
    await ctx.fiber.dispose()
    expect(existsSync(temporary)).toBe(false)
  })
})

describe('a lock', () => {
  it('lets one holder of a real path in at a time, however it is spelt, and others meanwhile', async () => {
    const { ctx, dir } = await openMachine()
    writeFileSync(join(dir, 'f'), '')
    symlinkSync('f', join(dir, 'l'))
    const log: string[] = []
    let open!: () => void
    const gate = new Promise<void>(resolve => {
      open = resolve
    })
    let enter!: () => void
    const entered = new Promise<void>(resolve => {
      enter = resolve
    })
    const first = ctx.fs.lock(join(dir, 'f'), async () => {
      log.push('first in')
      enter()
      await gate
      log.push('first out')
    })
    await entered
    const second = ctx.fs.lock(join(dir, 'l'), async () => void log.push('second'))
    await ctx.fs.lock(join(dir, 'other'), async () => void log.push('other'))
    open()
    await Promise.all([first, second])
    expect(log).toEqual(['first in', 'other', 'first out', 'second'])
  })

  it('passes on after a failure, and a cancelled one does not wait', async () => {
    const { ctx, dir } = await openMachine()
    const path = join(dir, 'f')
    await expect(ctx.fs.lock(path, () => Promise.reject(new Error('no')))).rejects.toThrow('no')
    const controller = new AbortController()
    let open!: () => void
    const gate = new Promise<void>(resolve => {
      open = resolve
    })
    let enter!: () => void
    const entered = new Promise<void>(resolve => {
      enter = resolve
    })
    const first = ctx.fs.lock(path, () => {
      enter()
      return gate
    })
    await entered
    const waiting = failure(ctx.fs.lock(path, async () => {}, controller.signal))
    const third = ctx.fs.lock(path, async () => 'third')
    controller.abort()
    expect(await waiting).toMatch(/^FS_ABORTED/)
    open()
    expect(await third).toBe('third')
    await first
  })
})
