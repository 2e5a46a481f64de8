/** The key that is to be stored: typed unseen or piped in, and what looks wrong about it. */

import { usageError } from '../flags.ts'
import type { Surface } from '../surface.ts'

const MAX_BYTES = 64 * 1024

/** Undefined when the person gave up. @throws `CLI_USAGE` when there is nobody to ask and nothing piped in */
export async function readValue(
  name: string,
  { input, notes }: Surface,
  signal: AbortSignal,
): Promise<string | undefined> {
  const keyboard = input?.keyboard
  if (keyboard) {
    const { askHidden } = await import('../ask-hidden.ts')
    const typed = await askHidden(keyboard, notes, `Key for ${name} (it is not shown): `, signal)
    return typed?.trim()
  }
  if (!input || input.stdin.isTTY) {
    throw usageError(`nobody can be asked for ${name}`, `pipe it in: cambium auth set ${name} < file`)
  }
  return readPiped(input.stdin, signal)
}

async function readPiped(stdin: AsyncIterable<Buffer | string>, signal: AbortSignal): Promise<string | undefined> {
  const chunks: Buffer[] = []
  let size = 0
  const stopped = new Promise<undefined>(resolve => {
    signal.addEventListener('abort', () => resolve(undefined), { once: true })
  })
  const iterator = stdin[Symbol.asyncIterator]()
  while (!signal.aborted) {
    const next = await Promise.race([iterator.next(), stopped])
    if (!next) return undefined
    if (next.done)
      return Buffer.concat(chunks)
        .toString('utf8')
        .replace(/^\ufeff/, '')
        .trim()
    const chunk = Buffer.from(next.value)
    size += chunk.length
    if (size > MAX_BYTES) throw usageError('what is piped in is too long for a key', 'pipe in the key alone')
    chunks.push(chunk)
  }
  return undefined
}

/** What is stored all the same: only its provider knows what a key looks like. */
export function doubtsAbout(value: string): string[] {
  const doubts: [boolean, string][] = [
    [
      /^(?:export\s+|set\s+)?[A-Za-z_]\w*\s*=/.test(value),
      'begins like an assignment: only what stands behind the = is the key',
    ],
    [/^(["'`]).*\1$/.test(value), 'stands in quotes, which are a part of it now'],
    [/\s/.test(value.replace(/^(?:export|set|Bearer)\s+/, '')), 'holds blanks'],
    [/^Bearer\s/i.test(value), 'begins with Bearer, which is no part of a key'],
    [/[^\x20-\x7e]/.test(value), 'holds characters that no key has'],
    [value.length < 8, 'is very short'],
    [/^[$%]\{?\w+[}%]?$/.test(value), 'is the name of a variable, not its value'],
  ]
  return doubts.flatMap(([applies, doubt]) => (applies ? [doubt] : []))
}
