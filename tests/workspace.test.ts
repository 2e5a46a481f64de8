/** What holds between the packages: who may import whom, and that no list has a gap. */

import { existsSync, readdirSync, readFileSync, realpathSync } from 'node:fs'
import { builtinModules } from 'node:module'
import { dirname, join, relative, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'

const ROOT = fileURLToPath(new URL('..', import.meta.url))

/** The floors of the house: a package depends on its own floor and on those below. */
const FLOORS: Record<string, number> = {
  core: 0,
  loader: 1,
  store: 1,
  machine: 1,
  llm: 2,
  session: 3,
  tools: 3,
  agent: 4,
  permission: 5,
  hooks: 5,
  toolbox: 5,
  knowledge: 5,
  tasks: 5,
  subagent: 5,
  mcp: 5,
  workflow: 6,
  protocols: 6,
  observe: 6,
  host: 6,
  web: 6,
  cli: 7,
}

/** For tests alone: above every floor, and nobody's dependency. */
const TESTKIT = 'testkit'

interface Manifest {
  name: string
  exports?: Record<string, string>
  scripts?: Record<string, string>
  dependencies?: Record<string, string>
  devDependencies?: Record<string, string>
}

interface Package {
  /** Folder and short name: `tools`. */
  readonly room: string
  readonly manifest: Manifest
  readonly dependencies: readonly string[]
  /** What is released: sources and programs. */
  readonly files: readonly string[]
}

interface Import {
  readonly file: string
  readonly line: number
  readonly specifier: string
}

const readJson = (path: string) => JSON.parse(readFileSync(join(ROOT, path), 'utf8')) as Manifest
const root = readJson('package.json')
const packages = readdirSync(join(ROOT, 'packages')).map(loadPackage)
const byName = new Map(packages.map(found => [found.manifest.name, found]))

function loadPackage(room: string): Package {
  const manifest = readJson(`packages/${room}/package.json`)
  const files = ['src', 'bin'].flatMap(folder => sources(`packages/${room}/${folder}`))
  return { room, manifest, dependencies: Object.keys(manifest.dependencies ?? {}), files }
}

function sources(folder: string): string[] {
  if (!existsSync(join(ROOT, folder))) return []
  return readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' })
    .filter(file => /\.[cm]?[jt]sx?$/.test(file) && !/(^|[\\/])(fixtures|node_modules)[\\/]/.test(file))
    .map(file => join(folder, file))
}

const FORMS = [
  /^\s*(?:import|export)\b[^'"`;]*?\bfrom\s*(['"])([^'"\n]+)\1/gm,
  /^\s*import\s*(['"])([^'"\n]+)\1/gm,
  /\bimport\(\s*(['"])([^'"\n]+)\1/g,
  /^\s*declare module\s*(['"])([^'"\n]+)\1/gm,
]

function importsOf(file: string): Import[] {
  const text = readFileSync(join(ROOT, file), 'utf8')
  return FORMS.flatMap(form =>
    [...text.matchAll(form)].map(match => {
      const line = text.slice(0, match.index + match[0].lastIndexOf(match[2]!)).split('\n').length
      return { file, line, specifier: match[2]! }
    }),
  )
}

const isRelative = (specifier: string) => /^\.{1,2}(\/|$)/.test(specifier)
/** `@scope/name/path` → `@scope/name`. */
const packageOf = (specifier: string) => /^(@[^/]+\/)?[^/]+/.exec(specifier)![0]

/** The file that a specifier of this workspace leads to, from the root. */
function targetOf({ file, specifier }: Import): string | undefined {
  if (isRelative(specifier)) return relative(ROOT, resolve(ROOT, dirname(file), specifier))
  const found = byName.get(packageOf(specifier))
  const path = found?.manifest.exports?.[`.${specifier.slice(packageOf(specifier).length)}`]
  return found && path && join('packages', found.room, path)
}

function adviceFor(importer: Package, name: string): string {
  const target = byName.get(name)
  const manifest = `packages/${importer.room}/package.json`
  if (!target) return `add "${name}": "catalog:" to the dependencies in ${manifest}`
  if (target.room === TESTKIT) return `move what needs it to packages/${importer.room}/tests`
  if (floorOf(target.room) <= floorOf(importer.room))
    return `add "${name}": "workspace:*" to the dependencies in ${manifest}`
  return `move the code that needs it up to packages/${target.room}, or declare an event or a service here that ${target.room} fills`
}

function floorOf(room: string): number {
  return room === TESTKIT ? Number.POSITIVE_INFINITY : (FLOORS[room] ?? Number.NaN)
}

describe('imports', () => {
  it('of what is released are declared where they are used', () => {
    const missing = packages.flatMap(importer =>
      importer.files.flatMap(importsOf).flatMap(({ file, line, specifier }) => {
        const name = packageOf(specifier)
        if (isRelative(specifier) || specifier.startsWith('node:') || name === importer.manifest.name) return []
        if (builtinModules.includes(specifier)) return [`${file}:${line} imports ${specifier}: write node:${specifier}`]
        if (importer.dependencies.includes(name)) return []
        return [`${file}:${line} imports ${name}, which its package does not declare: ${adviceFor(importer, name)}`]
      }),
    )
    expect(missing).toEqual([])
  })

  it('of tests are declared by their package, for development at least, or by the root', () => {
    const missing = packages.flatMap(({ room, manifest, dependencies }) => {
      const known = [manifest, root].flatMap(({ devDependencies }) => Object.keys(devDependencies ?? {}))
      return sources(`packages/${room}/tests`)
        .flatMap(importsOf)
        .flatMap(({ file, line, specifier }) => {
          const name = packageOf(specifier)
          if (isRelative(specifier) || /^node:|^cordis$/.test(specifier) || name === manifest.name) return []
          if (dependencies.includes(name) || known.includes(name)) return []
          return [`${file}:${line} imports ${name}: add it to the devDependencies in packages/${room}/package.json`]
        })
    })
    expect(missing).toEqual([])
  })

  it('stay inside their package unless they go by its name', () => {
    const leaving = packages.flatMap(({ room, files }) =>
      files.flatMap(importsOf).flatMap(found => {
        const target = targetOf(found)
        if (!isRelative(found.specifier) || target?.startsWith(join('packages', room, '/'))) return []
        return [`${found.file}:${found.line} imports ${found.specifier}: import the package that owns it by name`]
      }),
    )
    expect(leaving).toEqual([])
  })

  it('lead to files and export paths that exist', () => {
    const lost = packages.flatMap(({ files }) =>
      files.flatMap(importsOf).flatMap(found => {
        if (!isRelative(found.specifier) && !byName.has(packageOf(found.specifier))) return []
        const target = targetOf(found)
        if (target && existsSync(join(ROOT, target))) return []
        return [`${found.file}:${found.line} imports ${found.specifier}, which is not there`]
      }),
    )
    expect(lost).toEqual([])
  })
})

describe('dependencies', () => {
  it('are all used', () => {
    const unused = packages.flatMap(({ room, dependencies, files }) => {
      // The tree that the command ships names plugins by their packages.
      const shipped = room === 'cli' ? ['cordis.yml'] : []
      const text = [...files, ...shipped].map(file => readFileSync(join(ROOT, file), 'utf8')).join('\n')
      // Also a name that is resolved and not imported, as of a program that is run.
      const isUsed = (name: string) => new RegExp(`(['"\`])${name.replaceAll('.', '\\.')}(/[^'"\`]*)?\\1`).test(text)
      return dependencies
        .filter(name => !isUsed(name))
        .map(name => `packages/${room}/package.json depends on ${name} and nothing there uses it: remove it`)
    })
    expect(unused).toEqual([])
  })

  it('have their version in the catalog or are of this workspace', () => {
    const odd = [root, ...packages.map(({ manifest }) => manifest)].flatMap(({ name, dependencies, devDependencies }) =>
      Object.entries({ ...dependencies, ...devDependencies }).flatMap(([wanted, version]) => {
        const right = byName.has(wanted) ? 'workspace:*' : 'catalog:'
        return version === right ? [] : [`${name} wants ${wanted} as "${version}": write "${right}"`]
      }),
    )
    expect(odd).toEqual([])
  })

  it('do not go round in a circle', () => {
    const done = new Set<string>()
    const circles: string[] = []
    const walk = (name: string, path: readonly string[]) => {
      if (path.includes(name)) {
        const circle = [...path.slice(path.indexOf(name)), name].join(' → ')
        circles.push(`${circle}: move what two of them share to the lowest, or let it ask by an event`)
      } else if (!done.has(name)) {
        for (const next of byName.get(name)?.dependencies ?? []) walk(next, [...path, name])
        done.add(name)
      }
    }
    for (const name of byName.keys()) walk(name, [])
    expect(circles).toEqual([])
  })

  it('never go up a floor', () => {
    const homeless = packages
      .filter(({ room }) => Number.isNaN(floorOf(room)))
      .map(({ room }) => `packages/${room} has no floor in this test`)
    const rising = packages.flatMap(importer =>
      importer.dependencies.flatMap(name => {
        const target = byName.get(name)
        if (!target || floorOf(target.room) <= floorOf(importer.room)) return []
        const floors = `${importer.room} (floor ${floorOf(importer.room)}) depends on ${target.room} (floor ${floorOf(target.room)})`
        return [`${floors}: ${adviceFor(importer, name)}`]
      }),
    )
    expect([...homeless, ...rising]).toEqual([])
  })
})

describe('the root', () => {
  it('leaves the kernel to core, whose program would take the name of ours', () => {
    const direct = Object.keys({ ...root.dependencies, ...root.devDependencies })
    expect(direct.filter(name => /(^|\/)cordis$/.test(name))).toEqual([])
  })

  it.each([
    ['cordis', 'packages/loader/bin/cordis.js'],
    ['cambium', 'packages/cli/bin/cambium.js'],
  ])('installs %s as %s', (program, file) => {
    const installed = join(ROOT, 'node_modules', '.bin', program)
    const text = readFileSync(installed, 'utf8')
    // A package manager makes a script that names the file, or a link to it.
    const named = /"\$basedir\/([^"]+\.js)"/.exec(text)?.[1]
    expect(realpathSync(named ? join(dirname(installed), named) : installed)).toBe(join(realpathSync(ROOT), file))
  })

  it('has each package at hand, so that every row of a tree resolves', () => {
    const direct = Object.keys(root.devDependencies ?? {})
    expect(direct.filter(name => byName.has(name))).toEqual([...byName.keys()].sort())
  })
})

describe('plugins', () => {
  it('have names that nobody else in the workspace has', () => {
    const owners = new Map<string, string[]>()
    for (const file of packages.flatMap(({ files }) => files)) {
      const text = readFileSync(join(ROOT, file), 'utf8')
      const name = /^export const name = (['"])([^'"]+)\1/m.exec(text)?.[2]
      if (name && /^export (async )?function\*? apply\b|^export const apply\b/m.test(text)) {
        owners.set(name, [...(owners.get(name) ?? []), file])
      }
    }
    expect(owners.size).toBeGreaterThan(5)
    const shared = [...owners].filter(([, files]) => files.length > 1)
    expect(shared.map(([name, files]) => `"${name}" is the name of ${files.join(' and ')}: rename one`)).toEqual([])
  })

  it('and all export paths are files', () => {
    const lost = packages.flatMap(({ room, manifest }) =>
      Object.entries(manifest.exports ?? {}).flatMap(([path, file]) =>
        existsSync(join(ROOT, 'packages', room, file))
          ? []
          : [`${manifest.name} exports ${path} as ${file}, which is not there`],
      ),
    )
    expect(lost).toEqual([])
  })
})

describe('examples', () => {
  const names = readdirSync(join(ROOT, 'examples'), { withFileTypes: true })
    .filter(entry => entry.isDirectory())
    .map(entry => entry.name)

  it('each have a tree, a page and a test', () => {
    const lacking = names.flatMap(name =>
      ['cordis.yml', 'README.md', 'run.test.ts']
        .map(file => `examples/${name}/${file}`)
        .filter(file => !existsSync(join(ROOT, file))),
    )
    expect(lacking).toEqual([])
  })

  it('each have a script demo:<name> that starts them, and no such script is without its example', () => {
    const scripts = Object.entries(root.scripts ?? {}).filter(([script]) => script.startsWith('demo:'))
    expect(scripts.map(([script]) => script.slice(5)).sort()).toEqual([...names].sort())
    const astray = scripts.filter(([script, line]) => !line.includes(`examples/${script.slice(5)}/`))
    expect(astray).toEqual([])
  })
})

describe('docs/where-to-change.md', () => {
  const page = join(ROOT, 'docs/where-to-change.md')
  const rows = existsSync(page)
    ? [...readFileSync(page, 'utf8').matchAll(/\|\s*`([^`|]+)`\s*\|\s*$/gm)].map(match => match[1]!)
    : []
  const loop = reachable('packages/agent/src/loop.ts')

  it('names files that exist', ctx => {
    if (!rows.length) return ctx.skip('there is no such page yet')
    expect(rows.filter(file => !existsSync(join(ROOT, file)))).toEqual([])
  })

  it('names nothing that the loop imports, the files of the loop aside', ctx => {
    if (!rows.length) return ctx.skip('there is no such page yet')
    expect(loop.size).toBeGreaterThan(1)
    const imported = [...loop].flatMap(importsOf).flatMap(found => {
      const target = targetOf(found)
      if (!target || loop.has(target) || !rows.includes(target)) return []
      return [`${found.file}:${found.line} imports ${target}: let the feature listen to the loop instead`]
    })
    expect(imported).toEqual([])
  })
})

/** A file and all that it imports within its package, directly or not. */
function reachable(entry: string, seen = new Set<string>()): Set<string> {
  if (seen.has(entry) || !existsSync(join(ROOT, entry))) return seen
  seen.add(entry)
  for (const found of importsOf(entry)) {
    const target = isRelative(found.specifier) ? targetOf(found) : undefined
    if (target) reachable(target, seen)
  }
  return seen
}
