/**
 * Runs the package's modules. Those that most starts need lie in one file, whose compiled form is kept in the
 * harness's home: compiling them is a third of the time that a start takes. The others are files that are read when
 * they are asked for. Either way a process has each module once.
 */

'use strict'

const { createHash } = require('node:crypto')
const { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } = require('node:fs')
const { basename, join } = require('node:path')
const { pathToFileURL } = require('node:url')
const vm = require('node:vm')
const { homeFolder } = require('../../packages/store/src/home-folder.ts')

/** Of the sources in the start file, set by the build. */
const START = 'start.cjs'
const BUILD = process.env.RELEASE_BUILD
const STALE_MS = 30 * 24 * 60 * 60 * 1000
const HEADER_BYTES = 24

const code = join(__dirname, 'code')
const url = pathToFileURL(join(code, START)).href
const loaded = new Map()
let start

/** What the module exports; its code runs at the first call. */
function load(id) {
  const known = loaded.get(id)
  if (known) return known.exports
  start ??= compile(START)
  const define = start.modules[id] ?? compile(id.replace(/js$/, 'cjs')).modules[id]
  const module = { exports: {} }
  loaded.set(id, module)
  try {
    define(module, requireFrom, importFrom, url)
  } catch (error) {
    loaded.delete(id)
    throw error
  }
  return module.exports
}

function requireFrom(specifier) {
  if (specifier.startsWith('./')) return load(specifier.slice(2))
  return specifier === 'runtime' ? exports : require(specifier)
}

const importFrom = async specifier => (specifier.startsWith('./') ? load(specifier.slice(2)) : import(specifier))

function compile(file, cachedData) {
  const filename = join(code, file)
  const script = new vm.Script(readFileSync(filename, 'utf8'), { filename, cachedData })
  return { script, modules: script.runInThisContext() }
}

/** Runs a command to its end, and ends the process. */
async function run(command) {
  const cache = process.env.NODE_DISABLE_COMPILE_CACHE ? undefined : new CodeCache(command)
  start = compile(START, cache?.read())
  const code = await load(`command-${command}.js`).main(process.argv.slice(2))
  // Written text reaches a pipe before the process ends, whatever handles a plugin may have left behind.
  await Promise.all([process.stdout, process.stderr].map(stream => new Promise(done => stream.write('', done))))
  if (code === 0) cache?.write(start.script)
  process.exit(code)
}

/** Compiled code of one command, Node and build. A file that cannot be used is as good as none. */
class CodeCache {
  constructor(command) {
    this.folder = join(homeFolder(), 'cache')
    this.prefix = `${command}-`
    this.file = join(this.folder, `${this.prefix}${BUILD}-${process.version}-${process.arch}`)
    /** How many modules the code was used for. */
    this.modules = 0
  }

  read() {
    try {
      const bytes = readFileSync(this.file)
      const data = bytes.subarray(HEADER_BYTES)
      // V8 checks the versions but not the code, and crashes on code that is damaged.
      if (!digest(data).equals(bytes.subarray(4, HEADER_BYTES))) return undefined
      this.modules = bytes.readUInt32LE(0)
      return data
    } catch {
      return undefined
    }
  }

  /** Keeps what this process has compiled, if it has used more than the one that wrote the file. */
  write(script) {
    if (!script.cachedDataRejected && loaded.size <= this.modules) return
    try {
      const data = script.createCachedData()
      const count = Buffer.alloc(4)
      count.writeUInt32LE(loaded.size)
      mkdirSync(this.folder, { recursive: true, mode: 0o700 })
      const fresh = `${this.file}.${process.pid}`
      writeFileSync(fresh, Buffer.concat([count, digest(data), data]), { mode: 0o600 })
      renameSync(fresh, this.file)
      this.prune()
    } catch {
      // No room, or no right to write there: the next start compiles again.
    }
  }

  prune() {
    for (const name of readdirSync(this.folder)) {
      const file = join(this.folder, name)
      const old = name.startsWith(this.prefix) && name !== basename(this.file)
      if (old && Date.now() - statSync(file).mtimeMs > STALE_MS) rmSync(file, { force: true })
    }
  }
}

const digest = data => createHash('sha1').update(data).digest()

exports.load = load
exports.run = run
