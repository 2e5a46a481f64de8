/**
 * Measures the released form beside a bare Node script that makes the same exchange: `npm run bench -- [--runs 7] [--only trivial] [--json]`,
 * and what a change of a running tree costs (`--only reload`).
 *
 * Both run in turns, so that whatever else the machine does falls on both; every figure is a median.
 */

import { execFile, fork, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { cpus, loadavg, tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs, promisify } from 'node:util'
import { measureReload, printReload } from './reload.mjs'

const here = dirname(fileURLToPath(import.meta.url))
const { values } = parseArgs({
  options: {
    runs: { type: 'string', default: '7' },
    only: { type: 'string', multiple: true },
    json: { type: 'boolean', default: false },
    reloads: { type: 'string', default: '500' },
  },
})
const runs = Number(values.runs)

const scratch = mkdtempSync(join(tmpdir(), 'cambium-bench-'))
const folder = join(scratch, 'work')
const home = join(scratch, 'home')
for (const path of [folder, home]) mkdirSync(path)

const SCENARIOS = {
  trivial: { model: 'say', title: 'one request, one answer', target: '≤ 0.23 s, ≤ 80 MiB, ≤ 2.2 ×' },
  step: { model: 'steps-1', title: 'one step of a tool' },
  steps: {
    model: 'steps-200',
    flags: ['--max-steps', '1000'],
    title: '200 steps of a tool',
    target: '≤ 1.9 s, ≤ 20 MiB more than one step',
  },
  chunks: { model: 'chunks-20000', title: '20,000 chunks of text', target: '≤ 0.5 s' },
}

const names = [...Object.keys(SCENARIOS), 'reload']
const wanted = names.filter(name => !values.only || values.only.includes(name))
if (!wanted.length) throw new Error(`--only takes ${names.join(', ')}`)

const median = list => [...list].sort((a, b) => a - b)[Math.floor(list.length / 2)]

async function build() {
  const out = join(scratch, 'dist')
  await promisify(execFile)(process.execPath, [join(here, '../scripts/build.mjs'), '--out', out, '--no-types'])
  return out
}

async function startModel() {
  const child = fork(join(here, 'model-server.ts'), { execArgv: ['--import', 'tsx'] })
  const [{ url }] = await once(child, 'message')
  return {
    url,
    /** The requests since the last call. */
    async notes() {
      child.send({})
      const [{ notes }] = await once(child, 'message')
      return notes
    },
    stop: () => child.disconnect(),
  }
}

/** Runs Node once: wall and processor time, peak memory, and the gaps between an answer and the next request. */
async function measure(model, args) {
  const usage = join(scratch, 'usage.json')
  const env = {
    PATH: process.env.PATH,
    HOME: home,
    OPENAI_BASE_URL: model.url,
    OPENAI_API_KEY: 'x',
    NODE_OPTIONS: `--require ${join(here, 'usage.cjs')}`,
    BENCH_USAGE: usage,
  }
  const startedAt = performance.now()
  const child = spawn(process.execPath, args, { cwd: folder, env, stdio: ['ignore', 'pipe', 'inherit'] })
  child.stdout.resume()
  const [code] = await once(child, 'exit')
  const wallMs = performance.now() - startedAt
  if (code !== 0) throw new Error(`${args.join(' ')} ended with ${code}`)
  const notes = await model.notes()
  const gaps = notes.slice(1).map(({ arrived }, index) => arrived - notes[index].answered)
  return { wallMs, ...JSON.parse(readFileSync(usage, 'utf8')), gapMs: median(gaps), request: notes[0]?.text }
}

function summarise(samples) {
  const of = key => median(samples.map(sample => sample[key]))
  return { wallMs: of('wallMs'), cpuMs: of('cpuMs'), peakMiB: of('peakKiB') / 1024, gapMs: of('gapMs') }
}

async function compare(model, bin, { model: name, flags = [] }) {
  const ours = () => measure(model, [bin, 'run', '--model', `openai/${name}`, ...flags, 'go'])
  // The first of them is not counted: it leaves compiled code behind, and shows what the request is.
  const first = await ours()
  const file = join(scratch, `${name}.json`)
  writeFileSync(file, first.request)
  const samples = { cambium: [], bare: [] }
  for (let run = 0; run < runs; run++) {
    samples.cambium.push(await ours())
    samples.bare.push(await measure(model, [join(here, 'bare.mjs'), model.url, file]))
  }
  return { cambium: summarise(samples.cambium), bare: summarise(samples.bare), firstMs: first.wallMs }
}

async function exchanges(built) {
  const chosen = wanted.filter(name => SCENARIOS[name])
  const results = {}
  if (!chosen.length) return results
  const model = await startModel()
  try {
    for (const name of chosen) results[name] = await compare(model, join(built, 'bin/cambium.cjs'), SCENARIOS[name])
  } finally {
    model.stop()
  }
  return results
}

async function main() {
  const built = await build()
  const results = await exchanges(built)
  const reload = wanted.includes('reload')
    ? await measureReload({ built, scratch, runs, reloads: Number(values.reloads), median })
    : undefined
  const machine = { node: process.version, cores: cpus().length, load: loadavg()[0] }
  const { step, steps } = results
  const growthMiB = who => steps[who].peakMiB - step[who].peakMiB
  const growth = step && steps && { cambium: growthMiB('cambium'), bare: growthMiB('bare') }
  if (values.json) console.log(JSON.stringify({ machine, runs, results, growthMiB: growth, reload }, null, 2))
  else print(machine, results, growth, reload)
}

function row(...cells) {
  const widths = [26, 10, 10, 8]
  console.log(cells.map((cell, index) => (index ? cell.padStart(widths[index] ?? 0) : cell.padEnd(26))).join('  '))
}

function print({ node, cores, load }, results, growth, reload) {
  const line = (title, key, unit, digits, { cambium, bare }, target = '') => {
    const show = ({ [key]: value }) => `${(unit === 's' ? value / 1000 : value).toFixed(digits)} ${unit}`
    row(title, show(cambium), show(bare), `${(cambium[key] / bare[key]).toFixed(2)} ×`, target)
  }
  console.log(`Node ${node}, ${cores} cores, load ${load.toFixed(1)}, medians of ${runs} runs\n`)
  if (Object.keys(results).length) row('', 'cambium', 'bare', 'ratio', 'meant to be')
  for (const [name, result] of Object.entries(results)) {
    const { title, target } = SCENARIOS[name]
    line(title, 'wallMs', 's', 3, result, target)
    line('  processor time', 'cpuMs', 's', 3, result)
    line('  peak memory', 'peakMiB', 'MiB', 1, result)
    if (name === 'trivial') row('  first start ever', `${(result.firstMs / 1000).toFixed(3)} s`)
    if (name !== 'steps') continue
    line('  answer to next request', 'gapMs', 'ms', 1, result, '≤ 8 ms')
    if (growth) row('  growth', `${growth.cambium.toFixed(1)} MiB`, `${growth.bare.toFixed(1)} MiB`)
  }
  if (reload) printReload(reload, row)
}

try {
  await main()
} finally {
  rmSync(scratch, { recursive: true, force: true })
}
