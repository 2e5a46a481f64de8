/** `glob`: files by name. */

import { HarnessError } from '@cambium/core'
import type { FileSystem, ProcessHost } from '@cambium/machine'
import { defineTool, toolResult } from '@cambium/tools'
import { cwdOf, displayPath, notFound } from './place.ts'
import { runRipgrep } from './ripgrep.ts'
import type { SearchLimits } from './search.ts'
import { count } from './wording.ts'

export function globTool(fs: FileSystem, host: ProcessHost, limits: SearchLimits) {
  return defineTool({
    name: 'glob',
    description:
      'Finds files by name, sorted by path. A pattern without a slash, such as *.ts, matches names in all directories; ' +
      'src/**/*.ts matches paths. Hidden files are found; what git ignores and .git are not, unless path or the ' +
      'beginning of the pattern names a directory inside.',
    parameters: {
      pattern: { type: 'string', required: true, minLength: 1, description: 'Glob with *, **, ?, [a-z] and {a,b}' },
      path: { type: 'string', minLength: 1, description: 'Directory to search; the working directory if left out' },
    },
    readOnly: true,
    isConcurrencySafe: () => true,
    presentCall: args => `glob ${args.pattern}${args.path ? ` in ${args.path}` : ''}`,
    async execute({ pattern, path }, exec) {
      const cwd = cwdOf(exec)
      const start = await directory(fs, fs.resolve(path ?? '.', cwd), cwd)
      const { base, matches } = await compile(pattern)
      const root = fs.resolve(base || '.', start)
      const found = createSmallest(limits.globFiles)
      const exists = root === start || (await fs.stat(root))?.kind === 'directory'
      const end = exists
        ? await runRipgrep(host, {
            args: ['--files', '--hidden', '--no-ignore-dot', '--null', '--glob', '!.git', '--', root],
            cwd: start,
            signal: exec.signal,
            timeoutMs: limits.timeoutMs,
            program: limits.rgPath,
            separator: '\0',
            onRecord(file) {
              if (matches(file.slice(root.length).replace(/^\/+/, ''))) found.add(file)
              return true
            },
          })
        : {}
      const files = found.list()
      const notes: string[] = []
      if (found.total > files.length) {
        notes.push(
          `the first ${files.length} of ${count(found.total, 'file')}; narrow the pattern or path for the others`,
        )
      }
      if (end.incomplete) notes.push(`incomplete: ${end.incomplete}`)
      const lines = files.length ? files.map(file => displayPath(file, cwd)) : [`No file matches ${pattern}.`]
      return toolResult({
        value: { files, total: found.total },
        content: [...lines, ...notes.map(note => `(${note})`)].join('\n'),
        meta: { kind: 'glob', pattern, total: found.total, shown: files.length },
      })
    },
  })
}

async function directory(fs: FileSystem, path: string, cwd: string): Promise<string> {
  const stat = await fs.stat(path)
  if (stat?.kind === 'directory') return path
  const shown = displayPath(path, cwd)
  if (!stat) throw await notFound(fs, path, shown)
  throw new HarnessError('SEARCH_NOT_DIRECTORY', `${shown} is not a directory`, { fix: 'name the directory it is in' })
}

/** The fixed beginning of a pattern narrows the walk. Without a slash only the name counts. */
async function compile(pattern: string): Promise<{ base: string; matches: (path: string) => boolean }> {
  const { default: picomatch } = await import('picomatch')
  const options = { dot: true }
  const trimmed = pattern.replace(/^(?:\.\/)+/, '')
  if (!trimmed.includes('/')) {
    const matchesName = picomatch(trimmed, options)
    return { base: '', matches: path => matchesName(path.slice(path.lastIndexOf('/') + 1)) }
  }
  const { base, glob } = picomatch.scan(trimmed)
  if (glob) return { base, matches: picomatch(glob, options) }
  // A path without any wildcard: its directory, and the name to the letter.
  const slash = base.lastIndexOf('/')
  const name = base.slice(slash + 1)
  return { base: base.slice(0, slash) || '/', matches: path => path === name }
}

/** Keeps the alphabetically first of any number of texts. */
function createSmallest(limit: number) {
  let kept: string[] = []
  let total = 0
  const trim = () => {
    kept = kept.sort().slice(0, limit)
  }
  return {
    get total() {
      return total
    },
    add(text: string) {
      total++
      kept.push(text)
      if (kept.length >= limit * 8) trim()
    },
    list() {
      trim()
      return kept
    },
  }
}
