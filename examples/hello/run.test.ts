import { fileURLToPath } from 'node:url'
import { bootTree } from '@cambium/testkit'
import { afterEach, expect, test, vi } from 'vitest'

const file = fileURLToPath(new URL('./cordis.yml', import.meta.url))

afterEach(() => void vi.restoreAllMocks())

test('the tool runs for Ada, and the gate stops it for Mallory', async () => {
  const lines: string[] = []
  vi.spyOn(console, 'log').mockImplementation((line: string) => void lines.push(line))
  const tree = await bootTree({ file })
  expect(await tree.ended).toBe(0)
  expect(lines).toEqual([
    'allowed  greet Ada: Hello, Ada!',
    expect.stringMatching(/^denied {3}greet Mallory: .*Mallory is not greeted here\.$/),
  ])
})

test('without the gate Mallory is greeted too', async () => {
  const lines: string[] = []
  vi.spyOn(console, 'log').mockImplementation((line: string) => void lines.push(line))
  const tree = await bootTree({ file }, { patches: [{ text: '- { id: gate, disabled: true }' }] })
  expect(await tree.ended).toBe(0)
  expect(lines[1]).toBe('allowed  greet Mallory: Hello, Mallory!')
})
