/** `cordis check` */

import type { Command } from 'commander'
import { checkTrees, type TreeCheck } from '../inspect/check.ts'
import { type Finding, findingOf } from '../inspect/graph.ts'
import { type Apart, workApart } from './apart.ts'
import type { Invocation } from './subcommand.ts'
import { addTreeOptions, readTreeFlags, type TreeFlags } from './tree-options.ts'

interface CheckFlags extends TreeFlags {
  readonly json?: boolean
}

interface Checked {
  readonly file: string
  readonly rows: number
  readonly mistakes: readonly Finding[]
  readonly warnings: readonly Finding[]
}

/** How many of each kind are told of one tree; `--json` has all. */
const TOLD = 20

export function define(command: Command, invocation: Invocation): void {
  addTreeOptions(command)
    .option('--json', 'print one JSON document')
    .addHelpText('after', '\nModules are imported, and no `apply` is called. Ends with 1 when there is a mistake.')
    .action(async (files: string[], flags: CheckFlags) => {
      const work = async (signal: AbortSignal) => {
        const { sources, options } = readTreeFlags(files, flags)
        return (await checkTrees(sources, { ...options, signal })).map(asData)
      }
      invocation.code = await workApart(work, answer => report(answer, flags.json === true))
    })
}

function asData({ label, rows, mistakes, warnings }: TreeCheck): Checked {
  return { file: label, rows, mistakes: mistakes.map(findingOf), warnings: warnings.map(findingOf) }
}

function report({ found, stray }: Apart<readonly Checked[]>, json: boolean): number {
  const sound = !stray.length && found.every(({ mistakes }) => !mistakes.length)
  const text = json
    ? `${JSON.stringify({ sound, trees: found, unhandled: stray }, null, 2)}\n`
    : [...found.map(asText), ...stray.map(error => `error: nobody caught this: ${error}\n`)].join('')
  process.stdout.write(text)
  return sound ? 0 : 1
}

function asText({ file, rows, mistakes, warnings }: Checked): string {
  const counts = [count(mistakes, 'mistake') || 'no mistakes', count(warnings, 'warning')].filter(Boolean)
  const lines = [`${file}: ${rows} ${rows === 1 ? 'row' : 'rows'}, ${counts.join(', ')}`]
  lines.push(...told(mistakes, 'error'), ...told(warnings, 'warning'))
  if (lines.length > 1) lines.push('')
  return `${lines.join('\n')}\n`
}

function count(findings: readonly Finding[], what: string): string {
  return findings.length ? `${findings.length} ${what}${findings.length === 1 ? '' : 's'}` : ''
}

function told(findings: readonly Finding[], kind: string): string[] {
  const lines = findings.slice(0, TOLD).map(({ code, problem, where, fix }) => {
    const rest = [where && `  where: ${where}`, fix && `  fix:   ${fix}`].filter(Boolean)
    return [`\n${kind}: ${code}: ${problem}`, ...rest].join('\n')
  })
  if (findings.length > TOLD) lines.push(`\n… and ${findings.length - TOLD} more ${kind}s; --json has all`)
  return lines
}
