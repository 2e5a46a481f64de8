/** Names of sessions: made here, or given by whoever embeds us, and always fit to be a file's name. */

import { randomBytes } from 'node:crypto'
import { HarnessError } from '@cambium/core'
import type { SessionId } from './event.ts'

const PATTERN = /^[A-Za-z0-9][A-Za-z0-9._-]{0,119}$/

export function isSessionId(id: string): boolean {
  return PATTERN.test(id)
}

/** @throws `SESSION_ID_INVALID` */
export function assertSessionId(id: string): void {
  if (isSessionId(id)) return
  throw new HarnessError('SESSION_ID_INVALID', `${JSON.stringify(id)} cannot be the id of a session`, {
    fix: 'use 1 to 120 of the characters A-Z a-z 0-9 . _ - and begin with a letter or a digit',
  })
}

/** Sorts by time of creation and can be typed: `20261130-141503-k3f9qa`. */
export function newSessionId(now = new Date()): SessionId {
  const [date, time] = now.toISOString().slice(0, 19).replaceAll(/[-:]/g, '').split('T')
  const letters = [...randomBytes(6)].map(byte => (byte % 36).toString(36)).join('')
  return `${date}-${time}-${letters}`
}
