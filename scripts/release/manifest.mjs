/** The package.json of the released package. */

import { join } from 'node:path'
import { EXTERNAL, installedFolder, readJson, root } from './modules.mjs'

export function manifest(modules, { types }) {
  const { version, license, engines } = readJson(join(root, 'package.json'))
  const exports = modules.map(({ path, file, types: declarations }) => [
    path,
    types ? { types: `./${declarations}`, default: `./${file}` } : `./${file}`,
  ])
  const versions = EXTERNAL.map(name => [name, readJson(join(installedFolder(name), 'package.json')).version])
  return {
    name: 'cambium',
    version,
    description: 'An agent harness in which every feature is a plugin',
    keywords: ['agent', 'llm', 'plugin', 'cordis'],
    license,
    type: 'module',
    engines,
    bin: { cambium: 'bin/cambium.cjs', cordis: 'bin/cordis.cjs' },
    exports: {
      ...Object.fromEntries(exports),
      './cordis.yml': './cordis.yml',
      ...(types ? { './tsconfig.json': './tsconfig.json' } : {}),
      './package.json': './package.json',
    },
    // Exact: what was tested together is what gets installed.
    dependencies: Object.fromEntries(versions),
  }
}
