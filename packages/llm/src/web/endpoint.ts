/** Where a provider is and what lets us in, as configuration, environment and stored credentials say at this moment. */

import type { CredentialSource } from './credentials.ts'
import { isLoopback } from './http.ts'
import type { ProviderEntry } from './provider.ts'
import type { ProviderSettings } from './settings.ts'

/** What one request uses, read in one go so that a change of settings never mixes an address with another's key. */
export interface Endpoint {
  /** Without a slash at its end. */
  readonly base: string
  readonly key: string | undefined
  readonly headers: Readonly<Record<string, string>>
}

export function readEndpoint(
  entry: ProviderEntry,
  settings: ProviderSettings,
  credentials: CredentialSource,
): Endpoint {
  const key =
    settings.apiKey?.trim() || entry.keys.map(name => credentials.get(name)).find(value => value !== undefined)
  return { base: baseOf(entry), key, headers: settings.headers ?? {} }
}

/** Its address at this moment, without a slash at its end. */
export function baseOf(entry: ProviderEntry): string {
  const written = entry.bases.map(name => process.env[name]?.trim()).find(value => value)
  return written === undefined ? trimmed(entry.baseURL) : completed(written, entry)
}

/** It is on this machine. */
export const isHome = (base: string): boolean => URL.canParse(base) && isLoopback(new URL(base).hostname)

/** None is needed: a server on this machine asks for none. */
export function needsKey({ base }: Endpoint, { kind }: ProviderEntry): boolean {
  return kind !== 'local' && kind !== 'named' && !isHome(base)
}

/** An address as people write it in a variable: `localhost:11434`, `0.0.0.0`, `https://host`. */
function completed(value: string, { path, kind, baseURL }: ProviderEntry): string {
  const bare = !/^https?:\/\//i.test(value)
  const text = bare ? `http://${value}` : value
  if (!URL.canParse(text)) return value
  const url = new URL(text)
  if (url.hostname === '0.0.0.0') url.hostname = '127.0.0.1'
  if (bare && !url.port && kind !== 'remote') url.port = new URL(baseURL).port
  return path ? withVersion(url.href, path) : trimmed(url.href)
}

/** An address that ends in a version, `path` where it has none. */
export function withVersion(address: string, path: string): string {
  const base = trimmed(address)
  return /\/v\d+[a-z]*$/.test(base) ? base : `${base}${path}`
}

export const trimmed = (base: string): string =>
  base.replace(/\/+$/, '').replace(/\/(chat\/completions|messages|responses)$/, '')
