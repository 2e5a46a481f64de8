/** `read`: lines of a text file, numbered, a bounded window at a time. */

import { HarnessError, isHarnessError } from '@cambium/core'
import type { FileStat, FileSystem } from '@cambium/machine'
import { defineTool, toolResult } from '@cambium/tools'
import { LineWindow } from './line-window.ts'
import { cwdOf, displayPath, notFound } from './place.ts'
import { count } from './wording.ts'

export interface ReadLimits {
  readonly readLines: number
  readonly readLineChars: number
  readonly readBytes: number
}

/** Past this size the rest of a file is not read only to count its lines. */
const COUNT_BYTES = 64 * 2 ** 20
const SNIFF_BYTES = 8192

export function readTool(fs: FileSystem, limits: ReadLimits) {
  return defineTool({
    name: 'read',
    description:
      `Reads a text file. Each line comes as its number, an arrow (→) and the text exactly as it stands in the file. ` +
      `Shows up to ${limits.readLines} lines from the start, or from offset; a note at the end says how to read on.`,
    parameters: {
      file_path: {
        type: 'string',
        required: true,
        minLength: 1,
        description: 'The file, absolute or relative to the working directory',
      },
      offset: { type: 'integer', minimum: 1, description: 'First line to show, from 1' },
      limit: { type: 'integer', minimum: 1, description: `How many lines to show, at most ${limits.readLines}` },
      skip_bytes: {
        type: 'integer',
        minimum: 1,
        description: 'Goes on inside a line that was cut: bytes to leave out at its start, as the note at the end says',
      },
    },
    readOnly: true,
    isConcurrencySafe: () => true,
    presentCall: args => `read ${args.file_path}`,
    async execute({ file_path, offset = 1, skip_bytes = 0, limit = skip_bytes ? 1 : limits.readLines }, exec) {
      const cwd = cwdOf(exec)
      const path = fs.resolve(file_path, cwd)
      const shown = displayPath(path, cwd)
      const window = new LineWindow({
        offset,
        maxLines: Math.min(limit, limits.readLines),
        // Who goes through one long line gets as much of it as of a file; a character has at most three bytes a unit.
        maxLineChars: skip_bytes
          ? Math.max(limits.readLineChars, Math.floor(limits.readBytes / 3))
          : limits.readLineChars,
        maxBytes: limits.readBytes,
        skipBytes: skip_bytes,
      })
      const { stat, bytes, counted } = await fill(window, fs, path, shown, exec.signal)
      if (offset > Math.max(1, window.total)) {
        throw new HarnessError(
          'READ_PAST_END',
          `${shown} has ${count(window.total, 'line')}; there is no line ${offset}`,
          {
            fix: `use an offset from 1 to ${Math.max(1, window.total)}`,
          },
        )
      }
      const [line] = window.lines
      if (skip_bytes && line && skip_bytes >= line.endByte) {
        throw new HarnessError('READ_PAST_END', `line ${offset} of ${shown} has ${count(line.endByte, 'byte')} only`, {
          fix: `go on with offset ${offset + 1}`,
        })
      }
      const text = window.lines.map((line, i) => `${offset + i}→${line.text}${line.cutFromBytes ? '…' : ''}`)
      const notes = describe(window, offset, counted, bytes)
      return toolResult({
        value: {
          path,
          offset,
          lines: window.lines.map(line => line.text),
          ...(counted ? { total_lines: window.total } : {}),
        },
        content: [...text, ...notes.map(note => `(${note})`)].join('\n'),
        meta: { kind: 'read', path, offset, lines: window.lines.length, version: stat.version },
      })
    },
  })
}

async function fill(window: LineWindow, fs: FileSystem, path: string, shown: string, signal: AbortSignal) {
  try {
    const stat = await fs.stat(path)
    if (!stat) throw await notFound(fs, path, shown)
    let bytes = 0
    for await (const chunk of fs.stream(path, { signal })) {
      const buffer = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.length)
      if (!bytes) checkIsText(buffer, shown, stat)
      bytes += buffer.length
      window.push(buffer)
      if (window.full && bytes >= COUNT_BYTES) return { stat, bytes, counted: false }
    }
    window.end()
    return { stat, bytes, counted: true }
  } catch (error) {
    if (isHarnessError(error) && error.code === 'FS_NOT_FILE') {
      throw new HarnessError(error.code, error.problem, {
        fix: 'list a directory with glob or bash, then read a file in it',
      })
    }
    throw error
  }
}

function checkIsText(start: Buffer, shown: string, stat: FileStat) {
  if (!start.subarray(0, SNIFF_BYTES).includes(0)) return
  const utf16 = (start[0] === 0xff && start[1] === 0xfe) || (start[0] === 0xfe && start[1] === 0xff)
  throw utf16
    ? new HarnessError('READ_NOT_TEXT', `${shown} is UTF-16 text`, {
        fix: 'convert a copy with iconv in bash and read that',
      })
    : new HarnessError('READ_NOT_TEXT', `${shown} is a binary file of ${count(stat.size, 'byte')}`, {
        fix: 'look at it with a program that knows its format, in bash',
      })
}

function describe(window: LineWindow, offset: number, counted: boolean, bytes: number): string[] {
  const { lines, total } = window
  if (!bytes) return ['the file is empty']
  const last = offset + lines.length - 1
  const of = counted ? `of ${total}` : 'of many more'
  const notes: string[] = []
  if (last < total || !counted) {
    const why = window.byteLimited ? 'the size limit was reached; ' : ''
    notes.push(`${why}lines ${offset} to ${last} ${of}; go on with offset ${last + 1}`)
  } else if (offset > 1) {
    notes.push(`end of file, ${count(total, 'line')}`)
  }
  const long = lines.flatMap((line, i) =>
    line.cutFromBytes ? [{ at: offset + i, of: line.cutFromBytes, next: line.endByte }] : [],
  )
  const [first] = long
  if (first) {
    const named = long.slice(0, 3).map(({ at, of }) => `line ${at} of ${of} bytes`)
    const more = long.length > 3 ? ` and ${long.length - 3} more` : ''
    notes.push(
      `cut: ${named.join(', ')}${more}; line ${first.at} goes on with offset ${first.at}, skip_bytes ${first.next}`,
    )
  }
  if (lines.some(line => line.text.includes('\ufffd'))) {
    notes.push('some bytes here may not be valid UTF-8; they are shown as \ufffd')
  }
  return notes
}
