/** The plugins of this workspace, read from its sources: importing all of them takes longer than any start. */

import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import type { ShippedPlugin } from './shipped.ts'

/** For tests of other packages: nobody's tree has a row of it. */
const NOT_SHIPPED = new Set(['testkit'])

/** Empty where there is no workspace at `root`. */
export function readPlugins(root: string): ShippedPlugin[] {
  const folder = join(root, 'packages')
  if (!existsSync(folder)) return []
  const rooms = readdirSync(folder).filter(room => !NOT_SHIPPED.has(room))
  return rooms.sort().flatMap(room => {
    const manifest = readManifest(join(folder, room, 'package.json'))
    return Object.entries(manifest?.exports ?? {}).flatMap(([path, source]) => {
      const specifier = manifest!.name + path.slice(1)
      const facts = pluginFacts(join(folder, room, source))
      return facts ? { specifier, ...facts, name: facts.name ?? specifier } : []
    })
  })
}

function readManifest(file: string): { name: string; exports?: Record<string, string> } | undefined {
  return existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')) : undefined
}

interface Facts {
  readonly name: string | undefined
  readonly provide: readonly string[]
  readonly inject: readonly string[]
}

/** What the file's text exports, if it is a plugin; a test compares it with what the module exports. */
function pluginFacts(file: string): Facts | undefined {
  if (!existsSync(file)) return undefined
  const text = readFileSync(file, 'utf8')
  const handedOn = /^export \{[^}]*\bapply\b[^}]*\} from '(\.[^']+)'/m.exec(text)?.[1]
  const below = handedOn ? pluginFacts(join(dirname(file), handedOn)) : undefined
  if (!below && !/^export (?:(?:async )?function\*? |const )apply\b|^export \{[^}]*\bapply\b[^}]*\}$/m.test(text)) {
    return undefined
  }
  return {
    name: /^export const name = '([^']+)'/m.exec(text)?.[1] ?? below?.name,
    provide: names(text, 'provide') ?? below?.provide ?? [],
    inject: names(text, 'inject') ?? below?.inject ?? [],
  }
}

/** The names in an exported list, or the keys of an exported map. */
function names(text: string, key: string): string[] | undefined {
  const value = new RegExp(`^export const ${key}\\b[^=]*= (?:\\[([^\\]]*)\\]|\\{([^}]*)\\})`, 'm').exec(text)
  if (!value) return undefined
  const [, list, map] = value
  if (list !== undefined) return [...list.matchAll(/'([^']+)'/g)].map(([, name]) => name!)
  return [...map!.matchAll(/(?:^|,)\s*'?([\w-]+)'?\s*(?=[:,]|$)/g)].map(([, name]) => name!)
}
