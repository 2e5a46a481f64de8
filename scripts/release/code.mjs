/**
 * The files of `lib/` and `bin/`. The chunks become functions for `runtime.cjs`, those that a start of the default tree
 * needs in one file; each public module has an ES module that hands on what its chunk exports.
 */

import { createHash } from 'node:crypto'
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build, transform } from 'esbuild'
import { parse } from 'yaml'
import { COMMANDS, sharedModules, TARGET } from './bundle.mjs'
import { root } from './modules.mjs'

const here = dirname(fileURLToPath(import.meta.url))

/**
 * Besides the rows of the default tree and the commands: what `cambium run` loads by itself, and what its first request
 * does. Modules that are in this file and not used cost next to nothing; one of its own costs a look at the disk, and its
 * code is kept by no cache.
 */
const START = [
  'packages/cli/src/run.ts',
  'packages/cli/src/headless.ts',
  'packages/loader/src/commands/start.ts',
  'packages/llm/src/web/exchange.ts',
  'packages/llm/src/web/listing.ts',
  'packages/llm/src/anthropic/protocol.ts',
  'packages/llm/src/openai/protocol.ts',
  'packages/llm/src/responses/protocol.ts',
]

export async function writeCode(out, modules, chunks) {
  const start = closure(startChunks(modules, chunks), chunks)
  const functions = new Map()
  for (const chunk of chunks.values()) functions.set(chunk.id, await asFunction(chunk))
  mkdirSync(join(out, 'lib/code'), { recursive: true })
  const pack = asScript([...start].map(id => functions.get(id)))
  writeFileSync(join(out, 'lib/code/start.cjs'), pack)
  for (const [id, text] of functions)
    if (!start.has(id)) writeFileSync(join(out, 'lib/code', id.replace(/js$/, 'cjs')), asScript([text]))
  for (const { id, file } of [...modules, ...sharedModules()]) write(join(out, file), facade(file, chunks.get(id)))
  await writeRuntime(out, createHash('sha256').update(pack).digest('hex').slice(0, 12))
  copyFileSync(join(here, 'outside.mjs'), join(out, 'lib/outside.mjs'))
  await writeModuleHook(out)
  for (const name of Object.keys(COMMANDS)) write(join(out, `bin/${name}.cjs`), bin(name), 0o755)
  return start
}

function write(file, text, mode = 0o644) {
  mkdirSync(dirname(file), { recursive: true })
  writeFileSync(file, text, { mode })
}

function startChunks(modules, chunks) {
  const tree = parse(readFileSync(join(root, 'cordis.yml'), 'utf8'), { logLevel: 'error' })
  // What a start may leave out, by itself or by an expression, is no part of it.
  const rows = new Set(tree.filter(({ disabled }) => !disabled).map(({ name }) => name))
  return [
    ...Object.keys(COMMANDS).map(name => `command-${name}.js`),
    ...modules.filter(({ specifier }) => rows.has(specifier)).map(({ id }) => id),
    ...[...chunks.values()].filter(({ source }) => START.includes(source)).map(({ id }) => id),
  ]
}

/** The chunks that are loaded with these. */
function closure(ids, chunks) {
  const all = new Set()
  const add = id => {
    if (all.has(id)) return
    all.add(id)
    for (const next of chunks.get(id).imports) add(next)
  }
  for (const id of ids) add(id)
  return all
}

/** How esbuild writes an `import()` that it is told to do without; nothing else in its output looks so. */
const LOWERED_IMPORT = 'Promise.resolve().then(() => __toESM(require('

/** `"id": function (module, require, importLater, url) { … }` */
async function asFunction({ id, text, exports, deferred }) {
  const { code } = await transform(text, {
    format: 'cjs',
    platform: 'node',
    target: TARGET,
    charset: 'ascii',
    define: { 'import.meta.url': '__url' },
    // A script has no `import()` of its own without flags: the runtime lends one.
    supported: { 'dynamic-import': false },
    logLevel: 'warning',
  })
  const body = code.replaceAll(LOWERED_IMPORT, '__import(((')
  const named = name => `${JSON.stringify(name)}: function (module, require, __import, __url) {`
  if (!deferred) return `${named(id)}\n${body}}`
  return `${named(id)}
for (const name of ${JSON.stringify(exports)}) {
  Object.defineProperty(module.exports, name, { enumerable: true, get: () => require("./used-${id}")[name] });
}},
${named(`used-${id}`)}\n${body}}`
}

const asScript = functions => `({\n${functions.join(',\n')}\n})\n`

function facade(file, { id, exports }) {
  const runtime = relative(dirname(file), 'lib/runtime.cjs')
  const from = runtime.startsWith('.') ? runtime : `./${runtime}`
  if (!exports.length) return 'export {}\n'
  return [
    `import { load } from ${JSON.stringify(from)}`,
    `const module = load(${JSON.stringify(id)})`,
    ...exports.map((name, index) => `const _${index} = module.${name}`),
    `export { ${exports.map((name, index) => `_${index} as ${name}`).join(', ')} }\n`,
  ].join('\n')
}

async function writeRuntime(out, id) {
  await build({
    entryPoints: [join(here, 'runtime.cjs')],
    outfile: join(out, 'lib/runtime.cjs'),
    bundle: true,
    format: 'cjs',
    platform: 'node',
    target: TARGET,
    define: { 'process.env.RELEASE_BUILD': JSON.stringify(id) },
    logLevel: 'warning',
  })
}

/** Node loads it by its address, on a thread of its own: beside the file that is the address of all our modules. */
async function writeModuleHook(out) {
  await build({
    entryPoints: [join(root, 'packages/loader/src/modules/hook.ts')],
    outfile: join(out, 'lib/code/module-hook.mjs'),
    bundle: true,
    format: 'esm',
    platform: 'node',
    target: TARGET,
    logLevel: 'warning',
  })
}

function bin(name) {
  return `#!/usr/bin/env node
'use strict'

const [major, minor] = process.versions.node.split('.').map(Number)
if (major < 20 || (major === 20 && minor < 19)) {
  process.stderr.write(\`${name}: Node \${process.versions.node} is too old; install Node 20.19 or newer\\n\`)
  process.exit(1)
}
require('../lib/runtime.cjs').run('${name}')
`
}
