/** YAML 1.2 text to its document and what it says; every mistake names its line. */

import { HarnessError, isHarnessError } from '@cambium/core'
import { type Document, parseDocument, type YAMLError } from 'yaml'
import { Misplaced, type Model, modelOf } from './model.ts'

export interface ParsedYaml {
  readonly text: string
  readonly doc: Document
  readonly model: Model
  /** `settings.yml:3:7` */
  readonly placeOf: (offset: number) => string
}

/** Far more than anybody writes by hand. */
export const MAX_CHARS = 8 * 2 ** 20

/** @throws `STORE_YAML_SYNTAX` with the place of the first mistake; a message never quotes a value */
export function parseYaml(text: string, label: string): ParsedYaml {
  const placeOf = (offset: number) => place(text, offset, label)
  if (text.length > MAX_CHARS) throw mistake(`it is longer than ${MAX_CHARS / 2 ** 20} MiB`, 'shorten it', label)
  try {
    const doc = parseDocument(text, {
      version: '1.2',
      merge: true,
      keepSourceTokens: true,
      prettyErrors: false,
      // At 'silent' a second document is passed over without a word.
      logLevel: 'error',
    })
    const [error] = doc.errors
    if (error) throw syntaxMistake(error, text, placeOf(error.pos[0]))
    return { text, doc, model: modelOf(doc), placeOf }
  } catch (error) {
    if (isHarnessError(error)) throw error
    if (error instanceof Misplaced) throw mistake(error.message, error.fix, placeOf(error.at))
    throw tooDeep(label)
  }
}

function mistake(problem: string, fix: string, where: string) {
  return new HarnessError('STORE_YAML_SYNTAX', problem, { where, fix })
}

const tooDeep = (where: string) => mistake('it is nested too deeply to be read', 'flatten it', where)

function place(text: string, offset: number, label: string): string {
  const before = text.slice(0, offset)
  const begin = before.lastIndexOf('\n') + 1
  return `${label}:${before.split('\n').length}:${offset - begin + 1}`
}

function syntaxMistake(error: YAMLError, text: string, where: string): HarnessError {
  if (error.code === 'DUPLICATE_KEY') {
    const key = /^[^\s:]+/.exec(text.slice(error.pos[0]))?.[0] ?? ''
    return mistake(`the key ${JSON.stringify(key)} stands twice in one map`, 'keep one of the two', where)
  }
  if (error.code === 'MULTIPLE_DOCS') {
    return mistake('a second document begins here', 'keep one document per file: remove the `---`', where)
  }
  if (/call stack/.test(error.message)) return tooDeep(where)
  const line = text.slice(text.lastIndexOf('\n', error.pos[0] - 1) + 1, error.pos[1] + 1)
  if (/^ *\t/.test(line)) {
    return mistake('a tab indents this line', 'indent with spaces: YAML allows no tabs there', where)
  }
  // What follows such a colon is a piece of the text, which may be a secret.
  const [first = ''] = error.message.split(/\n|(?<! ): /)
  const problem = `not YAML: ${first.charAt(0).toLowerCase()}${first.slice(1)}`
  return mistake(problem, 'correct the text at that place, or just before it', where)
}
