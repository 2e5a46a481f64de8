/**
 * From a saved file to running code, in a process of its own that watches: what a person waits for after each save. Beside it
 * what the same costs without reloading, which is to start the tree anew; and what a thousand rows cost beside the
 * loop that cordis by itself takes.
 */

import { execFile, spawn } from 'node:child_process'
import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

const here = dirname(fileURLToPath(import.meta.url))
const ROWS = 1_000
const PATIENCE_MS = 20_000

/** A plugin of TypeScript over three files, each imported by the one before; it says when it is live. */
const CHAIN = {
  'plugin.ts': `import type { Context } from '@cambium/core'
import { first } from './first.ts'
export const name = 'chain'
export function apply(ctx: Context, config: { word: string }) {
  ctx.on('chain/ping' as never, () => {})
  ctx.effect(() => () => {}, 'chain')
  console.log(\`live \${first()} \${config.word}\`)
}
`,
  'first.ts': `import { second } from './second.ts'\nexport const first = (): string => second()\n`,
  'second.ts': `import { third } from './third.ts'\nexport const second = (): string => third()\n`,
  'package.json': '{ "type": "module" }',
  'third.ts': third(0),
  'cordis.yml': tree(0),
}

function third(version) {
  return `export const third = (): string => 'v${version}'\n`
}

/** The rows of an agent around it, so that a reload has something to leave alone. */
function tree(word) {
  const rows = ['llm', 'session', 'tools', 'agent', 'agent/loop'].map(name => `- name: '@cambium/${name}'\n`)
  return `${rows.join('')}- { id: chain, name: ./plugin.ts, config: { word: w${word} } }\n- { id: probe, name: ./probe.mjs }\n`
}

export async function measureReload({ built, scratch, runs, reloads, median }) {
  const folder = join(scratch, 'reload')
  mkdirSync(folder)
  for (const [file, text] of Object.entries(CHAIN)) writeFileSync(join(folder, file), text)
  writeFileSync(join(folder, 'probe.mjs'), readFileSync(join(here, 'probe.mjs')))
  const bin = join(built, 'bin/cordis.cjs')
  const restart = []
  for (let run = 0; run < runs; run++) restart.push(await startMs(bin, folder))

  const watched = new Watched(bin, folder)
  await watched.said('live v0 w0')
  const code = []
  const row = []
  for (let version = 1; version <= runs; version++) {
    code.push(await watched.save('third.ts', third(version), `live v${version} w${version - 1}`))
    row.push(await watched.save('cordis.yml', tree(version), `live v${version} w${version}`))
  }
  const leak = reloads ? await measureLeak(watched, runs, reloads) : undefined
  await watched.end()
  return {
    restartMs: median(restart),
    codeMs: median(code),
    rowMs: median(row),
    ...(leak ? { leak } : {}),
    rows: await thousand(built, scratch, runs, median),
  }
}

/** From nothing to the line that says that the plugin is live. */
async function startMs(bin, folder) {
  const startedAt = performance.now()
  const watched = new Watched(bin, folder, [])
  await watched.said('live v0 w0')
  const ms = performance.now() - startedAt
  await watched.end()
  return ms
}

/** What stays after reloads of the same module: the records of its former versions, and nothing that can be counted. */
async function measureLeak(watched, from, reloads) {
  const word = `w${from}`
  const warmUp = Math.min(50, reloads)
  let version = from
  const reload = async count => {
    for (let done = 0; done < count; done++) {
      version++
      await watched.save('third.ts', third(version), `live v${version} ${word}`)
    }
  }
  await reload(warmUp)
  const before = await watched.report()
  await reload(reloads)
  const after = await watched.report()
  const { heapBytes: first, ...held } = before
  const { heapBytes: last, ...heldAfter } = after
  return { reloads, mib: (last - first) / 2 ** 20, held, heldAfter }
}

/** \`cordis start --watch\` in a folder, and the lines that it prints. */
class Watched {
  waiting = new Map()
  lines = new Set()

  constructor(bin, folder, flags = ['--watch']) {
    this.folder = folder
    const args = ['--expose-gc', bin, 'start', 'cordis.yml', '--log-level', 'warn', ...flags]
    const env = { PATH: process.env.PATH, HOME: dirname(folder) }
    this.child = spawn(process.execPath, args, { cwd: folder, env, stdio: ['pipe', 'pipe', 'pipe'] })
    this.errors = ''
    this.child.stderr.on('data', text => {
      this.errors += text
    })
    createInterface({ input: this.child.stdout }).on('line', line => {
      this.lines.add(line)
      for (const [wanted, resolve] of this.waiting) if (line.startsWith(wanted)) resolve(line)
    })
  }

