import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { homedir, tmpdir } from 'node:os'
import { join } from 'node:path'
import { ensureFolder, homeFolder, writeAtomic } from '@cambium/store'
import { expect, it, onTestFinished } from 'vitest'

function scratch() {
  const folder = mkdtempSync(join(tmpdir(), 'cambium-store-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

it('the home is CAMBIUM_HOME, made absolute, else a folder of the user', () => {
  expect(homeFolder({})).toBe(join(homedir(), '.cambium'))
  expect(homeFolder({ CAMBIUM_HOME: ' ' })).toBe(join(homedir(), '.cambium'))
  expect(homeFolder({ CAMBIUM_HOME: '/srv/agent' })).toBe('/srv/agent')
  expect(homeFolder({ CAMBIUM_HOME: 'here' })).toBe(join(process.cwd(), 'here'))
  expect(homeFolder({ CAMBIUM_HOME: '~/agent' })).toBe(join(homedir(), 'agent'))
})

it.skipIf(process.platform === 'win32')('folders and files are for the owner only', () => {
  const folder = join(scratch(), 'a', 'b')
  ensureFolder(folder)
  ensureFolder(folder)
  writeAtomic(join(folder, 'file'), 'x')
  expect(statSync(join(folder, '..')).mode & 0o777).toBe(0o700)
  expect(statSync(join(folder, 'file')).mode & 0o777).toBe(0o600)
})

it('a folder that cannot be made is one sentence with the path and what to do', () => {
  const file = join(scratch(), 'file')
  writeFileSync(file, '')
  expect(() => ensureFolder(join(file, 'sub'))).toThrow(
    /STORE_PATH: cannot create a folder: .*\n {2}where: .*file\/sub\n {2}fix: {3}/,
  )
})

it('writing atomically replaces the file and leaves nothing beside it, when it fails too', () => {
  const folder = scratch()
  writeAtomic(join(folder, 'file'), 'one')
  writeAtomic(join(folder, 'file'), 'two')
  expect(readFileSync(join(folder, 'file'), 'utf8')).toBe('two')
  ensureFolder(join(folder, 'taken'))
  writeFileSync(join(folder, 'taken', 'x'), '')
  expect(() => writeAtomic(join(folder, 'taken'), 'three')).toThrow()
  expect(readdirSync(folder).sort()).toEqual(['file', 'taken'])
})

it.runIf(process.platform === 'linux')('a folder where none can be is refused, not waited for', () => {
  expect(() => ensureFolder('/proc/nope/sessions')).toThrow(/STORE_PATH: .*nothing can be created there/)
})
