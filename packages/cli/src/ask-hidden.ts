/** One question to a person at a terminal whose answer nobody sees, not even the terminal. */

import type { Readable } from 'node:stream'
import { StringDecoder } from 'node:string_decoder'
import type { StatusLine } from './status-line.ts'

/** A terminal's keyboard; without `setRawMode` it is some other input, which shows nothing anyway. */
export type Keyboard = Readable & { readonly isRaw?: boolean; setRawMode?(raw: boolean): unknown }

/** More is no answer that anybody types or pastes. */
const MAX_CHARS = 64 * 1024

/** What follows Escape in keys that come as a sequence: arrows, and the marks around what is pasted. */
const SEQUENCE = /^(?:\[[0-?]*[ -/]*[@-~]|O.|[^[O\p{Cc}])/u
const OPEN_SEQUENCE = /^(?:\[[0-?]*[ -/]*|O)?$/

/**
 * The line that is typed; undefined when it is given up, by Ctrl-C, Ctrl-D, an end of the input or the signal. Backspace,
 * Ctrl-U and Ctrl-W work. The terminal is as before, whatever comes.
 */
export async function askHidden(
  keyboard: Keyboard,
  notes: StatusLine,
  question: string,
  signal: AbortSignal,
): Promise<string | undefined> {
  if (signal.aborted) return undefined
  const before = keyboard.isRaw ?? false
  const decoder = new StringDecoder('utf8')
  const line = new HiddenLine()
  try {
    // Before the question: whoever answers it at once must not be shown either.
    keyboard.setRawMode?.(true)
    notes.write(question)
    return await new Promise<string | undefined>((resolve, reject) => {
      const data = (chunk: Buffer | string) => {
        const end = line.type(typeof chunk === 'string' ? chunk : decoder.write(chunk))
        if (end) settle(() => resolve(end === 'given up' ? undefined : line.text))
      }
      const over = () => settle(() => resolve(line.text || undefined))
      const fail = (error: Error) => settle(() => reject(error))
      const abort = () => settle(() => resolve(undefined))
      const settle = (act: () => void) => {
        keyboard.off('data', data).off('end', over).off('close', over).off('error', fail)
        signal.removeEventListener('abort', abort)
        keyboard.pause()
        act()
      }
      signal.addEventListener('abort', abort)
      keyboard.on('data', data).on('end', over).on('close', over).on('error', fail)
      // A question before this one has paused it, and a listener alone does not undo that.
      keyboard.resume()
      if (keyboard.readableEnded || keyboard.destroyed) over()
    })
  } finally {
    try {
      keyboard.setRawMode?.(before)
    } catch {
      // The terminal is gone.
    }
    notes.write('\n')
  }
}

/** What was typed so far, as keys come. */
class HiddenLine {
  text = ''
  private held = ''

  /** How the line ended, if it did; what comes behind that is not looked at. */
  type(keys: string): 'done' | 'given up' | undefined {
    let rest = this.held + keys
    this.held = ''
    while (rest) {
      if (rest[0] === '\x1b') {
        const behind = rest.slice(1)
        const sequence = SEQUENCE.exec(behind)?.[0]
        if (sequence === undefined && OPEN_SEQUENCE.test(behind)) {
          this.held = rest
          return undefined
        }
        rest = behind.slice(sequence?.length ?? 0)
        continue
      }
      const key = String.fromCodePoint(rest.codePointAt(0)!)
      rest = rest.slice(key.length)
      const end = this.press(key)
      if (end) return end
    }
    return undefined
  }

  private press(key: string): 'done' | 'given up' | undefined {
    switch (key) {
      case '\r':
      case '\n':
        return 'done'
      case '\x03':
        return 'given up'
      case '\x04':
        return this.text ? 'done' : 'given up'
      case '\x7f':
      case '\b':
        this.text = [...this.text].slice(0, -1).join('')
        return undefined
      case '\x15':
        this.text = ''
        return undefined
      case '\x17':
        this.text = this.text.replace(/\S*\s*$/, '')
        return undefined
    }
    if (/\P{Cc}/u.test(key) && this.text.length < MAX_CHARS) this.text += key
    return undefined
  }
}