  async said(wanted) {
    const known = [...this.lines].find(line => line.startsWith(wanted))
    if (known) return known
    let timer
    const late = new Promise((_, reject) => {
      timer = setTimeout(
        () => reject(new Error(`"${wanted}" did not come within ${PATIENCE_MS} ms:\n${this.errors}`)),
        PATIENCE_MS,
      )
    })
    try {
      return await Promise.race([new Promise(resolve => this.waiting.set(wanted, resolve)), late])
    } finally {
      clearTimeout(timer)
      this.waiting.delete(wanted)
    }
  }

  /** Saves as editors do, by a new file in place of the old one; resolves with the milliseconds until the line is there. */
  async save(file, text, wanted) {
    const target = join(this.folder, file)
    writeFileSync(`${target}.new`, text)
    const live = this.said(wanted)
    const startedAt = performance.now()
    renameSync(`${target}.new`, target)
    await live
    return performance.now() - startedAt
  }

  /** What the process holds, after a collection. */
  async report() {
    this.asked = (this.asked ?? 0) + 1
    this.child.stdin.write(`${this.asked}\n`)
    const line = await this.said(`held ${this.asked} `)
    return JSON.parse(line.slice(`held ${this.asked} `.length))
  }

  async end() {
    const closed = new Promise(resolve => this.child.once('close', resolve))
    this.child.kill('SIGTERM')
    await closed
  }
}

async function thousand(built, scratch, runs, median) {
  const folder = join(scratch, 'rows')
  mkdirSync(folder)
  writeFileSync(
    join(folder, 'row.mjs'),
    `export const name = 'row'
export function apply(ctx, { n, word }) {
  globalThis.mounts = (globalThis.mounts ?? 0) + 1
  ctx.on('row/ping', () => {})
  ctx.effect(() => () => {}, 'row')
}
`,
  )
  const file = join(folder, 'cordis.yml')
  const rows = Array.from(
    { length: ROWS },
    (_, n) => `- { id: r${n}, name: ./row.mjs, config: { n: ${n}, word: old } }\n`,
  )
  writeFileSync(file, rows.join(''))
  const samples = { tree: [], bare: [] }
  const run = async (...args) => {
    const { stdout } = await promisify(execFile)(process.execPath, [join(here, 'rows.mjs'), ...args])
    return JSON.parse(stdout)
  }
  for (let at = 0; at < runs; at++) {
    samples.tree.push(await run('tree', built, file))
    samples.bare.push(await run('bare', file))
  }
  const of = (who, what, key) => median(samples[who].map(sample => sample[what][key]))
  const both = (who, what) => ({ wallMs: of(who, what, 'wallMs'), cpuMs: of(who, what, 'cpuMs') })
  return {
    tree: {
      read: both('tree', 'read'),
      mount: both('tree', 'mount'),
      drop: both('tree', 'drop'),
      change: both('tree', 'change'),
    },
    bare: { mount: both('bare', 'mount'), drop: both('bare', 'drop') },
    touched: Math.max(...samples.tree.map(({ touched }) => touched)),
  }
}

export function printReload({ restartMs, codeMs, rowMs, leak, rows }, row) {
  const ms = value => `${value.toFixed(0)} ms`
  const times = (value, other) => `${(value / other).toFixed(2)} ×`
  console.log()
  row('', 'reload', 'start anew', 'ratio', 'meant to be')
  row('save to live', '', '', '')
  row('  three files deep', ms(codeMs), ms(restartMs), times(codeMs, restartMs), '≤ 400 ms')
  row('  one row of the YAML', ms(rowMs), ms(restartMs), times(rowMs, restartMs))
  console.log()
  row('', 'tree', 'bare cordis', 'ratio', 'meant to be')
  for (const [what, title] of [
    ['mount', `${ROWS} rows mounted`],
    ['drop', `${ROWS} rows dropped`],
  ]) {
    const { wallMs, cpuMs } = rows.tree[what]
    const bare = rows.bare[what]
    row(title, ms(wallMs), ms(bare.wallMs), times(wallMs, bare.wallMs), '≤ 1500 ms')
    row('  processor time', ms(cpuMs), ms(bare.cpuMs), times(cpuMs, bare.cpuMs))
  }
  row(`${ROWS} rows read`, ms(rows.tree.read.wallMs))
  row('one row of them changed', ms(rows.tree.change.wallMs), '', '', `${rows.touched} mounted anew`)
  if (!leak) return
  console.log()
  const per500 = (leak.mib / leak.reloads) * 500
  row('memory of 500 reloads', `${per500.toFixed(1)} MiB`, '', '', `of ${leak.reloads} measured`)
  for (const [what, number] of Object.entries(leak.held)) row(`  ${what}`, `${number}`, `${leak.heldAfter[what]}`)
}
