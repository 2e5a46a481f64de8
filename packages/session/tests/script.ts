import type { SessionEventMap } from '@cambium/session'

/** The parts of a turn with one or more calls, in short. */

export const answer = (
  step: number,
  text: string,
  ...calls: string[]
): SessionEventMap['assistant/message'] & { turn: 1 } => ({
  turn: 1,
  step,
  message: {
    id: `answer-${step}`,
    role: 'assistant',
    content: [
      ...(text ? [{ type: 'text', text } as const] : []),
      ...calls.map(id => ({ type: 'tool-call', id, name: 'bash', arguments: '{"command":"ls"}' }) as const),
    ],
    source: { kind: 'model', provider: 'local', model: 'm' },
  },
  finish: calls.length ? 'tool-calls' : 'stop',
})

export const call = (step: number, callId: string): SessionEventMap['tool/call'] => ({
  turn: 1,
  step,
  callId,
  name: 'bash',
  arguments: '{"command":"ls"}',
})

export const result = (step: number, callId: string, text = 'done'): SessionEventMap['tool/result'] => ({
  turn: 1,
  step,
  message: {
    id: `result-${callId}`,
    role: 'user',
    content: [{ type: 'tool-result', toolCallId: callId, content: [{ type: 'text', text }] }],
    source: { kind: 'tool', callId },
  },
})
