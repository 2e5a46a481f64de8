/** What a model server keeps of a request. */

import type { IncomingHttpHeaders } from 'node:http'

/** `chat`: OpenAI chat completions; `messages`: Anthropic Messages; `responses`: OpenAI Responses. */
export type ModelProtocol = 'chat' | 'messages' | 'responses'

/** A message of a chat completion. */
export interface ModelMessage {
  role: string
  content?: unknown
  reasoning_content?: string
  tool_calls?: { id: string; type: string; function: { name: string; arguments: string } }[]
  tool_call_id?: string
}

/** The body of a chat completion; one of another protocol is looked at through the index signature. */
export interface ModelRequestBody {
  model: string
  messages: ModelMessage[]
  stream?: boolean
  tools?: { type: string; function: { name: string; description?: string; parameters?: Record<string, unknown> } }[]
  [key: string]: unknown
}

/** How an exchange ended: in good order, cut off by a fault of ours, or left by the client. */
export type ModelRequestEnd = 'finished' | 'cut' | 'left'

export interface ModelRequest {
  /** Place among all requests for an answer of this server, from 0. */
  readonly index: number
  /** Told from the path. */
  readonly protocol: ModelProtocol
  readonly method: string
  readonly path: string
  readonly headers: IncomingHttpHeaders
  /** When it had arrived whole, in milliseconds since 1970. */
  readonly time: number
  /** As it came over the wire. */
  readonly text: string
  /** Parsed; an empty object when it is not JSON. */
  readonly body: ModelRequestBody
  /** Why the strict provider refused it, or why no reply was left for it. */
  readonly problem: string | undefined
  /** Settles when the exchange is over. Never rejects. */
  readonly ended: Promise<ModelRequestEnd>
}
