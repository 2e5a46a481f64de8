/** What an adapter over HTTP is made of, for plugins that bring a protocol of their own. `docs/llm-adapter.md` shows it in use. */

export { WebAdapter, type WebAdapterOptions } from './web/adapter.ts'
export { type CredentialSource, credentialsOf, environmentCredentials } from './web/credentials.ts'
export type { ProviderError } from './web/failure-code.ts'
export { HttpTransport } from './web/http.ts'
export { AnswerError, type AnswerReader, type Protocol } from './web/protocol.ts'
export type { ProviderEntry } from './web/provider.ts'
export {
  limitFields,
  type ProviderSettings,
  providerFields,
  providersOf,
  type WebLimits,
} from './web/settings.ts'
