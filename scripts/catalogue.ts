/** Writes `docs/catalogue.md` from the code: plugins, services, events, tools and error codes. */

import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { bootTree } from '@cambium/loader'
import type {} from '@cambium/tools'
import { cell, configRows, type SchemaNode } from './catalogue/config.ts'
import { declaredIn, errorCodes, readSources, type Source } from './catalogue/source.ts'

const root = fileURLToPath(new URL('..', import.meta.url))
const file = join(root, 'docs', 'catalogue.md')

interface PluginModule {
  readonly name?: string
  readonly inject?: readonly string[] | Readonly<Record<string, unknown>>
  readonly provide?: readonly string[]
  readonly Config?: SchemaNode
  readonly apply?: unknown
}

interface Plugin {
  /** What a row names. */
  readonly specifier: string
  readonly module: PluginModule
}

const packages = readdirSync(join(root, 'packages'))
  .filter(name => name !== 'testkit')
  .sort()

async function loadPlugins(): Promise<Plugin[]> {
  const found: Plugin[] = []
  for (const name of packages) {
    const manifest = JSON.parse(readFileSync(join(root, 'packages', name, 'package.json'), 'utf8'))
    for (const path of Object.keys(manifest.exports as object)) {
      const specifier = `@cambium/${name}${path.slice(1)}`
      const module = (await import(specifier)) as PluginModule
      if (typeof module.apply === 'function') found.push({ specifier, module })
    }
  }
  return found
}

function describePlugin({ specifier, module: { name, inject, provide, Config } }: Plugin): string {
  const needs = Array.isArray(inject) ? inject : Object.keys(inject ?? {})
  const lines = [`### \`${specifier}\``, '', `Plugin \`${name}\`.`]
  if (needs.length) lines.push(`Needs ${needs.map(key => `\`ctx.${key}\``).join(', ')}.`)
  if (provide?.length) lines.push(`Provides ${provide.map(key => `\`ctx.${key}\``).join(', ')}.`)
  const rows = Config ? configRows(Config) : []
  if (rows.length) lines.push('', '| config | type | default | |', '|---|---|---|---|', ...rows)
  return lines.join('\n')
}

/** Each service with its contract and who provides it: plugins, or else the program of the package that declares it. */
function services(all: readonly Source[], plugins: readonly Plugin[]): string[] {
  const rows = declaredIn(all, 'Context').map(({ name, owner, comment }) => {
    const from = plugins.filter(({ module }) => module.provide?.includes(name)).map(({ specifier }) => specifier)
    const provider = from.length ? from.map(specifier => `\`${specifier}\``).join(', ') : `${owner}, no plugin`
    return `| \`ctx.${name}\` | ${provider} | ${cell(comment.charAt(0).toUpperCase() + comment.slice(1))} |`
  })
  return ['| service | provided by | |', '|---|---|---|', ...rows.sort()]
}

/** Events with the mode that their doc comment begins with. */
function events(all: readonly Source[]): string[] {
  const rows = declaredIn(all, 'Events').map(({ name, owner, comment }) => {
    const mode = /^(notify|gate|waterfall|serial|parallel)\b/.exec(comment)?.[1]
    if (!mode) throw new Error(`packages/${owner}: the comment of ${name} does not begin with its mode`)
    const rest = comment.slice(mode.length).replace(/^[:,. ]+/, '')
    return `| \`${name}\` | ${mode} | ${owner} | ${cell(rest)} |`
  })
  return ['| event | mode | owner | |', '|---|---|---|---|', ...rows.sort()]
}

interface JsonSchema {
  readonly type?: string | readonly string[]
  readonly description?: string
  readonly enum?: readonly unknown[]
  readonly items?: JsonSchema
  readonly properties?: Readonly<Record<string, JsonSchema>>
  readonly required?: readonly string[]
}

async function tools(): Promise<string[]> {
  const tree = await bootTree({ file: join(root, 'cordis.yml') }, { env: {}, write() {} })
  const rows = tree.ctx.tools.schemas().flatMap(({ name, description, parameters }) => {
    const { properties = {}, required = [] } = parameters as unknown as JsonSchema
    const params = Object.entries(properties).map(([key, schema]) => {
      const optional = required.includes(key) ? '' : '?'
      return `- \`${key}${optional}\` ${parameterType(schema)}${schema.description ? `: ${schema.description}` : ''}`
    })
    return [`### \`${name}\``, '', description, '', ...params, '']
  })
  await tree.dispose()
  return rows
}

function parameterType({ type, enum: values, items }: JsonSchema): string {
  if (values) return values.map(value => `\`${JSON.stringify(value)}\``).join(' or ')
  if (type === 'array' && items) return `array of ${parameterType(items)}`
  return typeof type === 'string' ? type : (type ?? ['anything']).join(' or ')
}

export async function renderCatalogue(): Promise<string> {
  const all = readSources(root, packages)
  const plugins = await loadPlugins()
  return [
    '# Catalogue',
    '',
    'Made from the code by `node --import tsx scripts/catalogue.ts`; do not edit.',
    '',
    '## Plugins',
    '',
    plugins.map(describePlugin).join('\n\n'),
    '',
    '## Services',
    '',
    ...services(all, plugins),
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
    ...[...errorCodes(all)].map(([code, owners]) => `- \`${code}\` (${owners.join(', ')})`),
    '',
  ].join('\n')
}

if (process.argv[1] === fileURLToPath(import.meta.url)) writeFileSync(file, await renderCatalogue())
