/**
 * Module hooks for plugins from outside this package: our names, and those of the libraries that we share, lead to the
 * copies that the process runs on.
 */

import { readFileSync } from 'node:fs'
import module from 'node:module'
import { fileURLToPath } from 'node:url'

let table

/** Begins to hook every import, and every `require`. */
export function hook(urls) {
  // Where Node does not read TypeScript itself, tsx does, by hooks on a thread of their own: ours join them there.
  if (module.registerHooks && process.features.typescript) {
    table = urls
    module.registerHooks({ resolve: resolveSync })
    return
  }
  module.register(import.meta.url, { data: urls })
  // Those hooks do not reach `require`.
  const original = module._resolveFilename
  module._resolveFilename = function (request, ...rest) {
    if (Object.hasOwn(urls.own, request)) return fileURLToPath(urls.own[request])
    refuseDeclaration(request)
    try {
      return notDeclaredFile(urls, original.call(this, request, ...rest), request)
    } catch (error) {
      return fileURLToPath(lent(urls, request, error).url)
    }
  }
}

/** Called on the hooks' thread. */
export function initialize(urls) {
  table = urls
}

export async function resolve(specifier, context, next) {
  if (Object.hasOwn(table.own, specifier)) return ours(table.own[specifier])
  refuseDeclaration(specifier)
  try {
    return notDeclared(await next(specifier, context), specifier)
  } catch (error) {
    return lent(table, specifier, error)
  }
}

function resolveSync(specifier, context, next) {
  if (Object.hasOwn(table.own, specifier)) return ours(table.own[specifier])
  refuseDeclaration(specifier)
  try {
    return asModule(notDeclared(next(specifier, context), specifier))
  } catch (error) {
    return lent(table, specifier, error)
  }
}

/**
 * tsx follows the `paths` of a tsconfig in the folder that the command runs in, and ours lead to declarations, which
 * nobody can run. When there is nothing it asks for the name itself.
 */
function refuseDeclaration(specifier) {
  if (!/\.d\.[cm]?ts(\?|$)/.test(specifier)) return
  throw Object.assign(new Error(`${specifier} is a declaration`), { code: 'MODULE_NOT_FOUND' })
}

/** The same where tsx was registered before us, and has followed them by now. */
function notDeclared(resolved, specifier) {
  if (Object.hasOwn(table.lent, specifier)) refuseDeclaration(resolved.url)
  return resolved
}

function notDeclaredFile(urls, path, request) {
  if (Object.hasOwn(urls.lent, request)) refuseDeclaration(path)
  return path
}

const ours = url => ({ url, format: 'module', shortCircuit: true })

function lent(urls, specifier, error) {
  const missing = error.code === 'ERR_MODULE_NOT_FOUND' || error.code === 'MODULE_NOT_FOUND'
  if (!missing || !Object.hasOwn(urls.lent, specifier)) throw error
  return ours(urls.lent[specifier])
}

/**
 * TypeScript of a folder that names no module system is a module, as Node itself takes it. tsx, which is
 * there for syntax that Node does not strip, would take it for CommonJS and give it copies of our modules.
 */
function asModule(resolved) {
  if (resolved.format || !/^file:.*\.tsx?(\?|$)/.test(resolved.url) || systemOf(resolved.url)) return resolved
  return { ...resolved, format: 'module-typescript' }
}

/** What the nearest manifest says of a file: `module`, `commonjs`, or nothing. */
function systemOf(url) {
  for (let folder = new URL('.', url); ; folder = new URL('..', folder)) {
    try {
      return JSON.parse(readFileSync(new URL('package.json', folder), 'utf8')).type
    } catch (error) {
      // No manifest here, or one that Node will complain of.
      if (error.code !== 'ENOENT' || folder.pathname === new URL('..', folder).pathname) return undefined
    }
  }
}

let required

/**
 * A CommonJS plugin is given modules that are loaded already: Node refuses to `require` one that is on its way, and
 * what compiles CommonJS would make a copy.
 */
export async function readyForRequire(url, doors) {
  if (!url.startsWith('file:') || /\.m[jt]s$/.test(url) || (!/\.c[jt]s$/.test(url) && systemOf(url) === 'module'))
    return
  required ??= Promise.all(doors.map(door => import(door))).then(() => {
    const require = module.createRequire(import.meta.url)
    for (const door of doors) require(fileURLToPath(door))
  })
  await required
}
