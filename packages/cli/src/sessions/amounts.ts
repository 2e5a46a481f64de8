/** Times and sizes, as a person reads and writes them. */

import { usageError } from '../flags.ts'

const MINUTE = 60_000
const HOUR = 60 * MINUTE
const DAY = 24 * HOUR

/** `just now`, `5 min ago`, `3 h ago`, `yesterday`, `4 days ago`, `2026-10-12`. A clock that went back makes no future. */
export function since(time: number, now: number): string {
  const age = now - time
  if (age < MINUTE) return 'just now'
  if (age < HOUR) return `${Math.floor(age / MINUTE)} min ago`
  if (age < DAY) return `${Math.floor(age / HOUR)} h ago`
  if (age < 2 * DAY) return 'yesterday'
  return age < 30 * DAY ? `${Math.floor(age / DAY)} days ago` : dateTime(time).slice(0, 10)
}

/** `2026-11-30 14:15`, as the clock on the wall. */
export function dateTime(time: number): string {
  const date = new Date(time)
  if (Number.isNaN(date.getTime())) return 'at an unknown time'
  const two = (value: number) => String(value).padStart(2, '0')
  const day = `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`
  return `${day} ${two(date.getHours())}:${two(date.getMinutes())}`
}

/** `940 B`, `48 kB`, `1.2 MB`: powers of ten, as file managers count. */
export function fileSize(bytes: number): string {
  if (bytes < 1_000) return `${bytes} B`
  for (const [unit, size] of [
    ['kB', 1e3],
    ['MB', 1e6],
    ['GB', 1e9],
  ] as const) {
    const value = bytes / size
    if (value < 9.95) return `${value.toFixed(1)} ${unit}`
    if (value < 999.5 || unit === 'GB') return `${Math.round(value)} ${unit}`
  }
  return `${bytes} B`
}

/** `30d`, `2w`, `12h`, `90m` in milliseconds. A number alone is none: of what, is too much to guess when something is deleted. @throws `CLI_USAGE` */
export function readAge(flag: string, text: string): number {
  const match = /^(\d{1,6}(?:\.\d+)?)(m|h|d|w)$/.exec(text)
  const unit = { m: MINUTE, h: HOUR, d: DAY, w: 7 * DAY }[match?.[2] ?? '']
  if (!match || !unit) throw usageError(`--${flag} ${text} is not an age`, 'write 30d, 2w, 12h or 90m')
  return Math.round(Number(match[1]) * unit)
}

/** `500M`, `1G`, `1.5GB`, `100k` in bytes. @throws `CLI_USAGE` */
export function readSize(flag: string, text: string): number {
  const match = /^(\d{1,12}(?:\.\d+)?)([kmgt])b?$/i.exec(text)
  const unit = { k: 1e3, m: 1e6, g: 1e9, t: 1e12 }[match?.[2]?.toLowerCase() ?? '']
  if (!match || !unit) throw usageError(`--${flag} ${text} is not a size`, 'write 500M or 1G')
  return Math.round(Number(match[1]) * unit)
}

/** @throws `CLI_USAGE` unless the text is a whole number */
export function readNumber(flag: string, text: string): number {
  if (!/^\d{1,9}$/.test(text)) throw usageError(`--${flag} ${text} is not a whole number`)
  return Number(text)
}
