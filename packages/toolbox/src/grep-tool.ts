/** `grep`: lines by content. */

import { HarnessError } from '@cambium/core'
import type { FileSystem, ProcessHost } from '@cambium/machine'
import { defineTool, toolResult } from '@cambium/tools'
import { GrepHits, type GrepOutput, renderHits } from './grep-hits.ts'
import { LINE_NUMBER } from './grep-record.ts'
import { cwdOf, displayPath, notFound } from './place.ts'
import { runRipgrep } from './ripgrep.ts'
import type { SearchLimits } from './search.ts'
import { count } from './wording.ts'

export function grepTool(fs: FileSystem, host: ProcessHost, limits: SearchLimits) {
  return defineTool({
    name: 'grep',
    description:
      'Searches the content of files with a regular expression (ripgrep syntax; escape what is meant literally), sorted ' +
      'by path. Hidden files are searched; what git ignores, .git and binary files are not, unless path names a ' +
      'directory or file inside.',
    parameters: {
      pattern: { type: 'string', required: true, minLength: 1, description: 'Regular expression' },
      path: { type: 'string', minLength: 1, description: 'File or directory; the working directory if left out' },
      glob: {
        type: 'string',
        minLength: 1,
        description: 'Only files that match, as *.ts or src/**/*.{js,ts}; !*.md leaves out',
      },
      ignore_case: { type: 'boolean', description: 'Take upper and lower case as the same' },
      context: { type: 'integer', minimum: 0, maximum: 20, description: 'Lines to show before and after each match' },
      output: {
        type: 'string',
        enum: ['content', 'files', 'count'],
        description: 'Matching lines (the default), only the paths, or the number of matching lines of each file',
      },
    },
    readOnly: true,
    isConcurrencySafe: () => true,
    presentCall: args => `grep ${args.pattern}${args.path ? ` in ${args.path}` : ''}`,
    async execute({ pattern, path, glob, ignore_case = false, context = 0, output = 'content' }, exec) {
      const cwd = cwdOf(exec)
      const target = fs.resolve(path ?? '.', cwd)
      const stat = await fs.stat(target)
      if (!stat) throw await notFound(fs, target, displayPath(target, cwd))
      // A pipe or a device may never end.
      if (stat.kind === 'other') {
        const problem = `${displayPath(target, cwd)} is a device, a pipe or a socket, not a file or directory`
        throw new HarnessError('SEARCH_NOT_FILE', problem)
      }
      const filter = await fileFilter(glob, target)
      const hits = new GrepHits(output, limits, filter.accepts)
      const { incomplete } = await runRipgrep(host, {
        args: [
          ...OPTIONS,
          ...filter.args,
          ...choices({ pattern, ignore_case, context, output }),
          '-e',
          pattern,
          '--',
          target,
        ],
        cwd: stat.kind === 'directory' ? target : fs.resolve('..', target),
        signal: exec.signal,
        timeoutMs: limits.timeoutMs,
        program: limits.rgPath,
        separator: '\n',
        onRecord: json => hits.take(json),
        long: { landmark: LINE_NUMBER, take: (start, number) => hits.takeLong(start, number) },
      })
      const { files, matches, truncated } = hits
      const shown = output === 'content' ? count(matches, 'match', 'matches') : count(files.length, 'file')
      const notes = [
        ...(truncated ? [`stopped after ${shown}, there are more; narrow the pattern, path or glob`] : []),
        ...(incomplete ? [`incomplete: ${incomplete}`] : []),
      ]
      const body = files.length
        ? renderHits(files, output, file => displayPath(file, cwd))
        : `No matches${incomplete ? ' in what was searched' : ''}.`
      return toolResult({
        value: {
          files: files.map(file => ({
            path: file.path,
            matches: file.matches,
            lines: file.lines.map(({ number, text, isMatch }) => ({ number, text, is_match: isMatch })),
          })),
          truncated,
        },
        content: [body, ...notes.map(note => `(${note})`)].join('\n'),
        meta: { kind: 'grep', pattern, files: files.length, matches, truncated },
      })
    },
  })
}

/** One thread is what a stable order costs. PCRE takes over where the usual engine lacks a feature. */
const OPTIONS = ['--json', '--hidden', '--no-ignore-dot', '--glob=!.git', '--crlf', '--sort=path', '--engine=auto']

interface Choices {
  readonly pattern: string
  readonly ignore_case: boolean
  readonly context: number
  readonly output: GrepOutput
}

function choices({ pattern, ignore_case, context, output }: Choices): string[] {
  return [
    ...(ignore_case ? ['--ignore-case'] : []),
    ...(output === 'content' && context ? [`--context=${context}`] : []),
    ...(output === 'files' ? ['--max-count=1'] : []),
    ...(/\n|\\n/.test(pattern) ? ['--multiline'] : []),
  ]
}

interface FileFilter {
  readonly args: readonly string[]
  accepts(path: string): boolean
}

/**
 * ripgrep's own `--glob` would bring back what git ignores. Its file types do not, but know names only; leaving files
 * out is the one thing that `--glob` does right.
 */
async function fileFilter(glob: string | undefined, root: string): Promise<FileFilter> {
  const accepts = () => true
  if (!glob) return { args: [], accepts }
  if (glob.startsWith('!')) return { args: [`--glob=${glob}`], accepts }
  if (!glob.includes('/')) return { args: [`--type-add=wanted:${glob}`, '--type=wanted'], accepts }
  const { default: picomatch } = await import('picomatch')
  const matches = picomatch(glob.replace(/^(?:\.\/)+/, ''), { dot: true })
  return { args: [], accepts: path => matches(path.slice(root.length).replace(/^\/+/, '')) }
}
