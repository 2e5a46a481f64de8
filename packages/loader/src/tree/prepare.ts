/** From a row to a plan: resolve, import, find the plugin, validate the config. Nothing is mounted. */

import { deadline, HarnessError, isHarnessError } from '@cambium/core'
import type { Row } from '../file/row.ts'
import { installation } from '../modules/installation.ts'
import {
  describeExports,
  findPlugin,
  type ImportModule,
  importModule,
  type LoadedPlugin,
  readTypeScript,
  trackModules,
  versions,
} from '../modules/module.ts'
import { resolveModule } from '../modules/resolve.ts'
import { importProblem } from '../modules/stack.ts'
import { neededBy } from './guard.ts'
import type { Plan } from './mount.ts'
import { checkConfig } from './schema.ts'
import { realmsOf, type ServiceUse } from './services.ts'

export interface PrepareOptions {
  /** Modules that need no import, by specifier; they go before anything on disk. */
  readonly modules?: Readonly<Record<string, unknown>>
  /** Replaces `import()`, as a hot reload does. */
  readonly import?: ImportModule
  /** Bound of the wait for modules that load, and later for plugins that start, in milliseconds. */
  readonly settleMs?: number
  /** When a row that is still loading or starting is named in the log, in milliseconds: a start is not to hang in silence. */
  readonly noticeMs?: number
  /** False for rows that are only looked at: their modules are not followed for a later reload. */
  readonly reloadable?: boolean
  /** Ends the wait for modules that load. */
  readonly signal?: AbortSignal
}

export const SETTLE_MS = 60_000
export const NOTICE_MS = 5_000

export interface Prepared {
  readonly plan: Plan
  readonly mistakes: readonly HarnessError[]
}

/** Checking the syntax of a file takes a process. */
const MAX_SUSPECTS = 4

/** The plugin that reloads others, as a tree names it. */
const HMR = /^(@cambium|cambium)\/loader\/hmr$/

const TYPESCRIPT = /\.[cm]?tsx?$/

/** Prepares rows together: modules load in parallel, each once. `slow` is told once which of them take long. */
export async function prepareRows(
  rows: readonly Row[],
  options: PrepareOptions,
  slow: (rows: readonly Row[]) => void = () => {},
): Promise<Prepared[]> {
  // Only what is imported from then on can be reloaded.
  const hmr = rows.find(({ name }) => HMR.test(name))
  if (hmr && options.reloadable !== false) await trackModules(hmr.from)
  const typed = rows.find(({ kind, name }) => kind === 'plugin' && TYPESCRIPT.test(name))
  if (typed && !options.import) await readTypeScript(typed.from)
  const loadingRows = new Set<Row>()
  const notice = setTimeout(() => slow([...loadingRows]), options.noticeMs ?? NOTICE_MS)
  const modules = new Map<string, Promise<Loaded>>()
  const bound = loadingBound(options)
  const prepared = Promise.all(
    rows.map(async row => {
      if (row.kind !== 'plugin') return { plan: { row }, mistakes: [] }
      const key = `${row.from}\0${row.name}`
      const loading = modules.get(key) ?? load(row, options, bound)
      if (!modules.has(key)) loadingRows.add(row)
      modules.set(key, loading)
      const loaded = await loading
      loadingRows.delete(row)
      if ('problem' in loaded) return refused(row, [mistake(row, loaded)])
      if (loaded.plugin.Config && !loaded.plugin.Config['~standard']) return refused(row, [mistake(row, noSchema(row))])
      const checked = checkConfig(row, loaded.plugin)
      if ('mistakes' in checked) return refused(row, checked.mistakes)
      return {
        plan: { row, url: loaded.url, loaded: loaded.plugin, config: checked.config, importMs: loaded.ms },
        mistakes: [],
      }
    }),
  )
  try {
    return await prepared
  } finally {
    bound.clear()
    clearTimeout(notice)
  }
}

const refused = (row: Row, mistakes: readonly HarnessError[]): Prepared => ({
  plan: { row, failure: mistakes[0]! },
  mistakes,
})

interface Problem {
  readonly code: string
  readonly problem: string
  readonly fix: string
  /** In the module's own code. */
  readonly place?: string | undefined
  readonly cause?: unknown
}

type Loaded = { readonly url: string; readonly plugin: LoadedPlugin; readonly ms: number } | Problem

