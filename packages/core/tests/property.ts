/** A test that holds for all values that fast-check thinks of; the same ones each time, so that a failure comes back. */

import * as fc from 'fast-check'
import { it as test } from 'vitest'

export { fc }

export function it<T extends [unknown, ...unknown[]]>(
  name: string,
  values: { [K in keyof T]: fc.Arbitrary<T[K]> },
  holds: (...values: T) => void,
) {
  test(name, () => {
    return fc.assert(
      fc.property(...values, (...given) => holds(...(given as T))),
      { seed: 20_24, numRuns: 300 },
    )
  })
}
