/** What is done with grants: getting one, presenting it, renewing it in time and only once, giving it up. */

import { deadline, HarnessError, isHarnessError, sleep } from '@cambium/core'
import { diskError } from '../disk-error.ts'
import { type Lease, takeLease } from '../lease.ts'
import type { AuthIo, AuthProvider, Grant } from './contract.ts'
import type { CredentialFile } from './file.ts'
import type { KnownSecrets } from './known-secrets.ts'
import { checkedGrant, checkedHeaders, inSafeWords, isNetworkError } from './provider-answer.ts'

/** A grant that ends within this may end on the way. */
const EARLY_MS = 30_000
const RENEW_MS = 30_000
const LOGOUT_MS = 10_000
/** A person looks for a password, a phone, a mail. */
const LOGIN_MS = 15 * 60_000
const BEAT_MS = 2_000
const STALE_MS = 15_000
const RETRY_MS = 50

export interface LoginsOptions {
  readonly file: CredentialFile
  readonly secrets: KnownSecrets
  readonly warn: (text: string) => void
}

export class Logins {
  private readonly options: LoginsOptions
  private readonly renewals = new Map<string, Promise<Grant>>()
  /** What requests were last given, by provider: only that can have been refused. */
  private readonly presented = new Map<string, Grant>()
  /** Renewed, but the disk did not take it: the grant that is stored is void. */
  private readonly unsaved = new Map<string, { readonly from: Grant; readonly grant: Grant }>()

  constructor(options: LoginsOptions) {
    this.options = options
  }

  async headers(
    provider: AuthProvider,
    { fresh, signal }: { readonly fresh: boolean; readonly signal?: AbortSignal | undefined },
  ): Promise<Record<string, string> | undefined> {
    const { id } = provider
    let grant = this.grant(id)
    if (!grant) return undefined
    const last = this.presented.get(id)
    const refused = fresh && (!last || isSame(last, grant))
    if (refused || isEnding(grant)) grant = await untilAborted(this.renewed(provider, grant, refused), signal)
    const headers = checkedHeaders(provider, grant)
    this.presented.set(id, grant)
    this.options.secrets.addHeaders(headers)
    return headers
  }

  async login(provider: AuthProvider, io: AuthIo): Promise<void> {
    const { id } = provider
    let unasked: { readonly error: unknown } | undefined
    const limit = deadline(LOGIN_MS, io.signal)
    const own: AuthIo = {
      say: text => io.say(text),
      ask: (question, options) =>
        io.ask(question, options).catch(error => {
          unasked = { error }
          throw error
        }),
      signal: limit.signal,
    }
    let grant: Grant
    try {
      grant = checkedGrant(
        provider,
        await untilAborted(
          soon(() => provider.login(own)),
          limit.signal,
        ),
      )
    } catch (error) {
      if ((unasked && error === unasked.error) || isOurs(error)) throw error
      const late = limit.expired() ? 'it took longer than 15 minutes' : undefined
      const why = late ?? (io.signal.aborted ? 'it was given up' : inSafeWords(error))
      throw new HarnessError('AUTH_LOGIN_FAILED', `the login to ${id} failed: ${why}`, {
        fix: `try again with: cambium auth login ${id}`,
      })
    } finally {
      limit.clear()
    }
    this.options.secrets.addGrant(grant.data)
    await this.options.file.change(({ grants }) => grants.set(id, grant))
  }

  async logout(id: string, provider: AuthProvider | undefined): Promise<void> {
    const { file, warn } = this.options
    // Removed first: a renewal that is under way finds it gone, and keeps nothing.
    const grant = await file.change(({ grants }) => {
      const found = this.grant(id)
      grants.delete(id)
      return found
    })
    this.presented.delete(id)
    this.unsaved.delete(id)
    if (!grant) return
    const untold = `the login to ${id} is removed here, but the provider was not told`
    if (!provider) return warn(`${untold}: no plugin offers that login`)
    if (!provider.logout) return
    const limit = deadline(LOGOUT_MS)
    try {
      await untilAborted(
        soon(() => provider.logout!(grant, limit.signal)),
        limit.signal,
      )
    } catch (error) {
      warn(`${untold}: ${limit.expired() ? `it did not answer within ${LOGOUT_MS / 1000} s` : inSafeWords(error)}`)
    } finally {
      limit.clear()
    }
  }

  /** Resolves when no renewal is under way: one that is broken off may have made the stored grant void. */
  async settled(): Promise<void> {
    await Promise.allSettled(this.renewals.values())
  }

  private grant(id: string): Grant | undefined {
    const stored = this.options.file.read().content.grants.get(id)
    const unsaved = this.unsaved.get(id)
    return stored && unsaved && isSame(unsaved.from, stored) ? unsaved.grant : stored
  }

