/** Whether the data of a PNG is whole; apart from its header, since few starts ever see one. */

import { once } from 'node:events'
import { crc32, createInflate } from 'node:zlib'
import { chunks } from './png.ts'

/** Why it cannot be decoded; undefined when nothing is wrong. Its data is inflated, but not kept. */
export async function damagedPng(bytes: Buffer): Promise<string | undefined> {
  const data: Buffer[] = []
  let ended = false
  for (const { type, start, end } of chunks(bytes)) {
    if (end + 4 > bytes.length) return 'it is cut off'
    if (crc32(bytes.subarray(start - 4, end)) !== bytes.readUInt32BE(end))
      return `its ${printable(type)} part is damaged`
    if (type === 'IDAT') data.push(bytes.subarray(start, end))
    if (type === 'IEND') {
      ended = true
      break
    }
  }
  if (!ended) return 'it is cut off'
  const expected = dataLength(bytes)
  if (expected === undefined) return 'its header is senseless'
  const found = await inflatedLength(data, expected)
  return found !== undefined && found >= expected ? undefined : 'its pixels are damaged'
}

const printable = (type: string) => (/^[A-Za-z]{4}$/.test(type) ? type : 'next')

const CHANNELS: Readonly<Record<number, number>> = { 0: 1, 2: 3, 3: 1, 4: 2, 6: 4 }
/** Where each pass of Adam7 begins, and its steps. */
const PASSES = [
  [0, 0, 8, 8],
  [4, 0, 8, 8],
  [0, 4, 4, 8],
  [2, 0, 4, 4],
  [0, 2, 2, 4],
  [1, 0, 2, 2],
  [0, 1, 1, 2],
] as const

/** Bytes of all rows, each with its filter byte. */
function dataLength(bytes: Buffer): number | undefined {
  const width = bytes.readUInt32BE(16)
  const height = bytes.readUInt32BE(20)
  const depth = bytes[24]!
  const channels = CHANNELS[bytes[25]!]
  if (!channels || ![1, 2, 4, 8, 16].includes(depth)) return undefined
  const rows = (columns: number, count: number) =>
    columns && count ? count * (1 + Math.ceil((columns * channels * depth) / 8)) : 0
  if (!bytes[28]) return rows(width, height)
  const part = (size: number, from: number, step: number) => Math.max(0, Math.ceil((size - from) / step))
  return PASSES.reduce((sum, [x, y, dx, dy]) => sum + rows(part(width, x, dx), part(height, y, dy)), 0)
}

/** How long the data is, counted up to `limit`; undefined when it is no such data. */
async function inflatedLength(data: readonly Buffer[], limit: number): Promise<number | undefined> {
  const inflate = createInflate()
  let length = 0
  inflate.on('data', (part: Buffer) => {
    length += part.length
    if (length >= limit) inflate.destroy()
  })
  const over = once(inflate, 'close')
  const failed = new Promise<undefined>(resolve => inflate.once('error', () => resolve(undefined)))
  for (const part of data) inflate.write(part)
  inflate.end()
  await Promise.race([over.catch(() => {}), failed])
  return inflate.errored ? undefined : length
}
