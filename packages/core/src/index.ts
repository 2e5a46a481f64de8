/** The kernel: what every room of the house stands on. */

export type { EventOptions, Events, Fiber, Plugin } from 'cordis'
export { Context, Inject, Service } from 'cordis'
export {
  configureBehaviour,
  FIBER_STATES,
  type FiberStateName,
  type PendingPlugin,
  pending,
  report,
  stateOf,
} from './behaviour.ts'
export { gate, notify, parallel, serial, waterfall } from './dispatch.ts'
export { type ErrorDetails, errorMessage, HarnessError, isHarnessError } from './error.ts'
export { type JsonObject, type JsonValue, MAX_JSON_DEPTH, parsedProblem, toJson } from './json.ts'
export { type LogLevel, type LogRecord, mountLogger, renderLog } from './logger.ts'
export { nearest } from './nearest.ts'
export { Pace } from './pace.ts'
export { ScopedRegistry, type ScopedRegistryOptions } from './registry.ts'
export { createRoot, type RootOptions } from './root.ts'
export { compareRows, type RowMark, rowOf, withRow } from './row.ts'
export { copyData, innerOf, isSchemastery, type SchemaNode, type UnknownKey, unknownKeys } from './schema-keys.ts'
export { createScope, type ScopeHandle, type ScopeKey, scopeChain, scopeOf } from './scope.ts'
export { ByteRedactor, keepSecrets, REDACTED, redact, redactCut, redactJson, type SecretSource } from './secrets.ts'
export { Deadline, deadline, MAX_TIMER_MS, sleep } from './timers.ts'
export { workingFolder } from './working-folder.ts'
