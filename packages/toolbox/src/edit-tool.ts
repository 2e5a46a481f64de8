/** `edit`: replaces an exact text in a file and nothing else. */

import { HarnessError, isHarnessError } from '@cambium/core'
import type { FileSystem } from '@cambium/machine'
import { defineTool, toolResult } from '@cambium/tools'
import { diffLines, renderDiff } from './line-diff.ts'
import { explainMismatch } from './mismatch.ts'
import { cwdOf, displayPath, notFound } from './place.ts'
import { replaceText } from './replace.ts'
import { decodeUtf8, encodeUtf8 } from './utf8.ts'
import { count, lineList } from './wording.ts'

export interface EditLimits {
  readonly editBytes: number
}

export function editTool(fs: FileSystem, limits: EditLimits) {
  return defineTool({
    name: 'edit',
    description:
      'Replaces old_string by new_string in a text file. old_string must be in the file exactly once, blanks, tabs and ' +
      'indentation included, without the line numbers of the read tool; add neighbouring lines to make it unique, or ' +
      'set replace_all. Line endings do not matter and are kept.',
    parameters: {
      file_path: {
        type: 'string',
        required: true,
        minLength: 1,
        description: 'The file, absolute or relative to the working directory',
      },
      old_string: {
        type: 'string',
        required: true,
        minLength: 1,
        description: 'The text to replace, exactly as in the file',
      },
      new_string: { type: 'string', required: true, description: 'The text to put there, taken literally' },
      replace_all: { type: 'boolean', description: 'Replace every occurrence' },
    },
    presentCall: args => `edit ${args.file_path}`,
    async execute({ file_path, old_string, new_string, replace_all = false }, exec) {
      const cwd = cwdOf(exec)
      const path = fs.resolve(file_path, cwd)
      const shown = displayPath(path, cwd)
      return fs.lock(
        path,
        async () => {
          const { before, version } = await readForEdit(fs, path, shown, limits.editBytes, exec.signal)
          const outcome = replaceText(before.text, old_string, new_string, replace_all)
          if (outcome.kind !== 'replaced') throw refuse(outcome, shown, before.text, old_string)
          const written = await fs.write(path, encodeUtf8({ ...before, text: outcome.text }), { ifVersion: version })
          const diff = await diffLines(before.text, outcome.text)
          const places = count(outcome.lines.length, 'place')
          const headline = `Edited ${shown}: ${places}, at ${lineList(outcome.lines)}.`
          return toolResult({
            value: { path, replaced: outcome.lines.length, lines: outcome.lines },
            content: [headline, renderDiff(diff)].filter(Boolean).join('\n'),
            meta: { kind: 'diff', path, version: written.version, ...diff },
          })
        },
        exec.signal,
      )
    },
  })
}

async function readForEdit(fs: FileSystem, path: string, shown: string, maxBytes: number, signal: AbortSignal) {
  try {
    const { bytes, stat } = await fs.read(path, { maxBytes, signal })
    const before = decodeUtf8(bytes)
    if (before) return { before, version: stat.version }
  } catch (error) {
    if (!isHarnessError(error)) throw error
    if (error.code === 'FS_NOT_FOUND') throw await notFound(fs, path, shown)
    if (error.code !== 'FS_TOO_LARGE') throw error
    throw new HarnessError(error.code, error.problem, { fix: 'change it with a program in bash' })
  }
  throw new HarnessError('EDIT_NOT_TEXT', `${shown} is not valid UTF-8 and was left as it is`, {
    fix: 'change it with a program that knows its encoding, in bash',
  })
}

type Refusal = Exclude<ReturnType<typeof replaceText>, { kind: 'replaced' }>

function refuse(outcome: Refusal, shown: string, text: string, wanted: string): HarnessError {
  switch (outcome.kind) {
    case 'unchanged':
      return new HarnessError('EDIT_UNCHANGED', `old_string and new_string are the same; ${shown} was not changed`)
    case 'ambiguous':
      return new HarnessError(
        'EDIT_AMBIGUOUS',
        `old_string is in ${shown} ${outcome.lines.length} times, at ${lineList(outcome.lines)}; nothing was changed`,
        { fix: 'add neighbouring lines to old_string to make it unique, or set replace_all' },
      )
    case 'missing':
      return new HarnessError('EDIT_NOT_FOUND', `old_string is not in ${shown}; nothing was changed`, {
        fix: explainMismatch(text.replaceAll('\r\n', '\n'), wanted.replaceAll('\r\n', '\n')),
      })
  }
}
