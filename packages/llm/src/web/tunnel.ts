/** The way to an https address through a proxy, by `CONNECT`. */

import type { ClientRequest } from 'node:http'
import type { Socket } from 'node:net'
import { HttpsProxyAgent } from 'https-proxy-agent'

type ConnectOptions = Parameters<HttpsProxyAgent<string>['connect']>[1]

/** Gives a connection up that a request of the option `opening` no longer waits for: only the agent knows it by then. */
export class Tunnel extends HttpsProxyAgent<string> {
  override connect(request: ClientRequest, options: ConnectOptions): Promise<Socket> {
    const { opening } = options as { opening?: AbortSignal }
    const connectOpts = { ...this.connectOpts, signal: opening }
    return super.connect.call(Object.create(this, { connectOpts: { value: connectOpts } }), request, options)
  }
}
