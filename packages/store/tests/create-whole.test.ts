import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createWhole, takeLease, writeAtomic } from '@cambium/store'
import { expect, it, onTestFinished } from 'vitest'

it('what a killed process of the same number left is in nobody’s way', () => {
  const folder = mkdtempSync(join(tmpdir(), 'cambium-store-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const path = join(folder, 'one')
  // In a container a process has the number that the one before it had.
  for (const name of [path, `${path}.lock`]) {
    for (let count = 0; count < 50; count++) writeFileSync(`${name}.${process.pid}.${count}.tmp`, '')
  }
  expect(createWhole(path, 'first')).toBe(true)
  expect(createWhole(path, 'second')).toBe(false)
  expect(readFileSync(path, 'utf8')).toBe('first')
  writeAtomic(path, 'third')
  expect(readFileSync(path, 'utf8')).toBe('third')
  const taking = takeLease(`${path}.lock`, { staleMs: 1_000 })
  expect(taking.kind).toBe('taken')
  if (taking.kind === 'taken') taking.lease.release()
  expect(readdirSync(folder)).toHaveLength(101)
})
