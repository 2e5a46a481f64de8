/** What `require` keeps: it holds modules by path, whatever URL asked for them, and CommonJS has no other graph. */

import { createRequire } from 'node:module'
import { pathToFileURL } from 'node:url'
import { types } from 'node:util'
import { fileUrlOf } from './url.ts'

const { cache } = createRequire(import.meta.url)

/** The file's URL. What compiles TypeScript puts queries behind paths. */
const fileOf = (key: string): string => fileUrlOf(pathToFileURL(key).href)

/** Who required whom, of files that `tracked` accepts. */
export function requiredEdges(tracked: (file: string) => boolean): (readonly [parent: string, child: string])[] {
  return Object.entries(cache).flatMap(([key, module]) => {
    if (!module || key.includes('node_modules')) return []
    const parent = fileOf(key)
    // JSON that was imported is in the cache too, as a module of nothing but its value.
    const children = module.children ?? []
    return tracked(parent) ? children.map(child => [parent, fileOf(child.filename ?? child.id)] as const) : []
  })
}

/** Lets files be read again. The undo puts back what there was. */
export function forgetRequired(files: ReadonlySet<string>): () => void {
  const dropped = Object.entries(cache).filter(([key]) => !key.includes('node_modules') && files.has(fileOf(key)))
  for (const [key] of dropped) delete cache[key]
  return () => {
    for (const [key, module] of dropped) cache[key] = module
  }
}

/** ES modules among `files` that were required: Node keeps those for good. */
export function requiredModules(files: ReadonlySet<string>): string[] {
  return Object.entries(cache).flatMap(([key, module]) => {
    if (!module || !types.isModuleNamespaceObject(module.exports)) return []
    const file = fileOf(key)
    return files.has(file) ? file : []
  })
}
