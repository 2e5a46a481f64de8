/** What tests of every room share. */

export { type BootedTree, bootTree } from './boot-tree.ts'
export { builtBin } from './built-bin.ts'
export { bundledChild } from './bundled-child.ts'
export { call, type FakeAnswer, FakeModel, type FakeReply, fail, fakeModel, say } from './fake-model.ts'
export { replyBytes } from './model-server/answer.ts'
export { OVERFLOW_WORDINGS } from './model-server/errors.ts'
export type { Fault, Reply, ReplyScript, ScriptedToolCall, ScriptedUsage } from './model-server/reply.ts'
export type {
  ModelMessage,
  ModelProtocol,
  ModelRequest,
  ModelRequestBody,
  ModelRequestEnd,
} from './model-server/request.ts'
export { type ModelServer, type ModelServerOptions, startModelServer } from './model-server/server.ts'
export { type TempWorkspace, tempWorkspace } from './workspace.ts'
