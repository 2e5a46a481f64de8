/**
 * The declarations of the released package: those of our public modules and what they mention, libraries included, as
 * one self-contained folder. `tsconfig.json` beside it, for a plugin author to extend, leads our names there.
 */

import { execFile } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs'
import { builtinModules } from 'node:module'
import { tmpdir } from 'node:os'
import { dirname, join, relative, resolve } from 'node:path'
import { promisify } from 'node:util'
import { installedFolder, LENT, readJson, root, SHARED, sharedFile } from './modules.mjs'

const SPECIFIER = /(\bfrom\s*|\bimport\s*\(\s*|\bimport\s+|\bmodule\s+)(['"])([^'"\n]+)\2/g

/** Writes `types/` and `tsconfig.json` below `out`. */
export async function emitTypes(out, modules) {
  const emitted = mkdtempSync(join(tmpdir(), 'cambium-types-'))
  try {
    await declare(emitted)
    const copier = new Copier(emitted, join(out, 'types'), modules)
    const paths = Object.fromEntries(modules.map(({ specifier }) => [specifier, copier.entry(specifier)]))
    for (const [name, aliases] of [...Object.entries(SHARED), ...LENT.map(name => [name, [name]])]) {
      for (const alias of aliases) paths[alias] = copier.entry(name)
    }
    writeFileSync(join(out, 'tsconfig.json'), `${JSON.stringify(forPlugins(out, paths), null, 2)}\n`)
  } finally {
    rmSync(emitted, { recursive: true, force: true })
  }
}

/** Our declarations, `core/src/index.d.ts` and so on. Errors in the sources are the type check's to find. */
async function declare(folder) {
  const project = join(folder, 'tsconfig.json')
  const compilerOptions = {
    noEmit: false,
    declaration: true,
    emitDeclarationOnly: true,
    noCheck: true,
    skipLibCheck: true,
    rootDir: join(root, 'packages'),
    outDir: folder,
    typeRoots: [join(root, 'node_modules/@types')],
  }
  const config = {
    extends: join(root, 'tsconfig.json'),
    include: [join(root, 'packages/*/src')],
    exclude: ['**/node_modules', join(root, 'packages/testkit')],
    compilerOptions,
  }
  writeFileSync(project, JSON.stringify(config))
  await promisify(execFile)(process.execPath, [join(root, 'node_modules/typescript/bin/tsc'), '-p', project])
}

/** What a plugin of this package is checked with: the paths are where this package keeps its declarations. */
function forPlugins(out, paths) {
  return {
    compilerOptions: {
      target: 'ES2023',
      lib: ['ES2023', 'ESNext.Disposable'],
      // Files are modules also where no manifest says so, as they are when they run.
      module: 'Preserve',
      strict: true,
      erasableSyntaxOnly: true,
      allowImportingTsExtensions: true,
      verbatimModuleSyntax: true,
      noEmit: true,
      skipLibCheck: true,
      paths: Object.fromEntries(Object.entries(paths).map(([name, file]) => [name, [`./${relative(out, file)}`]])),
    },
  }
}

/** Copies a declaration and all that it mentions, each with its specifiers made relative. */
class Copier {
  copied = new Map()

  constructor(emitted, target, modules) {
    this.emitted = emitted
    this.target = target
    this.modules = new Map(modules.map(module => [module.specifier, module]))
  }

  /** Where the declaration of a package's name ends up. */
  entry(specifier, from = join(root, 'package.json')) {
    const file = this.locate(specifier, from)
    if (!file) throw new Error(`${specifier} has no declarations`)
    return this.copy(file)
  }

  copy(file) {
    const known = this.copied.get(file)
    if (known) return known
    const target = join(this.target, this.place(file))
    this.copied.set(file, target)
    const text = readFileSync(file, 'utf8')
      .replace(/^\/\/# sourceMappingURL=.*$/m, '')
      .replace(SPECIFIER, (whole, before, quote, specifier) => {
        const found = this.locate(specifier, file)
        return found ? before + quote + this.relative(target, this.copy(found)) + quote : whole
      })
    mkdirSync(dirname(target), { recursive: true })
    writeFileSync(target, text)
    return target
  }

  relative(from, to) {
    const path = relative(dirname(from), to).replace(/\.d\.([cm]?)ts$/, '.$1js')
    return path.startsWith('.') ? path : `./${path}`
  }

  /** `core/error.d.ts`, `third-party/yaml/dist/index.d.ts` */
  place(file) {
    const own = relative(this.emitted, file)
    if (!own.startsWith('..')) return own.replace('/src/', '/')
    const [, folder, name, path] = /^(.*\/node_modules\/((?:@[^/]+\/)?[^/]+))\/(.*)$/.exec(file)
    const target = sharedFile(name)
    // A declaration means what its package's module system says.
    const { type = 'commonjs' } = readJson(join(folder, 'package.json'))
    mkdirSync(join(this.target, target), { recursive: true })
    writeFileSync(join(this.target, target, 'package.json'), JSON.stringify({ type }))
    return `${target}/${path}`
  }

  /** The file that a specifier means, or undefined for one of Node's own and for text that only looks like one. */
  locate(specifier, from) {
    if (specifier.startsWith('node:') || builtinModules.includes(specifier)) return undefined
    if (specifier.startsWith('.')) return declarationAt(resolve(dirname(from), specifier))
    const module = this.modules.get(specifier)
    if (module) return declarationAt(join(this.emitted, relative(join(root, 'packages'), module.source)))
    if (!/^(@[\w.-]+\/)?[\w.-]+$/.test(specifier)) return undefined
    return packageTypes(specifier, from)
  }
}

function declarationAt(path) {
  const bare = path.replace(/\.[cm]?[jt]s$/, '')
  const candidates = [path, `${bare}.d.ts`, `${bare}.d.mts`, `${bare}.d.cts`, join(bare, 'index.d.ts')]
  return candidates.find(candidate => /\.d\.[cm]?ts$/.test(candidate) && existsSync(candidate))
}

function packageTypes(name, from) {
  const folder = folderOf(name, from)
  if (!folder) return undefined
  const { exports, types, typings } = readJson(join(folder, 'package.json'))
  const main = exports?.['.'] ?? exports
  const declared = main?.types ?? main?.import?.types ?? types ?? typings
  return declared && declarationAt(join(folder, declared))
}

function folderOf(name, from) {
  for (let folder = dirname(from); folder !== dirname(folder); folder = dirname(folder)) {
    const candidate = join(folder, 'node_modules', name)
    if (existsSync(candidate)) return realpathSync(candidate)
  }
  try {
    return realpathSync(installedFolder(name))
  } catch {
    return undefined
  }
}
