/** The subcommands of `cambium sessions` as command lines: what each accepts, and what its help says. */

import { type FlagTable, readChoice, readCount, usageError } from '../flags.ts'
import { readAge, readNumber, readSize } from './amounts.ts'
import type { SessionsConfig } from './config.ts'
import { readTurn } from './turn.ts'
import type { Verb } from './verbs.ts'

export interface Line {
  /** Behind `cambium sessions`; the first one is the hint. */
  readonly usage: readonly string[]
  /** One line for the list. */
  readonly summary: string
  readonly text: string
  readonly flags: FlagTable
  /** How many words there may be, and what one of them is. */
  readonly words: { readonly least: number; readonly most: number; readonly what: string }
  /** What the flags say. @throws `CLI_USAGE` */
  read(said: Said): Partial<SessionsConfig>
}

export interface Said {
  readonly words: readonly string[]
  readonly one: (flag: string) => string | undefined
  readonly has: (flag: string) => boolean
  /** Absolute, from where the command was started. */
  readonly path: (file: string) => string
}

const ID = { least: 1, most: 1, what: 'an id' }
const JSON_FLAG: FlagTable = { json: { help: 'one JSON object' } }
const WHERE: FlagTable = {
  all: { short: 'a', help: 'sessions of all folders' },
  cwd: { value: '<folder>', short: 'C', help: 'those of that folder; of this one by default' },
}
const TURN = { value: '<turn>', short: 't' } as const
const YES: FlagTable = { yes: { short: 'y', help: 'do not ask' } }

