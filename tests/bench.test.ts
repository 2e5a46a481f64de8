import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'

const script = fileURLToPath(new URL('../bench/run.mjs', import.meta.url))

test('the benchmark measures the released form beside a bare exchange', async () => {
  const args = [script, '--runs', '1', '--only', 'step', '--json']
  const { stdout } = await promisify(execFile)(process.execPath, args)
  const { results } = JSON.parse(stdout)
  const figures = { wallMs: expect.any(Number), cpuMs: expect.any(Number), peakMiB: expect.any(Number) }
  expect(results.step).toEqual({
    cambium: { ...figures, gapMs: expect.any(Number) },
    bare: { ...figures, gapMs: expect.any(Number) },
    firstMs: expect.any(Number),
  })
})
