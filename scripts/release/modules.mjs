/** What the released package offers: every public module of the workspace, and the libraries that plugins share with us. */

import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

export const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))))

/** Have programs of their own, or are wanted by TypeScript rows only: installed beside us, and loaded when they are used. */
export const EXTERNAL = ['@silvia-odwyer/photon-node', '@vscode/ripgrep', 'tsx']

/** Libraries that a plugin and the harness have to share, by the names that plugins import them under. */
export const SHARED = {
  cordis: ['cordis', '@deepseek-ai/cordis'],
  '@cordisjs/loader': ['@cordisjs/loader', '@deepseek-ai/cordis-plugin-loader'],
}

/** Lent to a plugin that has none of its own. */
export const LENT = ['schemastery']

export const readJson = file => JSON.parse(readFileSync(file, 'utf8'))

/** `@cambium/llm/openai`: its source, the file it becomes, and how an app imports it from the package. */
export function publicModules() {
  const folders = readdirSync(join(root, 'packages')).filter(name => name !== 'testkit')
  return folders.sort().flatMap(name => {
    const manifest = readJson(join(root, 'packages', name, 'package.json'))
    return Object.entries(manifest.exports).map(([path, source]) => {
      const leaf = path === '.' ? 'index' : path.slice(2)
      return {
        specifier: manifest.name + path.slice(1),
        source: join(root, 'packages', name, source),
        file: `lib/${name}/${leaf}.js`,
        id: `${name}-${leaf}.js`,
        types: `types/${name}/${leaf}.d.ts`,
        path: `./${name}${path.slice(1)}`,
      }
    })
  })
}

/** Where a package of the workspace that uses `name` has it installed. */
export function installedFolder(name) {
  for (const user of readdirSync(join(root, 'packages'))) {
    const folder = join(root, 'packages', user, 'node_modules', name)
    if (existsSync(folder)) return folder
  }
  throw new Error(`${name} is not installed; run the install first`)
}

/** `third-party/cordisjs-loader` */
export const sharedFile = name => `third-party/${name.replace(/^@/, '').replaceAll('/', '-')}`
