/** `write`: makes a file or replaces a whole one. */

import { dirname } from 'node:path'
import { isHarnessError } from '@cambium/core'
import type { FileSystem } from '@cambium/machine'
import { defineTool, toolResult } from '@cambium/tools'
import { diffLines, renderDiff } from './line-diff.ts'
import { endingsOf, withEnding } from './line-endings.ts'
import { cwdOf, displayPath } from './place.ts'
import { type DecodedText, decodeUtf8, encodeUtf8 } from './utf8.ts'
import { count } from './wording.ts'

/** Of larger files no difference is shown. */
const DIFF_BYTES = 2 ** 20

export function writeTool(fs: FileSystem) {
  return defineTool({
    name: 'write',
    description:
      'Writes a whole file, with the directories it needs. Replaces what is there; to change a part of a file use edit.',
    parameters: {
      file_path: {
        type: 'string',
        required: true,
        minLength: 1,
        description: 'The file, absolute or relative to the working directory',
      },
      content: { type: 'string', required: true, description: 'The whole content' },
    },
    presentCall: args => `write ${args.file_path}`,
    async execute({ file_path, content }, exec) {
      const cwd = cwdOf(exec)
      const path = fs.resolve(file_path, cwd)
      const shown = displayPath(path, cwd)
      return fs.lock(
        path,
        async () => {
          const before = await readBefore(fs, path, exec.signal)
          const after = inStyleOf(before, content)
          await fs.mkdir(dirname(path))
          const { created, version } = await fs.write(path, encodeUtf8(after))
          const lines = count(lineCount(after.text), 'line')
          if (created) {
            return toolResult({
              value: { path, created },
              content: `Created ${shown} with ${lines}.`,
              meta: { kind: 'write', path, version, created, lines: lineCount(after.text) },
            })
          }
          const diff = before ? await diffLines(before.text, after.text) : undefined
          const kept = before && after.text !== content ? ' The file’s CRLF line endings were kept.' : ''
          const change = before?.text === after.text ? 'It had the same content before.' : ''
          return toolResult({
            value: { path, created },
            content: [`Replaced ${shown}, now ${lines}.${kept}`, change, diff && renderDiff(diff, 20)]
              .filter(Boolean)
              .join('\n'),
            meta: { kind: 'diff', path, version, created, ...(diff ?? { hunks: [], tooLarge: true }) },
          })
        },
        exec.signal,
      )
    },
  })
}

/** The text that is replaced; undefined when there is none that could be compared. */
async function readBefore(fs: FileSystem, path: string, signal: AbortSignal): Promise<DecodedText | undefined> {
  try {
    const { bytes } = await fs.read(path, { maxBytes: DIFF_BYTES, signal })
    return bytes.includes(0) ? undefined : decodeUtf8(bytes)
  } catch (error) {
    if (
      isHarnessError(error) &&
      ['FS_NOT_FOUND', 'FS_TOO_LARGE', 'FS_DENIED', 'FS_NOT_DIRECTORY'].includes(error.code)
    ) {
      return undefined
    }
    throw error
  }
}

/** The reader is shown neither a byte order mark nor carriage returns, so a rewrite without them does not mean to drop them. */
function inStyleOf(before: DecodedText | undefined, content: string): DecodedText {
  const bom = content.startsWith('\ufeff')
  const text = bom ? content.slice(1) : content
  if (!before) return { text, bom }
  const endings = endingsOf(before.text)
  const crlf = endings.length > 0 && endings.every(ending => ending === '\r\n')
  return { text: crlf && !text.includes('\r') ? withEnding(text, '\r\n') : text, bom: bom || before.bom }
}

function lineCount(text: string): number {
  if (!text) return 0
  const ends = endingsOf(text).length
  return text.endsWith('\n') ? ends : ends + 1
}
