/**
 * Proof that a piece of reasoning came from this kind of server unchanged. It holds across servers and processes, since
 * a session may be resumed against another one, and it is the same whenever the same is said.
 */

import { createHash } from 'node:crypto'

const digest = (kind: string, text: string) => createHash('sha256').update(`testkit ${kind} ${text}`).digest()

/** The signature of a thinking block with this text. */
export const signatureOf = (thinking: string): string => digest('thinking', thinking).toString('base64')

function sealed(kind: string, content: string): string {
  return Buffer.concat([digest(kind, content), Buffer.from(content)]).toString('base64')
}

function unsealed(kind: string, seal: unknown): string | undefined {
  if (typeof seal !== 'string') return undefined
  const bytes = Buffer.from(seal, 'base64')
  const content = bytes.subarray(32).toString()
  return bytes.length > 32 && sealed(kind, content) === seal ? content : undefined
}

/** The `data` of a redacted thinking block. */
export const redactedData = (thinking: string): string => sealed('redacted', thinking || '-')
export const isRedactedData = (data: unknown): boolean => unsealed('redacted', data) !== undefined

/** What the encrypted content of a reasoning item holds: its id, and the type of the item that it led to. */
export interface ReasoningSecret {
  readonly id: string
  readonly next: string
}
export const encryptedContent = (secret: ReasoningSecret): string => sealed('reasoning', JSON.stringify(secret))
export function readEncrypted(content: unknown): ReasoningSecret | undefined {
  const text = unsealed('reasoning', content)
  return text === undefined ? undefined : JSON.parse(text)
}
