/** What the log's own views rely on in an event's data, so that a broken event can neither enter nor break them. */

import type { EventType } from './event.ts'

type Check = (data: Record<string, unknown>) => string | undefined

const isObject = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null
const isSeq = (value: unknown) => Number.isInteger(value) && (value as number) >= 0
const counts = (...fields: string[]): Check => {
  return data => {
    const bad = fields.find(field => !isSeq(data[field]) || data[field] === 0)
    return bad && `"${bad}" must be a whole number from 1`
  }
}

type BlockCheck = (block: Record<string, unknown>) => boolean
const isText = (value: unknown) => typeof value === 'string'
const text: BlockCheck = block => isText(block['text'])
const image: BlockCheck = block => isText(block['mediaType']) && isText(block['data'])

/** The blocks of a tool's result, and of each role's messages, with what a block of that type must hold. */
const RESULT_BLOCKS = new Map<unknown, BlockCheck>([
  ['text', text],
  ['image', image],
])
const BLOCKS = {
  user: new Map<unknown, BlockCheck>([
    ...RESULT_BLOCKS,
    ['tool-result', block => isText(block['toolCallId']) && !listProblem(block['content'], RESULT_BLOCKS)],
  ]),
  assistant: new Map<unknown, BlockCheck>([
    ['text', text],
    ['reasoning', text],
    ['tool-call', block => ['id', 'name', 'arguments'].every(field => isText(block[field]))],
  ]),
}

function listProblem(content: unknown, blocks: ReadonlyMap<unknown, BlockCheck>): string | undefined {
  if (!Array.isArray(content)) return 'must be a list of blocks'
  const at = content.findIndex(block => !isObject(block) || !blocks.get(block['type'])?.(block))
  if (at < 0) return undefined
  const types = [...blocks.keys()].join(', ')
  return `must be a list of blocks (${types}) with all their fields, which number ${at} is not`
}

type Role = keyof typeof BLOCKS

const message = (...roles: Role[]): Check => {
  return ({ message }) => {
    if (!isObject(message)) return '"message" must be a message'
    if (typeof message['id'] !== 'string' || !message['id']) return '"message.id" must be a text'
    const role = roles.find(role => role === message['role'])
    if (!role) return `"message.role" must be "${roles.join('" or "')}"`
    const problem = listProblem(message['content'], BLOCKS[role])
    if (problem) return `"message.content" ${problem}`
    return isObject(message['source']) ? undefined : '"message.source" must say where it came from'
  }
}

const both = (...checks: Check[]): Check => {
  return data => {
    for (const check of checks) {
      const problem = check(data)
      if (problem) return problem
    }
    return undefined
  }
}

const toolResult: Check = data => {
  const { content } = data['message'] as { content: { type: string }[] }
  return content.length === 1 && content[0]?.type === 'tool-result'
    ? undefined
    : '"message.content" must be exactly one tool-result block'
}

const inbox: Check = ({ inserted, withdrawn }) => {
  if (inserted !== undefined) {
    if (!Array.isArray(inserted)) return '"inserted" must be a list'
    for (const entry of inserted) {
      const problem = isObject(entry) ? message('user')(entry) : 'an inserted entry must be an object'
      if (problem) return problem
    }
  }
  return withdrawn === undefined || Array.isArray(withdrawn) ? undefined : '"withdrawn" must be a list'
}

const anything: Check = () => undefined

const CHECKS: Record<string, Check> = {
  'turn/start': counts('turn'),
  'turn/end': both(counts('turn'), ({ reason }) => (isObject(reason) ? undefined : '"reason" must be an object')),
  'step/start': counts('turn', 'step'),
  'step/end': counts('turn', 'step'),
  'user/message': message('user'),
  'assistant/message': both(counts('turn', 'step'), message('assistant')),
  'tool/call': both(counts('turn', 'step'), ({ callId }) =>
    typeof callId === 'string' ? undefined : '"callId" must be a text',
  ),
  'tool/rewritten': anything,
  'tool/result': both(counts('turn', 'step'), message('user'), toolResult),
  'request/header': ({ config }) =>
    isObject(config) && isText(config['provider']) && isText(config['model'])
      ? undefined
      : '"config" must name a provider and a model',
  'request/failed': counts('turn', 'step', 'attempt'),
  'inbox/changed': inbox,
  'context/replaced': both(
    ({ from, to }) => (isSeq(from) && isSeq(to) ? undefined : '"from" and "to" must be sequence numbers'),
    message('user', 'assistant'),
  ),
  'session/resumed': anything,
} satisfies Partial<Record<EventType, Check>>

/** True for the types that the log itself declares. */
export function isCoreType(type: string): boolean {
  return Object.hasOwn(CHECKS, type)
}

/**
 * False for an event of a core type whose data a damaged log has broken. `events()` keeps it in its place; whoever folds
 * a log passes it over.
 */
export function isIntact({ type, data }: { readonly type: string; readonly data: unknown }): boolean {
  return problemOf(type, data) === undefined
}

/** What is wrong with the data of a core type, in words, or undefined; other types are not judged here. */
export function problemOf(type: string, data: unknown): string | undefined {
  if (!isCoreType(type)) return undefined
  return isObject(data) ? CHECKS[type]?.(data) : 'the data must be an object'
}
