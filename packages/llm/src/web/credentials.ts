/** Where an adapter finds what lets it in. */

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
