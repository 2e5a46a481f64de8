import {
  chmodSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { replaceFile } from '@cambium/store'
import { expect, it, onTestFinished } from 'vitest'

function scratch() {
  const folder = mkdtempSync(join(tmpdir(), 'cambium-replace-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

it('a replaced file keeps its mode, and nothing is left beside it', () => {
  const folder = scratch()
  const file = join(folder, 'cordis.yml')
  writeFileSync(file, 'old')
  chmodSync(file, 0o640)
  replaceFile(file, 'new')
  expect(readFileSync(file, 'utf8')).toBe('new')
  expect(statSync(file).mode & 0o777).toBe(0o640)
  expect(readdirSync(folder)).toEqual(['cordis.yml'])
})

it('a new file is for the owner only, unless another mode is given', () => {
  const folder = scratch()
  replaceFile(join(folder, 'own'), 'x')
  replaceFile(join(folder, 'shared'), 'x', { mode: 0o644 })
  expect(statSync(join(folder, 'own')).mode & 0o777).toBe(0o600)
  expect(statSync(join(folder, 'shared')).mode & 0o777).toBe(0o644)
})

it('links stay, and what they lead to is replaced, or created', () => {
  const folder = scratch()
  mkdirSync(join(folder, 'real'))
  writeFileSync(join(folder, 'real', 'target'), 'old')
  symlinkSync('real/target', join(folder, 'middle'))
  symlinkSync('middle', join(folder, 'link'))
  symlinkSync('real/later', join(folder, 'dangling'))
  replaceFile(join(folder, 'link'), 'new')
  replaceFile(join(folder, 'dangling'), 'first')
  expect(readFileSync(join(folder, 'real', 'target'), 'utf8')).toBe('new')
  expect(readFileSync(join(folder, 'real', 'later'), 'utf8')).toBe('first')
  for (const name of ['middle', 'link', 'dangling']) expect(lstatSync(join(folder, name)).isSymbolicLink()).toBe(true)
})

it('what is read-only is refused untouched, for root too, with words about that file', () => {
  const folder = scratch()
  const file = join(folder, 'sub', 'file')
  mkdirSync(join(folder, 'sub'))
  writeFileSync(file, 'old')
  chmodSync(file, 0o444)
  expect(() => replaceFile(file, 'new')).toThrow(
    /^STORE_READ_ONLY: cannot write the file: permission denied\n {2}where: .*file\n {2}fix: {3}make the file and its folder writable/,
  )
  chmodSync(file, 0o644)
  chmodSync(join(folder, 'sub'), 0o555)
  expect(() => replaceFile(file, 'new')).toThrow(/STORE_READ_ONLY/)
  chmodSync(join(folder, 'sub'), 0o755)
  expect(readFileSync(file, 'utf8')).toBe('old')
  expect(readdirSync(join(folder, 'sub'))).toEqual(['file'])
})

it('what is no file, not there, or a circle is refused', () => {
  const folder = scratch()
  symlinkSync('b', join(folder, 'a'))
  symlinkSync('a', join(folder, 'b'))
  expect(() => replaceFile(folder, 'x')).toThrow(/STORE_PATH: .*a folder is in the way\n.*\n.*name a file/)
  expect(() => replaceFile(join(folder, 'a'), 'x')).toThrow(/STORE_PATH: .*lead round in a circle/)
  expect(() => replaceFile(join(folder, 'no', 'file'), 'x')).toThrow(/STORE_PATH: .*\n.*\n.*create its folder first/)
})

it.runIf(process.platform === 'linux')('a file system that is read-only is told', () => {
  expect(() => replaceFile('/proc/version', 'x')).toThrow(/STORE_READ_ONLY/)
})
