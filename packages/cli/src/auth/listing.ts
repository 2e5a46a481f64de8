/** What `cambium auth list` shows: each provider, where what lets it in comes from, and what else is stored. */

import type { Context } from '@cambium/core'
import type {} from '@cambium/llm'
import type { KnownCredential } from '@cambium/store/credentials'
import { escapeControls } from '../printable.ts'

export interface ListedKey {
  readonly name: string
  readonly from: 'environment' | 'file'
  readonly hint: string
  /** One is stored too, and does not count. */
  readonly shadowed: boolean
}

export interface ListedProvider {
  readonly provider: string
  /** Where the key or the login that counts comes from; absent when there is none. */
  readonly from?: 'environment' | 'file' | 'login' | 'configuration'
  /** Under which its key is looked for, the usual one first. */
  readonly names: readonly string[]
  readonly key?: ListedKey
  readonly login?: { readonly offered: boolean; readonly loggedIn: boolean; readonly expires?: string }
}

export interface Listing {
  readonly providers: readonly ListedProvider[]
  /** Stored under names that no provider looks for. */
  readonly others: readonly ListedKey[]
}

export function listingOf({ llm, credentials, auth }: Context): Listing {
  const offers = llm.list().filter(({ kind }) => kind !== 'demo')
  // What stands in the environment is known by being asked for.
  for (const { credentials: names } of offers) for (const name of names) credentials.get(name)
  const known = new Map(credentials.list().map(key => [key.name, listed(key)]))
  const logins = new Map(auth.list().map(state => [state.id, state]))
  const named = new Set([...offers.map(({ provider }) => provider), ...logins.keys()])
  const used = new Set(offers.flatMap(({ credentials: names }) => names))
  const providers = [...named].map((provider): ListedProvider => {
    const offer = offers.find(found => found.provider === provider)
    const names = offer?.credentials ?? []
    const key = names.map(name => known.get(name)).find(found => found !== undefined)
    const state = logins.get(provider)
    const expires = state?.expiresAt === undefined ? {} : { expires: new Date(state.expiresAt).toISOString() }
    const configured = offer?.kind === 'remote' && offer.ready && !names.length
    const from = key?.from ?? (configured ? 'configuration' : state?.offered && state.loggedIn ? 'login' : undefined)
    return {
      provider,
      ...(from ? { from } : {}),
      names,
      ...(key ? { key } : {}),
      ...(state ? { login: { offered: state.offered, loggedIn: state.loggedIn, ...expires } } : {}),
    }
  })
  return { providers, others: [...known.values()].filter(({ name }) => !used.has(name)) }
}

const listed = ({ name, from, hint, stored }: KnownCredential): ListedKey => ({
  name,
  from,
  hint,
  shadowed: stored && from === 'environment',
})

export function renderListing({ providers, others }: Listing): string {
  const rows = [
    ...providers.map(({ provider, from, names, key, login }) => [
      provider,
      key?.name ?? names[0] ?? '',
      from ?? '–',
      [key && hintText(key), login && loginText(login)].filter(Boolean).join(' · '),
    ]),
    ...others.map(key => ['–', key.name, key.from, hintText(key)]),
  ]
  const widths = [0, 1, 2].map(at => Math.max(...rows.map(row => row[at]!.length)))
  const lines = rows.map(row =>
    row
      .map((cell, at) => escapeControls(cell).padEnd(widths[at] ?? 0))
      .join('  ')
      .trimEnd(),
  )
  return `${lines.join('\n')}\n`
}

function hintText({ hint, shadowed }: ListedKey): string {
  const shown = hint ? `…${hint}` : ''
  return shadowed ? `${shown} (the stored one does not count)`.trim() : shown
}

function loginText({ offered, loggedIn, expires }: NonNullable<ListedProvider['login']>): string {
  if (!loggedIn) return 'a login is offered'
  const until = expires ? `, renewed at ${expires.slice(0, 16).replace('T', ' ')}` : ''
  return offered ? `logged in${until}` : 'logged in, but no plugin offers that login now'
}
