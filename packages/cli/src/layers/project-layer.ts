/** Whether the layer of a project may be applied: only as it was when its user trusted it. */

import { readFileSync, realpathSync, statSync } from 'node:fs'
import { type HarnessError, isHarnessError } from '@cambium/core'
import { readTree, type TreeSource } from '@cambium/loader'
import { homeFolder } from '@cambium/store'
import { TrustStore } from '@cambium/store/trust'
import type { LayerFile, LayerOptions } from './layer.ts'
import { type ProjectRequest, readProject } from './project-content.ts'

export interface JudgeRequest extends Omit<ProjectRequest, 'layer' | 'tried'> {
  readonly file: string
  readonly env: LayerOptions['env']
}

export interface Judged {
  readonly found: LayerFile
  /** The layer, if it may be applied: the very text that was looked at. */
  readonly source?: TreeSource
  /** It is as it was trusted and cannot be laid over the tree. To go on without it could be to go on without a guard. */
  readonly failure?: HarnessError
}

/** Nobody writes a layer of that size by hand. */
const MAX_BYTES = 2 ** 20

/** Nothing that the project holds is evaluated or run, and before its layer is known to be trusted nothing is read. */
export async function judgeProject({ file, env, ...request }: JudgeRequest): Promise<Judged> {
  const judged = (state: LayerFile['state'], problem?: string): Judged => ({
    found: { layer: 'project', file, state, ...(problem ? { problem } : {}) },
  })
  const states = { unknown: 'not trusted', changed: 'changed since it was trusted' } as const
  try {
    const stats = statSync(file)
    if (!stats.isFile()) return judged('unusable', 'it is no file')
    if (stats.size > MAX_BYTES) return judged('unusable', 'it is larger than 1 MiB')
    const store = new TrustStore(homeFolder(env))
    const folder = realpathSync(request.folder)
    const check = (files: readonly string[]) => store.check(folder, files.map(realPath))
    // What is judged is what is applied, also when the file changes meanwhile.
    const content = readFileSync(file)
    const first = store.check(folder, [{ path: realPath(file), content }])
    if (first !== 'trusted') return judged(states[first])
    const layer = { file, text: content.toString('utf8'), layer: 'project' }
    const tried = new Set<string>()
    try {
      const { files } = await readProject({ ...request, layer, tried })
      const state = check(files.map(({ real }) => real).filter(real => real !== realPath(file)))
      return state === 'trusted' ? { ...judged('applied'), source: layer } : judged(states[state])
    } catch (error) {
      if (!isHarnessError(error)) throw error
      const others = triedWithout(request)
      // The others' mistakes are told when the tree is read.
      if (!others) return judged('unusable', 'the layers around it have mistakes')
      const state = check([file, ...[...tried].filter(name => !others.has(name))])
      return state === 'trusted' ? { ...judged('unusable', error.problem), failure: error } : judged(states[state])
    }
  } catch (error) {
    if (isHarnessError(error)) return judged('unusable', `${error.problem}${error.where ? ` (${error.where})` : ''}`)
    if ((error as NodeJS.ErrnoException).code) return judged('unusable', (error as Error).message)
    throw error
  }
}

function triedWithout({ tree, below, above = [], set = [] }: Omit<ProjectRequest, 'layer'>): Set<string> | undefined {
  const tried = new Set<string>()
  try {
    readTree(tree, { patches: [...below, ...above], set, tried, inspect: true, unmatched: 'report' })
    return tried
  } catch (error) {
    if (isHarnessError(error)) return undefined
    throw error
  }
}

/** A link is known by what it leads to: leading it elsewhere is a change. */
function realPath(file: string): string {
  try {
    return realpathSync(file)
  } catch {
    // It is not there, and that is what is asked about then.
    return file
  }
}
