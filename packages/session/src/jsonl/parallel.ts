import { Pace } from '@cambium/core'

const AT_ONCE = 16
const SLICE_MS = 8

/** Answers in the order of the items; a bounded number is worked on at once. */
export async function inParallel<T, R>(items: readonly T[], run: (item: T) => Promise<R>): Promise<R[]> {
  const results: R[] = []
  let next = 0
  const worker = async () => {
    for (let at = next++; at < items.length; at = next++) results[at] = await run(items[at]!)
  }
  await Promise.all(Array.from({ length: Math.min(AT_ONCE, items.length) }, worker))
  return results
}

/**
 * For thousands of short looks at the disk, which cost a twentieth without the way through the thread pool: others have
 * their turn every few milliseconds.
 */
export async function inSlices<T, R>(items: readonly T[], run: (item: T) => R): Promise<R[]> {
  const results: R[] = []
  const pace = new Pace(undefined, SLICE_MS)
  for (const item of items) {
    results.push(run(item))
    await pace.rest()
  }
  return results
}
