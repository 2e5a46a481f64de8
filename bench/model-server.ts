/**
 * The model of the benchmarks, in a process of its own. What it answers depends on the request alone: the model's name
 * says how many tool steps there are, or how many chunks. A message from the runner takes its notes.
 */

import { type ModelRequest, type Reply, startModelServer } from '@cambium/testkit'

interface Note {
  /** The request had arrived whole, in milliseconds. */
  arrived: number
  /** Its answer had been handed to the system. */
  answered: number | undefined
  /** Of the first since the last taking. */
  text: string
}

let notes: Note[] = []

const ECHO: Reply = { toolCalls: [{ name: 'bash', arguments: { command: 'echo hi' } }] }

function answer({ body }: ModelRequest): Reply {
  const [, kind = '', count = '0'] = /^(\w+)-?(\d*)$/.exec(body.model) ?? []
  if (kind === 'steps') {
    const done = body.messages.filter(({ role }) => role === 'tool').length
    return done < Number(count) ? ECHO : { text: 'done' }
  }
  if (kind === 'chunks') return { text: 'word ', repeat: Number(count), gatherBytes: 16_384 }
  return { text: 'hello' }
}

const server = await startModelServer({
  strict: false,
  otherwise: answer,
  check(request) {
    const note: Note = { arrived: performance.now(), answered: undefined, text: notes.length ? '' : request.text }
    notes.push(note)
    void request.ended.then(() => {
      note.answered = performance.now()
    })
    return undefined
  },
})

process.on('message', () => {
  process.send?.({ notes })
  notes = []
})
process.once('disconnect', () => void server.close())
process.send?.({ url: server.url })
