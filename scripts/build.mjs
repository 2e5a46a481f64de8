/**
 * Makes the released form, one package: `node scripts/build.mjs [--out folder] [--no-types] [--pack] [--sources file]`.
 *
 * The default folder is `dist/`; `--pack` also makes the tarball in it and prints its path; `--sources` writes
 * which files a start reads, and which the package is made of.
 */

import { execFileSync } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { parseArgs } from 'node:util'
import { bundle } from './release/bundle.mjs'
import { writeCode } from './release/code.mjs'
import { manifest } from './release/manifest.mjs'
import { EXTERNAL, installedFolder, publicModules, root } from './release/modules.mjs'
import { notices } from './release/notices.mjs'
import { emitTypes } from './release/types.mjs'

/**
 * Builds into `out`, which is replaced when all has gone well. Resolves with the sources that a start of the default
 * tree reads, and those of the whole package.
 */
export async function buildRelease({ out, types = true }) {
  const modules = publicModules()
  const fresh = `${out}.${process.pid}.new`
  rmSync(fresh, { recursive: true, force: true })
  mkdirSync(fresh, { recursive: true })
  try {
    const [sources] = await Promise.all([code(fresh, modules), types && emitTypes(fresh, modules)])
    cpSync(join(root, 'cordis.yml'), join(fresh, 'cordis.yml'))
    cpSync(join(root, 'packages/loader/templates'), join(fresh, 'templates'), { recursive: true })
    for (const file of ['README.md', 'LICENSE']) {
      if (existsSync(join(root, file))) cpSync(join(root, file), join(fresh, file))
    }
    writeFileSync(join(fresh, 'NOTICES.txt'), notices(sources.all))
    writeFileSync(join(fresh, 'package.json'), `${JSON.stringify(manifest(modules, { types }), null, 2)}\n`)
    linkExternals(fresh)
    rmSync(out, { recursive: true, force: true })
    renameSync(fresh, out)
    return sources
  } finally {
    rmSync(fresh, { recursive: true, force: true })
  }
}

/** So that the build runs where it stands; a tarball never has them. */
function linkExternals(out) {
  for (const name of EXTERNAL) {
    const link = join(out, 'node_modules', name)
    mkdirSync(dirname(link), { recursive: true })
    symlinkSync(installedFolder(name), link, 'junction')
  }
}

async function code(out, modules) {
  const chunks = await bundle(modules)
  const start = await writeCode(out, modules, chunks)
  const sourcesOf = ids => [...new Set([...ids].flatMap(id => chunks.get(id).sources))].sort()
  return { start: sourcesOf(start), all: sourcesOf(chunks.keys()) }
}

/** The tarball of a build, as `npm publish` would send it: its path. */
export function pack(folder) {
  const text = execFileSync('npm', ['pack', '--json', '--ignore-scripts'], { cwd: folder, encoding: 'utf8' })
  return join(folder, JSON.parse(text)[0].filename)
}

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) {
  const { values } = parseArgs({
    options: {
      out: { type: 'string', default: join(root, 'dist') },
      types: { type: 'boolean', default: true },
      pack: { type: 'boolean', default: false },
      sources: { type: 'string' },
    },
    allowNegative: true,
  })
  const out = resolve(values.out)
  const sources = await buildRelease({ out, types: values.types })
  if (values.sources) writeFileSync(values.sources, JSON.stringify(sources, null, 2))
  console.log(values.pack ? pack(out) : out)
}
