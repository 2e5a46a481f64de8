/** What `ctx.credentials` and `ctx.auth` offer, and what a way of logging in brings. */

import type { HarnessError, JsonObject } from '@cambium/core'

export interface KnownCredential {
  /** Name of its environment variable, by which it is asked for. */
  readonly name: string
  /** Where the value that counts comes from. */
  readonly from: 'environment' | 'file'
  /** One is stored as well; with `from: 'environment'` that one is shadowed. */
  readonly stored: boolean
  /** The last characters, four at most; empty for a short value. */
  readonly hint: string
}

/** Keys by name. Nobody keeps a value: it is asked for at each use, so that a change counts from the next one on. */
export interface Credentials {
  /**
   * The value at this moment: the environment's, else the stored one. Never throws: a stored one that must not be used
   * counts as absent, and {@link problem} and the log say why.
   */
  get(name: string): string | undefined
  /** What is stored, and what was asked for and found in the environment, by name. */
  list(): KnownCredential[]
  /** Stores a value for its owner's eyes. @throws `STORE_CREDENTIAL_INVALID`, and what {@link problem} says; nothing is written then */
  set(name: string, value: string): Promise<void>
  /** True when there was one. What the environment says stays. @throws as {@link set} */
  remove(name: string): Promise<boolean>
  /** Why the stored ones are not used: others can read the file, or it is broken. */
  problem(): HarnessError | undefined
  /** The text without any known secret. */
  redact(text: string): string
}

/** What a login gave. Its provider alone knows what is in it; it is kept as a secret. */
export interface Grant {
  readonly data: JsonObject
  /** Milliseconds since 1970; it is refreshed a little earlier. */
  readonly expiresAt?: number
}

/** How a login talks with a person. */
export interface AuthIo {
  /** Shows a line: an address to open, a code to type there. */
  say(text: string): void
  /** A line that the person types; unseen when `hidden`. @throws when nobody can be asked */
  ask(question: string, options?: { readonly hidden?: boolean }): Promise<string>
  /** Aborts when the person gives up, or the time for it is over. */
  readonly signal: AbortSignal
}

/** One way to log in to an llm provider. Whatever it throws or returns is contained. */
export interface AuthProvider {
  /** The llm provider it lets into. */
  readonly id: string
  /** For people. */
  readonly label?: string
  login(io: AuthIo): Promise<Grant>
  /** A new grant for an old one. It is not cancelled when a request is: the old one may be void by then. */
  refresh?(grant: Grant, signal: AbortSignal): Promise<Grant>
  /** What a request carries in place of a key. */
  headers(grant: Grant): Record<string, string>
  /** Tells the provider; the grant is removed whatever comes of it. */
  logout?(grant: Grant, signal: AbortSignal): Promise<void>
}

export interface AuthState {
  readonly id: string
  readonly label?: string
  /** A plugin offers this way in. */
  readonly offered: boolean
  /** A grant is stored. */
  readonly loggedIn: boolean
  readonly expiresAt?: number
}

/** Logins: the ways that plugins offer, and the grants that are stored. */
export interface Auth {
  /** Offers a way in for as long as the calling plugin lives; stored grants stay when it goes. @throws `AUTH_DUPLICATE` */
  register(provider: AuthProvider): () => void
  list(): AuthState[]
  /** @throws `AUTH_UNKNOWN`, `AUTH_LOGIN_FAILED`; nothing is stored then */
  login(id: string, io: AuthIo): Promise<void>
  /** Removes the grant. That the provider could not be told is logged. */
  logout(id: string): Promise<void>
  /** {@link headers} will give something: there is a grant, and somebody who knows what to do with it. */
  loggedIn(id: string): boolean
  /**
   * What lets a request in; undefined when nobody has logged in. An expired grant is refreshed first, once for all who
   * ask; `fresh` asks for that because the last ones were refused.
   *
   * @throws `AUTH_EXPIRED`, `AUTH_REFRESH_FAILED`, `AUTH_UNREACHABLE` (it may work later), `AUTH_PROVIDER_INVALID`
   */
  headers(
    id: string,
    options: { readonly fresh: boolean; readonly signal?: AbortSignal | undefined },
  ): Promise<Record<string, string> | undefined>
}

declare module 'cordis' {
  interface Context {
    /** Keys by the name of their environment variable: the environment's, else the stored ones. */
    credentials: Credentials
    /** Logins to providers: who offers one, and the headers that a stored one gives. */
    auth: Auth
  }
}
