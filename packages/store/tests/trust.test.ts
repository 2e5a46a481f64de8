import { execFile } from 'node:child_process'
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { locked, lockedSoon, projectFolder } from '@cambium/store'
import { TrustStore } from '@cambium/store/trust'
import { describe, expect, it, onTestFinished } from 'vitest'

function scratch() {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), 'cambium-trust-')))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

function project() {
  const root = scratch()
  const folder = join(root, 'project')
  mkdirSync(folder)
  writeFileSync(join(folder, 'patch.yml'), 'a: 1')
  return { root, folder, store: new TrustStore(join(root, 'home')) }
}

describe('trust', () => {
  it('counts for the content that was there', () => {
    const { folder, store } = project()
    expect(store.check(folder, ['patch.yml'])).toBe('unknown')
    store.trust(folder, ['patch.yml', 'later.yml'])
    expect(store.check(folder, ['patch.yml', 'later.yml'])).toBe('trusted')
    expect(store.check(folder, ['other.yml'])).toBe('changed')
    writeFileSync(join(folder, 'patch.yml'), 'a: 2')
    expect(store.check(folder, ['patch.yml'])).toBe('changed')
    expect(store.check(folder, [{ path: 'patch.yml', content: Buffer.from('a: 1') }])).toBe('trusted')
    writeFileSync(join(folder, 'patch.yml'), 'a: 1')
    writeFileSync(join(folder, 'later.yml'), '')
    expect(store.check(folder, ['patch.yml', 'later.yml'])).toBe('changed')
    rmSync(join(folder, 'later.yml'))
    expect(store.check(folder, ['patch.yml', 'later.yml'])).toBe('trusted')
  })

  it('is listed, and ends when it is revoked, of a folder that is gone too', () => {
    const { folder, store } = project()
    store.trust(folder, ['patch.yml'])
    expect(store.list()).toEqual([{ folder, since: expect.any(Number), files: ['patch.yml'] }])
    rmSync(folder, { recursive: true })
    expect(store.check(folder, ['patch.yml'])).toBe('changed')
    expect(store.revoke(folder)).toBe(true)
    expect(store.revoke(folder)).toBe(false)
    expect(store.list()).toEqual([])
  })

  it('is that of the real folder, however its path is spelt', () => {
    const { root, folder, store } = project()
    symlinkSync('project', join(root, 'link'))
    store.trust(join(root, 'link'), [join(root, 'link', 'patch.yml')])
    expect(store.check(folder, [join(folder, 'patch.yml')])).toBe('trusted')
    expect(store.check(`${root}/project/../link/`, ['./patch.yml'])).toBe('trusted')
    // Another folder that takes its name is another folder.
    mkdirSync(join(root, 'other'))
    writeFileSync(join(root, 'other', 'patch.yml'), 'a: 1')
    rmSync(join(root, 'link'))
    symlinkSync('other', join(root, 'link'))
    expect(store.check(join(root, 'link'), ['patch.yml'])).toBe('unknown')
  })

  it('is kept for the owner only; a broken list trusts nobody and is not overwritten', () => {
    const { folder, store } = project()
    store.trust(folder, ['patch.yml'])
    expect(statSync(store.file).mode & 0o777).toBe(0o600)
    for (const text of ['{', '[]', '{"version":1,"folders":{"/x":true}}', '{"version":2,"folders":{}}']) {
      writeFileSync(store.file, text)
      expect(() => store.check(folder, ['patch.yml'])).toThrow(/STORE_TRUST_INVALID: .*\n {2}where: .*trust\.json/)
      expect(() => store.trust(folder, ['patch.yml'])).toThrow(/STORE_TRUST_INVALID/)
      expect(readFileSync(store.file, 'utf8')).toBe(text)
    }
  })

  it('is not given to a file that cannot be read', () => {
    const { folder, store } = project()
    mkdirSync(join(folder, 'folder.yml'))
    expect(() => store.trust(folder, ['folder.yml'])).toThrow(/STORE_PATH: cannot read the file/)
    expect(store.check(folder, ['patch.yml'])).toBe('unknown')
  })

  it('given by several processes at once is kept of all', async () => {
    const { store } = project()
    const script = fileURLToPath(new URL('fixtures/trusting.ts', import.meta.url))
    const home = join(store.file, '..')
    const give = (name: string) => promisify(execFile)(process.execPath, ['--import', 'tsx', script, home, name, '20'])
    await Promise.all([give('a'), give('b')])
    expect(store.list()).toHaveLength(40)
    expect(readdirSync(home)).toEqual(['trust.json'])
  })
})

describe('a lock', () => {
  it('left by a process that died is taken over, one of a living process is respected and named', async () => {
    const file = join(scratch(), 'file')
    let other: { pid: number } | undefined
    locked(file, () => {
      other = JSON.parse(readFileSync(`${file}.lock`, 'utf8'))
      expect(() => locked(file, () => {})).toThrow(
        new RegExp(
          `STORE_LOCKED: the file is being written by process ${process.pid} on .*\n.*\n {2}fix: {3}.*file\\.lock`,
        ),
      )
    })
    expect(existsSync(`${file}.lock`)).toBe(false)
    writeFileSync(`${file}.lock`, JSON.stringify({ ...other, pid: 2 ** 22 - 3, started: '1' }))
    expect(await lockedSoon(file, () => 'mine')).toBe('mine')
    expect(existsSync(`${file}.lock`)).toBe(false)
  })
})

describe('the project folder', () => {
  it('is the nearest one at or above with a folder .cambium that is not the home', () => {
    const root = scratch()
    const deep = join(root, 'work', 'app', 'src', 'deep')
    mkdirSync(deep, { recursive: true })
    mkdirSync(join(root, '.cambium'))
    const env = { CAMBIUM_HOME: join(root, '.cambium') }
    expect(projectFolder(deep, env)).toBeUndefined()
    mkdirSync(join(root, 'work', '.cambium'))
    expect(projectFolder(deep, env)).toBe(join(root, 'work'))
    writeFileSync(join(root, 'work', 'app', '.cambium'), 'a file is none')
    expect(projectFolder(deep, env)).toBe(join(root, 'work'))
    mkdirSync(join(deep, '.cambium'))
    expect(projectFolder(deep, env)).toBe(deep)
  })

  it('is not the home by another name', () => {
    const root = scratch()
    mkdirSync(join(root, 'home'))
    mkdirSync(join(root, 'user'))
    symlinkSync('../home', join(root, 'user', '.cambium'))
    expect(projectFolder(join(root, 'user'), { CAMBIUM_HOME: join(root, 'home') })).toBeUndefined()
  })
})
