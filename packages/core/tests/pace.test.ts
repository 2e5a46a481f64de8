import { Pace } from '@cambium/core'
import { expect, it, vi } from 'vitest'

const othersRan = async (pace: Pace) => {
  let others = false
  setImmediate(() => {
    others = true
  })
  await pace.rest()
  return others
}

it('long work goes straight on within a slice, and lets others run when that is over', async () => {
  const now = vi.spyOn(performance, 'now').mockReturnValue(1_000)
  try {
    const pace = new Pace(undefined, 10)
    now.mockReturnValue(1_009)
    expect(await othersRan(pace)).toBe(false)
    now.mockReturnValue(1_010)
    expect(await othersRan(pace)).toBe(true)
    now.mockReturnValue(1_019)
    expect(await othersRan(pace)).toBe(false)
  } finally {
    now.mockRestore()
  }
})

it('long work ends with the reason of its signal, also where that came while others ran', async () => {
  const stop = new AbortController()
  const pace = new Pace(stop.signal, 0)
  setImmediate(() => stop.abort(new Error('enough')))
  await expect(pace.rest()).rejects.toThrow('enough')
  await expect(pace.rest()).rejects.toThrow('enough')
})
