/** What goes wrong on the way to a proxy, and at it. */

/** Rejection of an exchange that a proxy of the environment did not let through. Never holds the proxy's password. */
export class ProxyError extends Error {
  override readonly name = 'ProxyError'
  /** Its host and port; undefined for an address that cannot be used. */
  readonly host: string | undefined
  /** What it answered; undefined where it was not reached. */
  readonly status: number | undefined
  constructor(host: string | undefined, reason: { readonly status?: number; readonly cause?: unknown }) {
    super('the proxy did not let the exchange through', { cause: reason.cause })
    this.host = host
    this.status = reason.status
  }
}
