import { existsSync } from 'node:fs'
import { isAbsolute, join } from 'node:path'
import { tempWorkspace } from '@cambium/testkit'
import { expect, it } from 'vitest'

it('a temporary workspace starts with its files and leaves nothing behind', () => {
  const folder = tempWorkspace({ 'src/a.txt': 'é\r\n', 'b.bin': Uint8Array.of(0, 255) })
  expect(isAbsolute(folder.path)).toBe(true)
  expect(folder.read('src/a.txt')).toBe('é\r\n')
  expect([...folder.bytes('b.bin')]).toEqual([0, 255])
  expect(folder.write('deep/er/c.txt', 'c')).toBe(join(folder.path, 'deep/er/c.txt'))
  expect(folder.read('deep/er/c.txt')).toBe('c')
  folder.dispose()
  expect(existsSync(folder.path)).toBe(false)
})