  // Renewing -----------------------------------------------------------------------------------------------------

  private renewed(provider: AuthProvider, from: Grant, refused: boolean): Promise<Grant> {
    const running = this.renewals.get(provider.id)
    if (running) return running
    const renewal = this.renew(provider, from, refused).finally(() => this.renewals.delete(provider.id))
    this.renewals.set(provider.id, renewal)
    // Those who wait may all have left by then.
    renewal.catch(() => {})
    return renewal
  }

  private async renew(provider: AuthProvider, from: Grant, refused: boolean): Promise<Grant> {
    const { id } = provider
    if (!provider.refresh) {
      throw again('AUTH_EXPIRED', id, refused ? `${id} refused the login` : `the login to ${id} has expired`)
    }
    const taken = await this.take(id, from)
    if ('data' in taken) return taken
    const beat = setInterval(() => taken.beat(), BEAT_MS)
    beat.unref()
    const limit = deadline(RENEW_MS)
    try {
      // Another process may have renewed it while we waited: the old one is void then.
      const now = this.grant(id)
      if (!now) throw again('AUTH_EXPIRED', id, `somebody has logged out of ${id}`)
      if (!isSame(now, from) && !isEnding(now)) return now
      // Whatever comes too late for those who wait is kept all the same.
      const work = soon(() => provider.refresh!(now, limit.signal))
        .then(answer => checkedGrant(provider, answer))
        .then(grant => this.keep(id, now, grant))
      return await untilAborted(work, limit.signal)
    } catch (error) {
      if (isOurs(error)) throw error
      if (limit.expired() || isNetworkError(error)) {
        const why = limit.expired() ? `no answer within ${RENEW_MS / 1000} s` : inSafeWords(error)
        throw new HarnessError('AUTH_UNREACHABLE', `the login to ${id} could not be renewed now: ${why}`, {
          fix: 'check the network, and try again',
        })
      }
      throw again('AUTH_REFRESH_FAILED', id, `the login to ${id} could not be renewed: ${inSafeWords(error)}`)
    } finally {
      limit.clear()
      clearInterval(beat)
      taken.release()
    }
  }

  /** The right to renew, across processes; or what another one got while it had it. */
  private async take(id: string, from: Grant): Promise<Lease | Grant> {
    const { path } = this.options.file
    for (const until = performance.now() + RENEW_MS; ; ) {
      const taking = tryTake(`${path}.login-${id}.lock`)
      if (taking.kind === 'taken') return taking.lease
      const now = this.grant(id)
      if (now && !isSame(now, from) && !isEnding(now)) return now
      if (performance.now() > until) {
        const who = taking.holder ? `process ${taking.holder.pid} on ${taking.holder.host}` : 'another process'
        throw new HarnessError('AUTH_UNREACHABLE', `the login to ${id} is being renewed by ${who}`, {
          fix: 'try again',
        })
      }
      await sleep(RETRY_MS)
    }
  }

  private async keep(id: string, from: Grant, grant: Grant): Promise<Grant> {
    const { file, secrets, warn } = this.options
    secrets.addGrant(grant.data)
    const former = this.unsaved.get(id)?.from ?? from
    this.unsaved.set(id, { from: former, grant })
    try {
      await file.change(({ grants }) => {
        // A logout or another login in the meantime counts.
        const stored = grants.get(id)
        if (stored && isSame(stored, former)) grants.set(id, grant)
      })
      this.unsaved.delete(id)
    } catch (error) {
      warn(`the renewed login to ${id} could not be stored and is used until the end: ${inSafeWords(error)}`)
    }
    return grant
  }
}

const isEnding = ({ expiresAt }: Grant) => expiresAt !== undefined && expiresAt - EARLY_MS <= Date.now()

const isSame = (a: Grant, b: Grant) => a === b || JSON.stringify(a) === JSON.stringify(b)

/** Said by this room, about this room: it needs no other words. */
const isOurs = (error: unknown) => isHarnessError(error) && /^(AUTH|STORE)_/.test(error.code)

const again = (code: string, id: string, problem: string) =>
  new HarnessError(code, problem, { fix: `log in again with: cambium auth login ${id}` })

function tryTake(path: string) {
  try {
    return takeLease(path, { staleMs: STALE_MS })
  } catch (error) {
    throw diskError(error, 'cannot lock the login', path)
  }
}

/** A provider that throws at once instead of rejecting is no other case. */
const soon = <T>(work: () => Promise<T>): Promise<T> => Promise.resolve().then(work)

/** The work's end, or the signal's reason; the work goes on unheard then. */
function untilAborted<T>(work: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (!signal) return work
  return new Promise((resolve, reject) => {
    const abort = () => reject(signal.reason)
    if (signal.aborted) abort()
    else signal.addEventListener('abort', abort, { once: true })
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', abort))
  })
}
