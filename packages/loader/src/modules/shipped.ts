/** The plugins that come with an installation, and what each is good for: known without importing any. */

import { nearest } from '@cambium/core'

export interface ShippedPlugin {
  /** What a row's `name` says: `@cambium/toolbox/bash`. */
  readonly specifier: string
  /** What the plugin calls itself. */
  readonly name: string
  /** Services that it provides. */
  readonly provide: readonly string[]
  /** Services that it waits for. */
  readonly inject: readonly string[]
}

export function shippedProviders(service: string, shipped: readonly ShippedPlugin[]): string[] {
  return shipped.filter(({ provide }) => provide.includes(service)).map(({ specifier }) => specifier)
}

/** What to say of a specifier that leads nowhere: the plugin that may be meant, or those that its package has. */
export function suggestShipped(specifier: string, shipped: readonly ShippedPlugin[]): string | undefined {
  const asked = partsOf(specifier)
  const known = shipped.map(plugin => ({ ...partsOf(plugin.specifier), specifier: plugin.specifier }))
  const room = known.filter(other => closeWords(asked.room, other.room))
  const meant =
    room.find(other => other.path === asked.path) ??
    room.find(other => asked.path !== '' && other.path !== '' && closeWords(asked.path, other.path)) ??
    known.find(other => other.leaf === asked.leaf)
  if (meant) return `did you mean "${meant.specifier}"?`
  const names = room.map(other => other.specifier).join(', ')
  return names ? `there are ${names}` : undefined
}

/** Word by word: the scope that all have in common would outweigh a short name. */
function closeWords(asked: string, meant: string): boolean {
  const words = meant.split('/')
  const own = asked.split('/')
  return own.length === words.length && own.every((word, at) => nearest(word, [words[at]!]) !== undefined)
}

/** `@cambium/toolbox/bash`: its room is `@cambium/toolbox`, its path `bash`. */
function partsOf(specifier: string) {
  const words = specifier.split('/')
  const own = specifier.startsWith('@') ? 2 : 1
  return { room: words.slice(0, own).join('/'), path: words.slice(own).join('/'), leaf: words.at(-1)! }
}
