/** Where an adapter finds what lets it in, and what a person is told who has none. */

import { type Context, type HarnessError, isHarnessError, keepSecrets } from '@cambium/core'
import type {} from '@cambium/store/credentials'
import { LlmError } from './failure.ts'

export interface CredentialSource {
  /** The value of a key at this moment, by the name of its environment variable. */
  get(name: string): string | undefined
  /** Somebody has logged in to the provider, so that {@link headers} will give something. */
  loggedIn(provider: string): boolean
  /**
   * What an account's login gives in place of a key; undefined without one. `fresh` when the last ones were refused.
   * @throws what refreshing failed with
   */
  headers(
    provider: string,
    options: { readonly fresh: boolean; readonly signal: AbortSignal | undefined },
  ): Promise<Readonly<Record<string, string>> | undefined>
  /** How to get in, as an imperative sentence: where nothing is `missing`, or where what there is was `refused`. */
  fix(provider: string, names: readonly string[], state: 'missing' | 'refused'): string
  /** Keeps values that come from elsewhere out of all that is shown or stored. */
  keep(secrets: readonly string[]): void
}

/** The process's environment alone. */
export const environmentCredentials: CredentialSource = {
  get: name => (Object.hasOwn(process.env, name) ? process.env[name]?.trim() || undefined : undefined),
  loggedIn: () => false,
  headers: async () => undefined,
  fix: (_, names, state) =>
    state === 'missing' ? `set ${names.join(' or ')}` : `put a valid key into ${holder(names) ?? names[0]}`,
  keep: () => {},
}

/** The variable that counts: of several it is the first that is set. */
const holder = (names: readonly string[]) => names.find(name => environmentCredentials.get(name))

/** Stored keys and logins where the tree has them, else the environment. Looked up at each use: that row may be reloaded. */
export function credentialsOf(ctx: Context): CredentialSource {
  const kept = new Set<string>()
  let list: readonly string[] = []
  const keep = (secrets: readonly string[]) => {
    for (const secret of secrets) kept.add(secret)
    if (kept.size !== list.length) list = [...kept]
  }
  keepSecrets(ctx, () => list)
  return {
    get(name) {
      const stored = ctx.get('credentials')
      if (stored) return stored.get(name)
      const value = environmentCredentials.get(name)
      if (value) keep([value])
      return value
    },
    loggedIn: provider => ctx.get('auth')?.loggedIn(provider) ?? false,
    async headers(provider, options) {
      try {
        return await ctx.get('auth')?.headers(provider, options)
      } catch (error) {
        throw isHarnessError(error) ? toLlmError(error) : error
      }
    },
    fix(provider, names, state) {
      const inEnvironment = environmentCredentials.fix(provider, names, state)
      const stored = ctx.get('credentials')
      if (!stored || (state === 'refused' && holder(names))) return inEnvironment
      if (state === 'refused') {
        if (names.some(name => stored.get(name))) return `store a valid key with: cambium auth set ${provider}`
        if (ctx.get('auth')?.loggedIn(provider)) return `log in again with: cambium auth login ${provider}`
      }
      const offered = ctx
        .get('auth')
        ?.list()
        .some(({ id, offered }) => id === provider && offered)
      if (offered) return `${inEnvironment}, or log in with: cambium auth login ${provider}`
      return `${inEnvironment}, or store it with: cambium auth set ${provider}`
    },
    keep,
  }
}

function toLlmError(error: HarnessError): LlmError {
  const { code, problem, fix } = error
  return new LlmError(
    { code: code === 'AUTH_UNREACHABLE' ? 'TRANSPORT' : 'AUTH', message: problem, ...(fix ? { fix } : {}) },
    error,
  )
}