async function load(row: Row, options: PrepareOptions, bound: Bound): Promise<Loaded> {
  const { modules } = options
  const begun = performance.now()
  const found = (url: string, exports: unknown) => pluginOf(url, exports, row, performance.now() - begun)
  if (modules && Object.hasOwn(modules, row.name)) return found(row.name, modules[row.name])
  const resolved = await resolveModule(row.name, row.from)
  if ('problem' in resolved) return { code: 'TREE_MODULE_NOT_FOUND', ...resolved }
  try {
    const ours = installation().load?.(resolved.url)
    if (ours) return found(resolved.url, ours)
    await installation().prepare?.(resolved.url)
    const run = options.import ?? (url => importModule(url, row.from))
    return found(resolved.url, await bound.hold(run(resolved.url)))
  } catch (error) {
    return { code: 'TREE_MODULE_FAILED', ...(await explainImport(row, resolved.url, error)), cause: error }
  }
}

type Bound = ReturnType<typeof loadingBound>

/** A module may wait at its top level for what never comes, and nothing else would ever tell. */
function loadingBound({ settleMs = SETTLE_MS, signal }: PrepareOptions) {
  const { signal: over, expired, clear } = deadline(settleMs, signal)
  const reached = new Promise<string>(resolve => {
    const tell = () =>
      resolve(expired() ? `did not finish loading within ${settleMs} ms` : 'was still loading when the tree ended')
    if (over.aborted) tell()
    else over.addEventListener('abort', tell, { once: true })
  })
  return {
    hold<T>(loading: Promise<T>): Promise<T> {
      const late = reached.then(why => {
        throw new HarnessError('TREE_MODULE_FAILED', `it ${why}`, {
          fix: 'let the module load at once, and wait in `apply`',
        })
      })
      return Promise.race([loading, late])
    },
    clear,
  }
}

function pluginOf(url: string, exports: unknown, row: Row, ms: number): Loaded {
  const plugin = findPlugin(exports)
  if (plugin) return { url, plugin, ms }
  return {
    code: 'TREE_PLUGIN_INVALID',
    problem: `${row.name} has no \`apply\`: ${describeExports(exports)}`,
    fix: 'export a function `apply(ctx, config)`, or a plugin as default',
  }
}

const noSchema = (row: Row): Problem => ({
  code: 'TREE_PLUGIN_INVALID',
  problem: `the \`Config\` of ${row.name} is no schema`,
  fix: 'export one that schemastery makes, `Schema.object({ … })`, or none',
})

async function explainImport(row: Row, url: string, error: unknown): Promise<Omit<Problem, 'code'>> {
  const what = `${row.name} cannot be imported`
  if (isHarnessError(error)) return { problem: `${what}: ${error.problem}`, fix: error.fix ?? 'correct the file' }
  const { problem, place, syntax } = await importProblem(error, url, versions.reloading.slice(0, MAX_SUSPECTS))
  return { problem: `${what}: ${problem}`, place, fix: fixOf(error, problem, syntax) }
}

function fixOf(error: unknown, problem: string, syntax: boolean): string {
  const { code } = error as { code?: string }
  // `import` of what is missing, and `require`.
  if (code === 'ERR_MODULE_NOT_FOUND' || code === 'MODULE_NOT_FOUND') return 'install or correct what the file imports'
  if (/does not provide an export named/.test(problem)) return 'correct the name in that import'
  if (code === 'ERR_UNKNOWN_FILE_EXTENSION' && /extension "\.[cm]?tsx?"/.test(problem))
    return 'JavaScript that imports TypeScript is read by this Node only beside a row in TypeScript, or with --watch: name one'
  return syntax
    ? 'correct the syntax of that file, or of one that it imports'
    : 'the file threw while it was loaded: correct it, or something that it imports'
}

function mistake(row: Row, { code, problem, place, fix, cause }: Problem): HarnessError {
  const where = `${row.nameAt} (row ${row.id})${place ? `, ${place}` : ''}`
  return new HarnessError(code, problem, { where, fix, cause })
}

/** What plans need of each other, in the realms that their rows and groups set. */
export function usesOf(plans: readonly Plan[]): ServiceUse[] {
  const realms = realmsOf(plans.map(({ row }) => row))
  return plans.flatMap(({ row, loaded }) => {
    if (!loaded) return []
    const named = realms.get(row.id)!
    const needs = Object.keys(neededBy(loaded.inject, row.inject))
    return { id: row.id, at: row.at, needs: needs.map(named), provides: loaded.provide.map(named) }
  })
}
