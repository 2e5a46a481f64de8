/**
 * The code of the released package: every public module and both commands are entries over shared chunks, so that a
 * process has one copy of each module and reads few files.
 */

import { copyFileSync, mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'
import { EXTERNAL, installedFolder, LENT, root, SHARED, sharedFile } from './modules.mjs'

const here = dirname(fileURLToPath(import.meta.url))

/** Of the oldest Node that the manifest allows. */
const TARGET = 'node20.19'

/** CommonJS libraries ask for Node's own modules by `require`, which a module does not have. */
const REQUIRE =
  "import { createRequire as createRequireOf } from 'node:module'\nconst require = createRequireOf(import.meta.url)\n"

/** Who imports it, a command or an app, has the installation along with it. */
const LOADER = '@cambium/loader'

const COMMANDS = {
  cambium: join(root, 'packages/cli/src/main.ts'),
  cordis: join(root, 'packages/loader/src/command.ts'),
}

/** Writes the bundle below `out`; resolves with esbuild's account of it. */
export async function bundle(out, modules) {
  const shared = [...Object.keys(SHARED), ...LENT]
  const result = await build({
    absWorkingDir: root,
    entryPoints: [
      ...modules.map(({ specifier, source, file }) => ({
        in: specifier === LOADER ? 'release:loader' : source,
        out: file.replace(/\.js$/, ''),
      })),
      ...shared.map(name => ({ in: `release:share/${name}`, out: `lib/${sharedFile(name)}` })),
      ...Object.keys(COMMANDS).map(name => ({ in: `release:command/${name}`, out: `lib/command/${name}` })),
    ],
    outdir: out,
    chunkNames: 'lib/chunks/[name]-[hash]',
    bundle: true,
    splitting: true,
    format: 'esm',
    platform: 'node',
    target: TARGET,
    external: EXTERNAL.flatMap(name => [name, `${name}/*`]),
    charset: 'utf8',
    legalComments: 'none',
    metafile: true,
    write: false,
    logLevel: 'warning',
    plugins: [generated(modules)],
  })
  for (const { path, text } of result.outputFiles) {
    mkdirSync(dirname(path), { recursive: true })
    writeFileSync(path, text.includes('typeof require !== "undefined"') ? REQUIRE + text : text)
  }
  copyFileSync(join(here, 'outside.mjs'), join(out, 'lib/outside.mjs'))
  mkdirSync(join(out, 'bin'))
  for (const name of Object.keys(COMMANDS)) writeFileSync(join(out, 'bin', `${name}.js`), bin(name), { mode: 0o755 })
  return result.metafile
}

/** Modules that exist in the released form only. */
function generated(modules) {
  const table = { own: {}, lent: {}, doors: ['cordis'] }
  for (const { specifier, path, file } of modules) {
    table.own[specifier] = file
    table.own[path.replace('.', 'cambium')] = file
    if (/^@[^/]+\/[^/]+$/.test(specifier)) table.doors.push(specifier)
  }
  for (const [name, aliases] of Object.entries(SHARED)) {
    for (const alias of aliases) table.own[alias] = `lib/${sharedFile(name)}.js`
  }
  for (const name of LENT) table.lent[name] = `lib/${sharedFile(name)}.js`

  const share = name => {
    const isDefault = name !== 'cordis'
    return `export * from '${name}'\n${isDefault ? `export { default } from '${name}'\n` : ''}`
  }
  const installation = `import '${join(here, 'installation.js')}'\n`
  const command = name => `${installation}import { main } from '${COMMANDS[name]}'
import { finish } from '${join(here, 'finish.js')}'\nawait finish(await main(process.argv.slice(2)))\n`
  const loader = `${installation}export * from '${modules.find(({ specifier }) => specifier === LOADER).source}'\n`

  return {
    name: 'release',
    setup(builder) {
      builder.onResolve({ filter: /^release:/ }, ({ path }) => ({ path, namespace: 'release' }))
      builder.onLoad({ filter: /.*/, namespace: 'release' }, ({ path }) => {
        const [, kind, name] = /^release:(\w+)\/?(.*)$/.exec(path)
        if (kind === 'table') return { contents: JSON.stringify(table), loader: 'json' }
        if (kind === 'command') return { contents: command(name), resolveDir: root }
        if (kind === 'loader') return { contents: loader, resolveDir: root }
        return { contents: share(name), resolveDir: dirname(installedFolder(name)) }
      })
    },
  }
}

/** As little as can be, so that the compile cache holds all the rest. */
function bin(name) {
  return `#!/usr/bin/env node
import module from 'node:module'

const [major, minor] = process.versions.node.split('.').map(Number)
if (major < 20 || (major === 20 && minor < 19)) {
  process.stderr.write(\`${name}: Node \${process.versions.node} is too old; install Node 20.19 or newer\\n\`)
  process.exit(1)
}
module.enableCompileCache?.()
await import('../lib/command/${name}.js')
`
}