export const LINES: Readonly<Record<Verb, Line>> = {
  list: {
    usage: ['list [flags] [word …]'],
    summary: 'the sessions of this folder, newest first',
    text: `Words leave those that have them all in title, folder or id. Piped, each is one line of id, time of the last
write, bytes, what is special (live, fork, damaged, or -), folder and title, with tabs between them.`,
    flags: {
      ...WHERE,
      limit: { value: '<n>', short: 'n', help: 'no more than so many; 20 on a terminal' },
      ...JSON_FLAG,
    },
    words: { least: 0, most: Number.POSITIVE_INFINITY, what: 'a word' },
    read: said => ({ ...where(said), ...limit(said), json: said.has('json') }),
  },
  show: {
    usage: ['show <id> [flags]'],
    summary: 'what was said and done, as a transcript',
    text: `Everything that was ever said, also what a compaction has taken from the model's sight. Of results and
thoughts the first lines are shown.`,
    flags: {
      turn: { ...TURN, help: 'only that turn: its number, or last' },
      full: { short: 'f', help: 'nothing is shortened' },
      json: { help: 'one JSON object: header, turns, usage, transcript' },
      raw: { help: 'the events as they are stored, one a line' },
    },
    words: ID,
    read: said => {
      if (said.has('json') && said.has('raw')) throw usageError('--json and --raw exclude each other')
      return { ...turn(said), full: said.has('full'), json: said.has('json'), raw: said.has('raw') }
    },
  },
  search: {
    usage: ['search <word …> [flags]', 'search --rebuild'],
    summary: 'where something was said',
    text: 'Finds what was said, by you, by a model or by a tool; every word has to be there. "Quotes" look for words as they are.',
    flags: {
      ...WHERE,
      limit: { value: '<n>', short: 'n', help: 'no more than so many places; 20 by default' },
      rebuild: { help: 'make the index anew first; nothing is lost with it' },
      ...JSON_FLAG,
    },
    words: { least: 0, most: Number.POSITIVE_INFINITY, what: 'a word' },
    read: said => {
      const rebuild = said.has('rebuild')
      if (!said.words.length && !rebuild) throw usageError('sessions search needs something to look for')
      return { ...where(said), ...limit(said), rebuild, json: said.has('json') }
    },
  },
  fork: {
    usage: ['fork <id> [--turn <n>]'],
    summary: 'a copy to go on in',
    text: 'Prints the id of the copy. The session itself stays as it is, and may be written by somebody meanwhile.',
    flags: {
      turn: { ...TURN, help: 'up to the end of that turn: its number, or last; all of it by default' },
      ...JSON_FLAG,
    },
    words: ID,
    read: said => ({ ...turn(said), json: said.has('json') }),
  },
  rewind: {
    usage: ['rewind <id> --turn <n> [flags]'],
    summary: 'a copy that ends before a turn, to say it anew',
    text: `Prints the id of the copy, and what the turn was asked. The session itself stays as it is; with --restore-files
the files of its folder are put back to what they were before that turn, or none when one of them was changed by
somebody else since. cambium run --resume <id> --rewind <n> "new text" does it in one go.`,
    flags: {
      turn: { ...TURN, help: 'the first turn that is taken back: its number, or last' },
      'restore-files': { help: 'put the files back as well' },
      'dry-run': { help: 'with --restore-files: only tell which; no copy is made' },
      force: { help: 'with --restore-files: also over files that others have changed' },
      ...JSON_FLAG,
    },
    words: ID,
    read: said => {
      if (!said.has('turn')) throw usageError('sessions rewind needs --turn', 'write --turn 3, or --turn last')
      for (const flag of ['dry-run', 'force']) {
        if (said.has(flag) && !said.has('restore-files')) throw usageError(`--${flag} goes with --restore-files`)
      }
      return {
        ...turn(said),
        restoreFiles: said.has('restore-files'),
        dryRun: said.has('dry-run'),
        force: said.has('force'),
        json: said.has('json'),
      }
    },
  },
  delete: {
    usage: ['delete <id …> [--yes]'],
    summary: 'for good',
    text: `The log and all that belongs to it. Copies that were made of it stay. On a terminal you are asked; elsewhere
--yes says that you are sure. A session that somebody writes is not deleted.`,
    flags: YES,
    words: { least: 1, most: Number.POSITIVE_INFINITY, what: 'an id' },
    read: said => ({ yes: said.has('yes') }),
  },
  prune: {
    usage: ['prune [flags]'],
    summary: 'deletes what is old, or too much',
    text: `Those that are beyond a limit given here, or beyond the store's own (jsonl.retention) when none is given. What
somebody writes stays, and what is damaged is for you to judge.`,
    flags: {
      'older-than': { value: '<age>', help: 'not written for so long: 30d, 2w, 12h' },
      keep: { value: '<n>', help: 'so many of the newest stay in any case; alone, all others go' },
      'max-size': { value: '<size>', help: 'the oldest, until the rest takes no more: 500M, 1G' },
      cwd: { value: '<folder>', short: 'C', help: 'only those of that folder' },
      'dry-run': { help: 'only tell which' },
      ...YES,
      ...JSON_FLAG,
    },
    words: { least: 0, most: 0, what: 'no words' },
    read: said => {
      const [age, keep, size] = [said.one('older-than'), said.one('keep'), said.one('max-size')]
      return {
        all: !said.has('cwd'),
        ...(age === undefined ? {} : { olderThanMs: readAge('older-than', age) }),
        ...(keep === undefined ? {} : { keep: readNumber('keep', keep) }),
        ...(size === undefined ? {} : { maxTotalBytes: readSize('max-size', size) }),
        dryRun: said.has('dry-run'),
        yes: said.has('yes'),
        json: said.has('json'),
      }
    },
  },
  export: {
    usage: ['export <id> [flags]'],
    summary: 'as Markdown to read, or as JSON to import elsewhere',
    text: `Keys and tokens that are known here are taken out, and the export says so. Pictures are notes in Markdown, and whole
in JSON, which has every event as it is.`,
    flags: {
      format: { value: '<form>', short: 'f', help: 'markdown (default), or json; of --output by its name' },
      output: { value: '<file>', short: 'o', help: 'where to; standard output by default' },
      'no-redact': { help: 'leave the keys in' },
    },
    words: ID,
    read: said => {
      const output = said.one('output')
      const byName = output?.endsWith('.json') ? 'json' : 'markdown'
      return {
        format: readChoice('format', said.one('format') ?? byName, ['markdown', 'json'] as const),
        ...(output === undefined ? {} : { output: said.path(output) }),
        redact: !said.has('no-redact'),
      }
    },
  },
  import: {
    usage: ['import <file|-> [flags]'],
    summary: 'takes what export --format json has made, or a log file',
    text: 'All of it is looked at before anything is stored. Prints the id.',
    flags: {
      cwd: { value: '<folder>', short: 'C', help: 'where it works from now on; where it has worked by default' },
      id: { value: '<id>', help: 'the id that it gets here; its own by default' },
      ...JSON_FLAG,
    },
    words: { least: 1, most: 1, what: 'a file' },
    read: said => {
      const [file = '-'] = said.words
      const id = said.one('id')
      return {
        words: [file === '-' ? file : said.path(file)],
        ...(said.has('cwd') ? { moved: true } : {}),
        ...(id === undefined ? {} : { id }),
        json: said.has('json'),
      }
    },
  },
}

function where({ has }: Said): Partial<SessionsConfig> {
  if (has('all') && has('cwd')) throw usageError('--all and --cwd exclude each other')
  return { all: has('all') }
}

function limit({ one }: Said): Partial<SessionsConfig> {
  const said = one('limit')
  return said === undefined ? {} : { limit: readCount('limit', said) }
}

function turn({ one }: Said): Partial<SessionsConfig> {
  const said = one('turn')
  return said === undefined ? {} : { turn: readTurn('turn', said) }
}
