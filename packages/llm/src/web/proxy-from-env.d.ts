declare module 'proxy-from-env' {
  /** The proxy for a URL by the environment's `*_proxy` and `no_proxy`; empty for none. */
  export function getProxyForUrl(url: { protocol: string; host: string; port: string }): string
}
