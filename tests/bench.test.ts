import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'

const script = fileURLToPath(new URL('../bench/run.mjs', import.meta.url))

test('the benchmark measures the released form beside a bare exchange, and reloads beside a start', async () => {
  const args = [script, '--runs', '1', '--only', 'step', '--only', 'reload', '--reloads', '2', '--json']
  const { stdout } = await promisify(execFile)(process.execPath, args)
  const { results, reload } = JSON.parse(stdout)
  const figures = { wallMs: expect.any(Number), cpuMs: expect.any(Number), peakMiB: expect.any(Number) }
  expect(results.step).toEqual({
    cambium: { ...figures, gapMs: expect.any(Number) },
    bare: { ...figures, gapMs: expect.any(Number) },
    firstMs: expect.any(Number),
  })
  const { restartMs, codeMs, rowMs, leak, rows } = reload
  expect([restartMs, codeMs, rowMs, leak.mib]).toEqual(Array(4).fill(expect.any(Number)))
  // A timer that runs at the moment is a handle as well.
  expect({ ...leak.heldAfter, handles: 0 }).toEqual({ ...leak.held, handles: 0 })
  expect(rows.touched).toBe(1)
}, 120_000)
