/**
 * A thousand rows in a process of their own: `node rows.mjs tree <folder of the build> <tree file>`, or `node rows.mjs
 * bare <tree file>` for the loop that cordis by itself takes to do the same. Prints milliseconds as JSON.
 */

import { readFileSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { pathToFileURL } from 'node:url'

const [who, ...args] = process.argv.slice(2)

async function timed(work) {
  const startedAt = performance.now()
  const before = process.cpuUsage()
  await work()
  const { user, system } = process.cpuUsage(before)
  return { wallMs: performance.now() - startedAt, cpuMs: (user + system) / 1000 }
}

/** Read, mounted, changed in one row, and dropped, by the built loader. */
async function tree(build, file) {
  const { loadTree } = await import(pathToFileURL(join(build, 'lib/loader/index.js')).href)
  let loaded
  const read = await timed(async () => {
    loaded = loadTree({ file }, { write() {} })
  })
  // What the first row from outside costs once in a process, which is no cost of a row.
  await loaded.check()
  const mount = await timed(() => loaded.mount())
  const text = readFileSync(file, 'utf8')
  const before = globalThis.mounts
  writeFileSync(file, text.replace('word: old', 'word: new'))
  const change = await timed(() => loaded.ctx.loader.reload())
  writeFileSync(file, text)
  const touched = globalThis.mounts - before
  const drop = await timed(() => loaded.dispose())
  return { read, mount, change, touched, drop }
}

/** The same plugin as often, with the same configs, on a context of plain cordis. */
async function bare(file) {
  const require = createRequire(new URL('../packages/core/package.json', import.meta.url))
  const { Context } = await import(pathToFileURL(require.resolve('cordis')).href)
  const plugin = await import(pathToFileURL(join(dirname(file), 'row.mjs')).href)
  const ctx = new Context()
  const mount = await timed(async () => {
    const count = readFileSync(file, 'utf8').match(/row\.mjs/g).length
    const fibers = []
    for (let n = 0; n < count; n++) fibers.push(ctx.plugin(plugin, { n, word: 'old' }))
    await Promise.all(fibers)
  })
  const drop = await timed(() => ctx.fiber.dispose())
  return { mount, drop, mounts: globalThis.mounts }
}

console.log(JSON.stringify(who === 'tree' ? await tree(...args) : await bare(...args)))
process.exit(0)
