/** What only the sources say: which services and events are declared, with their comments, and which error codes there are. */

import { readdirSync, readFileSync } from 'node:fs'
import { constants } from 'node:os'
import { join } from 'node:path'

export interface Source {
  readonly path: string
  /** Short name of the package. */
  readonly owner: string
  readonly text: string
}

export interface Declared {
  readonly name: string
  readonly owner: string
  /** The doc comment, as one line. */
  readonly comment: string
}

/** All sources, in one order on every machine. */
export function readSources(root: string, packages: readonly string[]): Source[] {
  return packages.flatMap(owner => {
    const folder = join(root, 'packages', owner, 'src')
    return readdirSync(folder, { recursive: true, encoding: 'utf8' })
      .filter(path => path.endsWith('.ts'))
      .sort()
      .map(path => ({ path: `packages/${owner}/src/${path}`, owner, text: readFileSync(join(folder, path), 'utf8') }))
  })
}

/**
 * The members of `interface Context` or `interface Events` in `declare module 'cordis'`.
 *
 * @throws Error for a member without a comment.
 */
export function declaredIn(all: readonly Source[], which: 'Context' | 'Events'): Declared[] {
  return all.flatMap(({ path, owner, text }) =>
    augmentations(text, which).flatMap(block => {
      const members = block.matchAll(/^ {4}(?:'([\w-]+(?:\/[\w-]+)+)'|(\w+))\??(?=[(:])/gm)
      return [...members].map(match => {
        const name = match[1] ?? match[2] ?? ''
        const above = /\/\*\*((?:(?!\*\/)[\s\S])*)\*\/\s*$/.exec(block.slice(0, match.index))?.[1]
        // Or the file's own first sentence says it: "`ctx.loader`: …".
        const header = new RegExp(`^/\\*\\*\\s*(?:\\* )?\`ctx\\.${name}\`: ([\\s\\S]*?\\.)\\s`).exec(text)?.[1]
        if (above === undefined && header !== undefined) return { name, owner, comment: oneLine(header) }
        if (above === undefined)
          throw new Error(`${path}: ${which} declares ${name} without a doc comment that says what it is`)
        return { name, owner, comment: oneLine(above) }
      })
    }),
  )
}

function augmentations(text: string, which: string): string[] {
  const modules = text.matchAll(/^declare module 'cordis' \{\n([\s\S]*?)^\}/gm)
  return [...modules].flatMap(([, module = '']) => {
    const blocks = module.matchAll(new RegExp(`^  interface ${which} \\{\\n([\\s\\S]*?)^  \\}`, 'gm'))
    return [...blocks].map(([, block = '']) => block)
  })
}

const oneLine = (comment: string) =>
  comment
    .replace(/^\s*\* ?/gm, ' ')
    .replace(/\s+/g, ' ')
    .trim()

/** Every error code, with the packages that name it. */
export function errorCodes(all: readonly Source[]): Map<string, string[]> {
  const owners = new Map<string, Set<string>>()
  for (const { owner, text } of all) {
    for (const code of codesIn(text)) owners.set(code, (owners.get(code) ?? new Set()).add(owner))
  }
  const sorted = [...owners].sort(([a], [b]) => (a < b ? -1 : 1))
  return new Map(sorted.map(([code, names]) => [code, [...names]]))
}

const CODE = "'([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)*)'"
/** A code is what an error is made with, what \`code:\` is given, or what a type or list of codes has; not any constant in capitals. */
const USES = [
  new RegExp(`(?:Error|error|fail\\w*|refuse\\w*|mistake|problem|Code)\\(\\s*${CODE}`, 'g'),
  new RegExp(`[cC]ode(?:: | = |\\?: )${CODE}`, 'g'),
  // A row of a table by the system's codes: ours, cause, fix.
  /\bE[A-Z0-9]+: \[\s*'([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+)',/g,
]
const LISTS = /(?:type \w*Code =|const \w*CODES = \[)((?:(?:\/\*\*.*?\*\/|\/\/.*)|[\s|,]|'[A-Z0-9_]+')+)/g

function codesIn(text: string): Set<string> {
  const found = USES.flatMap(use => [...text.matchAll(use)].map(([, code = '']) => code))
  for (const [, list = ''] of text.matchAll(LISTS)) {
    for (const [, code = ''] of list.matchAll(new RegExp(CODE, 'g'))) found.push(code)
  }
  // What the system calls its errors is not ours.
  return new Set(found.filter(code => !(code in constants.errno) && !code.startsWith('ERR_')))
}
