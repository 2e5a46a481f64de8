/**
 * The modules of the released package, bundled: every public module and both commands are entries over shared chunks,
 * so that each source is in exactly one of them.
 */

import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { basename, dirname, join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { build } from 'esbuild'
import { EXTERNAL, installedFolder, LENT, root, SHARED, sharedFile } from './modules.mjs'

/** Of the oldest Node that the manifest allows. */
export const TARGET = 'node20.19'

export const COMMANDS = {
  cambium: join(root, 'packages/cli/src/main.ts'),
  cordis: join(root, 'packages/loader/src/command.ts'),
}

/** Libraries that modules of a start name but seldom use: evaluated when the first of their exports is asked for. */
const DEFERRED = ['yaml']

/** What the modules run on, for the installation. */
const RUNTIME = 'runtime'

const INSTALLATION = join(dirname(fileURLToPath(import.meta.url)), 'installation.js')

/** Who imports it, a command or an app, has the installation along with it. */
const LOADER = '@cambium/loader'

/**
 * Resolves with the chunks by id: the text of an ES module that imports others as `./id`, the names that it exports, the
 * files that it is made of, and whether it is to be evaluated when it is first used.
 */
export async function bundle(modules) {
  const shared = [...Object.keys(SHARED), ...LENT]
  const result = await build({
    absWorkingDir: root,
    entryPoints: [
      ...modules.map(({ specifier, source, id }) => ({
        in: specifier === LOADER ? 'release:loader' : source,
        out: id.replace(/\.js$/, ''),
      })),
      ...shared.map(name => ({ in: `release:share/${name}`, out: idOf(name).replace(/\.js$/, '') })),
      ...Object.keys(COMMANDS).map(name => ({ in: `release:command/${name}`, out: `command-${name}` })),
      // An entry of its own is what gives a library chunks of its own.
      ...DEFERRED.map(name => ({ in: `release:later/${name}`, out: `later-${name}` })),
    ],
    outdir: join(root, 'dist'),
    bundle: true,
    splitting: true,
    format: 'esm',
    platform: 'node',
    mainFields: ['module', 'main'],
    target: TARGET,
    external: [...EXTERNAL.flatMap(name => [name, `${name}/*`]), RUNTIME],
    // Text of one byte a character is read faster and takes half the memory.
    charset: 'ascii',
    legalComments: 'none',
    metafile: true,
    write: false,
    logLevel: 'warning',
    plugins: [generated(modules), lazyLibraries()],
  })
  const chunks = new Map()
  for (const [path, output] of Object.entries(result.metafile.outputs)) {
    const id = basename(path)
    const { text } = result.outputFiles.find(file => basename(file.path) === id)
    const imports = kind =>
      output.imports.filter(item => !item.external && item.kind === kind).map(item => basename(item.path))
    chunks.set(id, {
      id,
      text,
      source: output.entryPoint,
      sources: Object.keys(output.inputs),
      deferred: Object.keys(output.inputs).some(input =>
        DEFERRED.some(name => input.startsWith('lazy:') && input.includes(`/node_modules/${name}/`)),
      ),
      exports: output.exports,
      imports: imports('import-statement'),
    })
  }
  return chunks
}

const idOf = name => `${sharedFile(name).replace('/', '-')}.js`

/** What the installation knows: the names that lead to modules of this package, with the file and the chunk of each. */
function tableOf(modules) {
  const entry = name => ({ file: `lib/${sharedFile(name)}.js`, id: idOf(name) })
  const own = {}
  for (const { specifier, path, file, id } of modules) {
    own[specifier] = { file, id }
    own[path.replace('.', 'cambium')] = { file, id }
  }
  for (const [name, aliases] of Object.entries(SHARED)) for (const alias of aliases) own[alias] = entry(name)
  const doors = modules.map(({ specifier }) => specifier).filter(name => /^@[^/]+\/[^/]+$/.test(name))
  return { own, lent: Object.fromEntries(LENT.map(name => [name, entry(name)])), doors: ['cordis', ...LENT, ...doors] }
}

/** Modules outside the workspace's own that others may import: what each is, and the chunk and the file it becomes. */
export const sharedModules = () =>
  [...Object.keys(SHARED), ...LENT].map(name => ({ id: idOf(name), file: `lib/${sharedFile(name)}.js` }))

/** Modules that exist in the released form only. */
function generated(modules) {
  const installation = `import '${INSTALLATION}'\n`
  const text = {
    table: () => JSON.stringify(tableOf(modules)),
    tree: async () => JSON.stringify(await parsedTree()),
    shipped: async () => JSON.stringify(await shippedPlugins()),
    later: name => `export * from '${name}'\n`,
    command: name => `${installation}export { main } from '${COMMANDS[name]}'\n`,
    loader: () => `${installation}export * from '${modules.find(({ specifier }) => specifier === LOADER).source}'\n`,
    share: name => `export * from '${name}'\n${name === 'cordis' ? '' : `export { default } from '${name}'\n`}`,
  }
  return {
    name: 'generated',
    setup(builder) {
      builder.onResolve({ filter: /^release:/ }, ({ path }) => ({ path, namespace: 'release' }))
      builder.onLoad({ filter: /.*/, namespace: 'release' }, async ({ path }) => {
        const [, kind, name] = /^release:(\w+)\/?(.*)$/.exec(path)
        const resolveDir = kind === 'share' || kind === 'later' ? dirname(installedFolder(name)) : root
        const loader = ['table', 'tree', 'shipped'].includes(kind) ? 'json' : 'js'
        return { contents: await text[kind](name), resolveDir, loader }
      })
    },
  }
}

/** The default tree as the loader itself reads it: its text, and the value that the text has. */
async function parsedTree() {
  const { pack, parseYaml } = await fromLoader({ pack: 'file/parsed.ts', parseYaml: 'file/yaml.ts' })
  const file = join(root, 'cordis.yml')
  const text = readFileSync(file, 'utf8')
  const mistakes = []
  const value = parseYaml(text, { file, label: 'cordis.yml' }, mistakes)
  if (mistakes.length) throw mistakes[0]
  return { text, value: pack(value) }
}

/** The plugins of the package, for messages that name a missing one. */
async function shippedPlugins() {
  const { readPlugins } = await fromLoader({ readPlugins: 'modules/workspace-plugins.ts' })
  return readPlugins(root)
}

/** What sources of the loader export, to be used while building. */
async function fromLoader(names) {
  const line = ([name, file]) => `export { ${name} } from '${join(root, 'packages/loader/src', file)}'`
  const { outputFiles } = await build({
    stdin: { contents: Object.entries(names).map(line).join('\n'), resolveDir: root },
    bundle: true,
    write: false,
    format: 'cjs',
    platform: 'node',
    // None of what is used asks where it lies, which such a script could not tell.
    logOverride: { 'empty-import-meta': 'silent' },
  })
  const module = { exports: {} }
  new Function('module', 'require', outputFiles[0].text)(module, createRequire(import.meta.url))
  return module.exports
}

/**
 * Libraries that are imported or evaluated later. A CommonJS one would become a chunk with nothing but a default export;
 * Node gives its names as well, and our code uses them: so they are asked of Node.
 */
function lazyLibraries() {
  return {
    name: 'lazy-libraries',
    setup(builder) {
      builder.onResolve({ filter: /^[^./]/ }, async ({ path, kind, importer, resolveDir, pluginData }) => {
        if ((kind !== 'dynamic-import' && !DEFERRED.includes(path)) || importer.includes('/node_modules/'))
          return undefined
        if (pluginData === 'resolved' || path.startsWith('node:')) return undefined
        const found = await builder.resolve(path, { kind, importer, resolveDir, pluginData: 'resolved' })
        if (found.external || found.errors.length || !found.path.includes('/node_modules/')) return undefined
        return { path: found.path, namespace: 'lazy' }
      })
      builder.onLoad({ filter: /.*/, namespace: 'lazy' }, async ({ path }) => {
        const names = Object.keys(await import(pathToFileURL(path).href))
        const list = names.filter(name => name !== 'default' && name !== 'module.exports')
        const fallback = names.includes('default') ? 'export default all.default\n' : ''
        const contents = `import * as all from ${JSON.stringify(path)}\n${fallback}export const { ${list.join(', ')} } = all\n`
        return { contents, resolveDir: dirname(path) }
      })
    },
  }
}
