/** Where a provider is and what lets us in, as configuration and environment say at this moment. */

import type { RouteEntry } from '../openai/presets.ts'
import type { ProviderConfig } from '../openai.ts'
import { isLoopback } from './http.ts'

/** What one request uses, read in one go so that a change of settings never mixes an address with another's key. */
export interface Endpoint {
  /** Without a slash at its end; `/chat/completions` and `/models` are appended. */
  readonly base: string
  readonly key: string | undefined
  readonly headers: Readonly<Record<string, string>>
}

export function readEndpoint(entry: RouteEntry, settings: ProviderConfig): Endpoint {
  const written = entry.bases.map(readVariable).find(value => value !== undefined)
  const base = written === undefined ? trimmed(entry.baseURL) : completed(written, entry)
  const key = settings.apiKey?.trim() || entry.keys.map(readVariable).find(value => value !== undefined)
  return { base, key, headers: settings.headers ?? {} }
}

/** A key is there, or none is needed: a server on this machine asks for none. */
export function usable({ base, key }: Endpoint, { kind }: RouteEntry): boolean {
  if (key !== undefined || kind === 'local') return true
  return URL.canParse(base) && isLoopback(new URL(base).hostname)
}

export function headersOf({ key, headers }: Endpoint): Record<string, string> {
  const own = Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]))
  return { 'user-agent': 'cambium', ...(key ? { authorization: `Bearer ${key}` } : {}), ...own }
}

function readVariable(name: string): string | undefined {
  return process.env[name]?.trim() || undefined
}

/** An address as people write it in a variable: `localhost:11434`, `0.0.0.0`, `https://host`. */
function completed(value: string, { path, kind, baseURL }: RouteEntry): string {
  const bare = !/^https?:\/\//i.test(value)
  const text = bare ? `http://${value}` : value
  if (!URL.canParse(text)) return value
  const url = new URL(text)
  if (url.hostname === '0.0.0.0') url.hostname = '127.0.0.1'
  if (bare && !url.port && kind === 'local') url.port = new URL(baseURL).port
  const base = trimmed(url.href)
  return !path || /\/v\d+[a-z]*$/.test(base) ? base : `${base}${path}`
}

const trimmed = (base: string) => base.replace(/\/+$/, '').replace(/\/chat\/completions$/, '')
