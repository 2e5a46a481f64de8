import { existsSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { FileChange } from '@cambium/machine'
import * as checkpoint from '@cambium/machine/checkpoint'
import { describe, expect, it } from 'vitest'
import { openMachine } from './machine.ts'

describe('before a change, ctx.fs tells', () => {
  it('the real path of a file and of a folder, while nothing is changed, and waits', async () => {
    const { ctx, dir } = await openMachine()
    mkdirSync(join(dir, 'real'))
    symlinkSync('real', join(dir, 'link'))
    const told: [FileChange, boolean][] = []
    ctx.on('fs/before-write', async change => {
      await new Promise(setImmediate)
      told.push([change, existsSync(change.path)])
    })
    await ctx.fs.mkdir(join(dir, 'link/a/b'))
    await ctx.fs.write(join(dir, 'link/a/b/f'), '1')
    await ctx.fs.write(join(dir, 'link/a/b/f'), '2')
    await ctx.fs.mkdir(join(dir, 'link/a'))
    expect(told).toEqual([
      [{ path: join(dir, 'real/a/b'), kind: 'directory' }, false],
      [{ path: join(dir, 'real/a/b/f'), kind: 'file' }, false],
      [{ path: join(dir, 'real/a/b/f'), kind: 'file' }, true],
    ])
  })

  it('and whoever throws prevents it', async () => {
    const { ctx, dir } = await openMachine()
    ctx.on('fs/before-write', () => {
      throw new Error('not now')
    })
    await expect(ctx.fs.write(join(dir, 'f'), '1')).rejects.toThrow('not now')
    await expect(ctx.fs.mkdir(join(dir, 'd'))).rejects.toThrow('not now')
    expect([existsSync(join(dir, 'f')), existsSync(join(dir, 'd'))]).toEqual([false, false])
  })
})

describe('a history of files', () => {
  async function openHistory(limits: Partial<checkpoint.Config> = {}) {
    const { ctx, dir } = await openMachine()
    await ctx.plugin(checkpoint, limits as checkpoint.Config)
    const root = join(dir, 'root')
    mkdirSync(root)
    return { root, folder: join(dir, 'kept'), history: ctx.snapshots.open(join(dir, 'kept'), root), ctx }
  }

  it('makes nothing before there is something to keep', async () => {
    const { history, folder } = await openHistory()
    expect(await history.keep('none')).toEqual({ kind: 'none' })
    history.close()
    expect(existsSync(folder)).toBe(false)
  })

  it('keeps a content once, packed where that pays, and notices one that was damaged', async () => {
    const { root, folder, history } = await openHistory()
    for (const name of ['a', 'b']) writeFileSync(join(root, name), 'text '.repeat(10_000))
    const [a, b] = [await history.keep('a'), await history.keep('b')]
    expect(a).toEqual(b)
    const { hash } = a as { hash: string }
    const object = join(folder, 'objects', hash.slice(0, 2), `${hash.slice(2)}.z`)
    expect(readFileSync(object).length).toBeLessThan(1_000)
    rmSync(join(root, 'a'))
    writeFileSync(object, 'not it')
    const report = await history.restore([{ path: 'a', target: a }])
    expect(report).toMatchObject({ restored: [], unknown: ['a'], reasons: ['its content is not kept any more'] })
    expect(existsSync(join(root, 'a'))).toBe(false)
  })

  it('sees a change of the same length right after the file was read', async () => {
    const { root, history } = await openHistory()
    const path = join(root, 'f')
    for (let round = 0; round < 40; round++) {
      writeFileSync(path, `${round % 10}`)
      const begun = history.begin()
      // It has read the file and is writing what it knows: this comes as early as can be.
      for (let turn = 0; turn < 50; turn++) await Promise.resolve()
      writeFileSync(path, 'x')
      await begun
      const { changes } = await history.changes(() => true)
      expect(changes.map(({ path }) => path)).toEqual(['f'])
    }
  })

  it('stops looking when it is cancelled', async () => {
    const { root, history } = await openHistory()
    writeFileSync(join(root, 'f'), '1')
    mkdirSync(join(root, '.git'))
    await expect(history.begin(AbortSignal.abort())).rejects.toThrow(/abort/i)
  })

  it('goes without git where that is broken, and says so', async () => {
    const { root, history } = await openHistory()
    mkdirSync(join(root, '.git'))
    mkdirSync(join(root, 'node_modules'))
    writeFileSync(join(root, 'f'), '1')
    writeFileSync(join(root, 'node_modules/x'), '1')
    const { files, notes } = await history.begin()
    expect(files).toBe(1)
    expect(notes.join()).toContain('git does not tell about the folder')
  })
})
