/** What a person has said on the command line of `cambium sessions`, as the config of the row that does it. */

import Schema from 'schemastery'
import { VERBS, type Verb } from './verbs.ts'

export interface SessionsConfig {
  verb: Verb
  words: string[]
  cwd?: string
  all: boolean
  limit?: number
  json: boolean
  turn?: string
  full: boolean
  raw: boolean
  rebuild: boolean
  restoreFiles: boolean
  dryRun: boolean
  force: boolean
  yes: boolean
  olderThanMs?: number
  keep?: number
  maxTotalBytes?: number
  format: 'markdown' | 'json'
  output?: string
  redact: boolean
  id?: string
  moved: boolean
}

const off = (text: string) => Schema.boolean().default(false).description(text)

export const SessionsConfig: Schema<SessionsConfig> = Schema.object({
  verb: Schema.union([...VERBS])
    .default('list')
    .description('What is done'),
  words: Schema.array(Schema.string())
    .default([])
    .description('Ids of sessions or parts of them, words to look for, or the file to import'),
  cwd: Schema.string().description(
    'The folder whose sessions are meant; the one that the command was started in by default',
  ),
  all: off('Sessions of all folders'),
  limit: Schema.natural().min(1).description('How many are listed or found at most'),
  json: off('One JSON object'),
  turn: Schema.string().description('A turn by its number, or `last`'),
  full: off('Nothing is shortened'),
  raw: off('The events as they are stored'),
  rebuild: off('Makes the index anew before it is searched'),
  restoreFiles: off('Puts the files back to what they were before the turn'),
  dryRun: off('Tells what would be done, and does nothing'),
  force: off('Restores also files that others have changed since'),
  yes: off('Does not ask'),
  olderThanMs: Schema.natural().description('Sessions that nobody has written for so long are pruned'),
  keep: Schema.natural().description('So many of the newest are not pruned'),
  maxTotalBytes: Schema.natural().description('The oldest are pruned until the rest takes no more'),
  format: Schema.union(['markdown', 'json'] as const)
    .default('markdown')
    .description('The form of an export'),
  output: Schema.string().description('The file that is exported to, as an absolute path; standard output by default'),
  redact: Schema.boolean().default(true).description('Known keys and tokens are left out of an export'),
  id: Schema.string().description('The id that an imported session gets; its own by default'),
  moved: off('An imported session works in `cwd` from now on'),
})
