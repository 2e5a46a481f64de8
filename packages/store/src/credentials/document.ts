/** What stands in `credentials.json`: reading it strictly, writing it, and saying where it is broken without quoting it. */

import { HarnessError, type JsonObject } from '@cambium/core'
import type { Grant } from './contract.ts'
import { jsonFault } from './json-fault.ts'

export interface Content {
  readonly keys: Map<string, string>
  /** By the id of the provider. */
  readonly grants: Map<string, Grant>
}

export const emptyContent = (): Content => ({ keys: new Map(), grants: new Map() })

/** @throws `STORE_CREDENTIALS_INVALID` with file, line and column */
export function parseContent(text: string, file: string): Content {
  if (!text.trim()) return emptyContent()
  let data: unknown
  try {
    data = JSON.parse(text)
  } catch {
    // What the parser says quotes the text: a key could be in it.
    throw invalid('it is no JSON', text, jsonFault(text), file)
  }
  const at = (key: string) => Math.max(0, text.indexOf(JSON.stringify(key)))
  if (!isRecord(data)) throw invalid('it is no JSON object', text, 0, file)
  const { version, keys = {}, grants = {}, ...rest } = data
  if (version !== 1) {
    const newer = typeof version === 'number' && version > 1
    throw invalid(
      newer ? 'a newer version of cambium has written it' : 'its version is not 1',
      text,
      at('version'),
      file,
    )
  }
  const [unknown] = Object.keys(rest)
  if (unknown !== undefined) throw invalid('it holds more than version, keys and grants', text, at(unknown), file)
  if (!isRecord(keys)) throw invalid('its keys are no map of names to texts', text, at('keys'), file)
  if (!isRecord(grants)) throw invalid('its grants are no map', text, at('grants'), file)
  const content = emptyContent()
  for (const [name, value] of Object.entries(keys)) {
    if (typeof value !== 'string') throw invalid('a key is no text', text, at(name), file)
    content.keys.set(name, value)
  }
  for (const [id, grant] of Object.entries(grants)) {
    if (!isGrant(grant)) throw invalid('a grant has no data, or no time in expiresAt', text, at(id), file)
    content.grants.set(id, grant)
  }
  return content
}

export function renderContent({ keys, grants }: Content): string {
  const sorted = <T>(map: Map<string, T>) => Object.fromEntries([...map].sort(([a], [b]) => (a < b ? -1 : 1)))
  return `${JSON.stringify({ version: 1, keys: sorted(keys), grants: sorted(grants) }, null, 2)}\n`
}

function invalid(problem: string, text: string, offset: number, file: string) {
  const lines = text.slice(0, offset).split('\n')
  return new HarnessError('STORE_CREDENTIALS_INVALID', `the stored credentials cannot be used: ${problem}`, {
    where: `${file}:${lines.length}:${lines.at(-1)!.length + 1}`,
    fix: 'correct the file by hand, or remove it and store the keys again; it is left as it is',
  })
}

function isGrant(value: unknown): value is Grant {
  if (!isRecord(value) || !isRecord(value['data'])) return false
  const { expiresAt } = value
  return expiresAt === undefined || (typeof expiresAt === 'number' && Number.isFinite(expiresAt))
}

export const isRecord = (value: unknown): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
