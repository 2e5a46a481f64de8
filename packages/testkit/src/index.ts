/** What tests of every room share. */

export { type BootedTree, bootTree } from './boot-tree.ts'
export { builtBin } from './built-bin.ts'
export { call, type FakeAnswer, FakeModel, type FakeReply, fail, fakeModel, say } from './fake-model.ts'
export {
  type ModelMessage,
  type ModelRequest,
  type ModelRequestBody,
  type ModelRequestEnd,
  type ModelServer,
  type ModelServerOptions,
  startModelServer,
} from './model-server.ts'
export {
  type Fault,
  OVERFLOW_WORDINGS,
  type Reply,
  type ReplyScript,
  type ScriptedToolCall,
  type ScriptedUsage,
} from './model-server-reply.ts'
export { replyBytes } from './model-server-stream.ts'
export { type TempWorkspace, tempWorkspace } from './workspace.ts'
