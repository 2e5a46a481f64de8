/** Where an adapter finds what lets it in. */

import { type Context, isHarnessError } from '@cambium/core'
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
}

/** The process's environment alone. */
export const environmentCredentials: CredentialSource = {
  get: name => process.env[name]?.trim() || undefined,
  loggedIn: () => false,
  headers: async () => undefined,
}

/** Stored keys and logins where the tree has them, else the environment. Looked up at each use: that row may be reloaded. */
export function credentialsOf(ctx: Context): CredentialSource {
  return {
    get: name => (ctx.get('credentials') ?? environmentCredentials).get(name),
    loggedIn: provider => ctx.get('auth')?.loggedIn(provider) ?? false,
    async headers(provider, options) {
      try {
        return await ctx.get('auth')?.headers(provider, options)
      } catch (error) {
        throw isHarnessError(error) ? toLlmError(error) : error
      }
    },
  }
}

function toLlmError(error: { code: string; problem: string; fix?: string | undefined }): LlmError {
  const { code, problem, fix } = error
  return new LlmError(
    { code: code === 'AUTH_UNREACHABLE' ? 'TRANSPORT' : 'AUTH', message: problem, ...(fix ? { fix } : {}) },
    error,
  )
}
