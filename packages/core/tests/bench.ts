/** A root of our kernel whose log a test can read. */

import { type Context, createRoot, type RootOptions } from '@cambium/core'

export function bench(options: RootOptions = {}): { root: Context; logs: string[] } {
  const logs: string[] = []
  const root = createRoot({
    level: 'info',
    write: record => void logs.push(`${record.level} ${record.name}: ${record.text}`),
    ...options,
  })
  return { root, logs }
}

/** The first lines, without the places of errors. */
export const heads = (logs: readonly string[]) => logs.map(line => line.split('\n')[0])

export const turn = () => new Promise<void>(resolve => setImmediate(resolve))
