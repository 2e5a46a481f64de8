/** Writes `docs/catalogue.md` from the code: plugins, services, events, tools and error codes. */

import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { bootTree } from '@cambium/loader'
import type {} from '@cambium/tools'

const root = fileURLToPath(new URL('..', import.meta.url))
const file = join(root, 'docs', 'catalogue.md')

interface SchemaNode {
  readonly type: string
  readonly dict?: Readonly<Record<string, SchemaNode>>
  readonly meta?: { readonly description?: unknown; readonly default?: unknown; readonly required?: boolean }
}

interface PluginModule {
  readonly name?: string
  readonly inject?: readonly string[] | Readonly<Record<string, unknown>>
  readonly provide?: readonly string[]
  readonly Config?: SchemaNode
  readonly apply?: unknown
}

interface Source {
  readonly path: string
  readonly text: string
}

const packages = readdirSync(join(root, 'packages')).filter(name => name !== 'testkit')

/** Sources in one order on every machine. */
function sources(): Source[] {
  return packages.flatMap(name => {
    const folder = join(root, 'packages', name, 'src')
    return readdirSync(folder, { recursive: true, encoding: 'utf8' })
      .filter(path => path.endsWith('.ts'))
      .sort()
      .map(path => ({ path: `packages/${name}/src/${path}`, text: readFileSync(join(folder, path), 'utf8') }))
  })
}

async function plugins(): Promise<string[]> {
  const blocks: string[] = []
  for (const name of packages) {
    const manifest = JSON.parse(readFileSync(join(root, 'packages', name, 'package.json'), 'utf8'))
    for (const path of Object.keys(manifest.exports as object)) {
      const specifier = `@cambium/${name}${path.slice(1)}`
      const module = (await import(specifier)) as PluginModule
      if (typeof module.apply === 'function') blocks.push(describePlugin(specifier, module))
    }
  }
  return blocks
}

function describePlugin(specifier: string, { name, inject, provide, Config }: PluginModule): string {
  const needs = Array.isArray(inject) ? inject : Object.keys(inject ?? {})
  const lines = [`### \`${specifier}\``, '', `Plugin \`${name}\`.`]
  if (needs.length) lines.push(`Needs ${needs.map(key => `\`ctx.${key}\``).join(', ')}.`)
  if (provide?.length) lines.push(`Provides ${provide.map(key => `\`ctx.${key}\``).join(', ')}.`)
  const rows = Config ? fields(Config, '', {}) : []
  if (rows.length) lines.push('', '| config | type | default | |', '|---|---|---|---|', ...rows)
  return lines.join('\n')
}

function fields(schema: SchemaNode, prefix: string, above: Readonly<Record<string, unknown>>): string[] {
  return Object.entries(schema.dict ?? {}).flatMap(([key, field]) => {
    const name = `${prefix}${key}`
    const fallback = above[key] ?? field.meta?.default
    const inner = typeof fallback === 'object' && fallback !== null ? (fallback as Record<string, unknown>) : {}
    const nested = field.type === 'object' ? fields(field, `${name}.`, inner) : []
    if (nested.length) return nested
    return [`| \`${name}\` | ${field.type} | ${shown(fallback)} | ${cell(String(field.meta?.description ?? ''))} |`]
  })
}

/** A default that depends on where this runs is no fact of the code. */
function shown(fallback: unknown): string {
  const text = JSON.stringify(fallback)
  if (text === undefined || text.includes(process.cwd())) return ''
  return `\`${shorten(text)}\``
}

const shorten = (text: string) => (text.length > 60 ? `${text.slice(0, 57)}…` : text)
const cell = (text: string) => text.replaceAll('|', '\\|').replace(/\s+/g, ' ').trim()

/** Events with the mode that their doc comment begins with. */
function events(all: readonly Source[]): string[] {
  const rows = all.flatMap(({ path, text }) => {
    const block = /interface Events \{([\s\S]*?)\n {2}\}/.exec(text)?.[1] ?? ''
    const found = block.matchAll(/\/\*\*([\s\S]*?)\*\/\s*'([\w-]+\/[\w-]+)'/g)
    return [...found].map(([, comment = '', name = '']) => {
      const said = comment
        .replace(/^\s*\* ?/gm, ' ')
        .replace(/\s+/g, ' ')
        .trim()
      const mode = /^(notify|gate|waterfall|serial|parallel)/.exec(said)?.[1]
      if (!mode) throw new Error(`${path}: the comment of ${name} does not begin with its mode`)
      return `| \`${name}\` | ${mode} | ${cell(said.slice(mode.length).replace(/^[:,. ]+/, ''))} |`
    })
  })
  return ['| event | mode | |', '|---|---|---|', ...rows.sort()]
}

async function tools(): Promise<string[]> {
  const tree = await bootTree({ file: join(root, 'cordis.yml') }, { env: {}, write() {} })
  const rows = tree.ctx.tools.schemas().flatMap(({ name, description, parameters }) => {
    const { properties = {}, required = [] } = parameters as unknown as {
      properties?: Record<string, { type?: string; description?: string }>
      required?: string[]
    }
    const params = Object.entries(properties).map(([key, { type, description }]) => {
      const optional = required.includes(key) ? '' : '?'
      return `- \`${key}${optional}\` ${type ?? ''}${description ? `: ${description}` : ''}`
    })
    return [`### \`${name}\``, '', description, '', ...params, '']
  })
  await tree.dispose()
  return rows
}

function errorCodes(all: readonly Source[]): string[] {
  const codes = new Map<string, Set<string>>()
  for (const { path, text } of all) {
    const owner = path.split('/')[1] ?? ''
    for (const [, code = ''] of text.matchAll(/'([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+)'/g)) {
      const owners = codes.get(code) ?? new Set()
      codes.set(code, owners.add(owner))
    }
  }
  const known = [...codes].filter(([code]) => all.some(({ text }) => isErrorCode(text, code)))
  return known.sort().map(([code, owners]) => `- \`${code}\` (${[...owners].join(', ')})`)
}

/** A code is what an error is made with or a union of codes lists, not any constant in capitals. */
function isErrorCode(text: string, code: string): boolean {
  return new RegExp(
    `(?:Error|error|fail\\w*|refuse\\w*|mistake|problem|Code)\\(\\s*'${code}'|[cC]ode: '${code}'|Code = '${code}'|\\| '${code}'`,
  ).test(text)
}

export async function renderCatalogue(): Promise<string> {
  const all = sources()
  return [
    '# Catalogue',
    '',
    'Made from the code by `node --import tsx scripts/catalogue.ts`; do not edit.',
    '',
    '## Plugins',
    '',
    (await plugins()).join('\n\n'),
    '',
    '## Events',
    '',
    ...events(all),
    '',
    '## Tools of the default tree',
    '',
    ...(await tools()),
    '## Error codes',
    '',
    ...errorCodes(all),
    '',
  ].join('\n')
}

if (process.argv[1] === fileURLToPath(import.meta.url)) writeFileSync(file, await renderCatalogue())
