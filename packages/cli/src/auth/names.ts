/** From what a person calls a key to the names it is looked for under. */

import { nearest } from '@cambium/core'
import type { ProviderInfo } from '@cambium/llm'
import { usageError } from '../flags.ts'
import { maskLooks } from '../layers/secrets.ts'

export interface KeyNames {
  /** The usual one first. */
  readonly names: readonly [string, ...string[]]
  /** Set when it was called by its provider. */
  readonly provider?: string
  /** Providers that look for it. */
  readonly users: readonly string[]
}

/** @throws `CLI_USAGE` for what is neither a provider with a key nor a name of one */
export function namesOf(said: string, providers: readonly ProviderInfo[]): KeyNames {
  const found = providers.find(({ provider }) => provider.toLowerCase() === said.toLowerCase())
  if (found) {
    const { provider, credentials, kind } = found
    const [first, ...others] = credentials
    if (first) return { names: [first, ...others], provider, users: usersOf(first, providers) }
    throw kind === 'remote'
      ? usageError(`${provider} is given its key by the configuration`, 'a stored one would not be looked at')
      : usageError(`${provider} asks for no key`)
  }
  const users = usersOf(said, providers)
  if (users.length || /^[A-Z][A-Z0-9_]{1,99}$/.test(said)) return { names: [said], users }
  throw unknownName(
    said,
    providers.map(({ provider }) => provider),
  )
}

const usersOf = (name: string, providers: readonly ProviderInfo[]) =>
  providers.filter(({ credentials }) => credentials.includes(name)).map(({ provider }) => provider)

/** What is no name may be the key itself, and then it is not repeated. */
export function unknownName(said: string, known: readonly string[]) {
  const isHarmless = /^[\w.-]{1,30}$/.test(said) && maskLooks(said) === said && !/\d.*[A-Z]|[A-Z].*\d/.test(said)
  if (!isHarmless) {
    return usageError(
      'what stands there is no provider, and no name of a key',
      'if it is the key itself: it is typed when you are asked, or piped in; write the provider, as cambium auth set openai',
    )
  }
  const near = nearest(said, known)
  const others = `the providers are ${known.join(', ')}; the name of a key is written as its variable: OPENAI_API_KEY`
  return usageError(`no provider is called ${said}`, near ? `did you mean ${near}?` : others)
}
