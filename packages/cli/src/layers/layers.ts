/** The layers over the shipped tree, in order: the user's, the project's if it is trusted, `--patch`, `--set`. */

import { lstatSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { HarnessError, isHarnessError } from '@cambium/core'
import { labelOf, type TreeSource } from '@cambium/loader'
import { homeFolder, projectFolder } from '@cambium/store'
import { installed } from '../installation.ts'
import type { LayerFile, LayerOptions } from './layer.ts'

export interface Layers {
  readonly tree: ReturnType<typeof shippedTree>
  readonly patches: readonly TreeSource[]
  readonly set: readonly string[]
  /** The user's layer, where changes are kept that a plugin makes at run time; absent when it is left out. */
  readonly writeTo?: string
  /** Every file that was looked for, the lowest layer first. */
  readonly files: readonly LayerFile[]
  /** One sentence for a person: a layer is there and is not applied. */
  readonly notice: string | undefined
  /** Why the tree must not be mounted although it can be read: a trusted layer does not fit it. */
  readonly failure: unknown
}

export const PATCH_FILE = 'cordis.patch.yml'

export const userLayer = (env: LayerOptions['env']): string => join(homeFolder(env), PATCH_FILE)
export const projectLayer = (folder: string): string => join(folder, '.cambium', PATCH_FILE)
export const shippedTree = (): TreeSource & { file: string } => ({ file: installed('cordis.yml'), layer: 'shipped' })

/** Looks for the layers. What a project's file says is read only if its user has trusted that project. */
export async function findLayers(options: LayerOptions): Promise<Layers> {
  const tree = shippedTree()
  const patches: TreeSource[] = []
  const files: LayerFile[] = [{ layer: 'shipped', file: tree.file, state: 'applied' }]
  const above = options.patch.map(file => ({ file, layer: 'patch' }))
  let notice: string | undefined
  let failure: unknown

  const user = userLayer(options.env)
  const present = isPresent(user)
  const applied = present && options.without !== 'all'
  if (applied) patches.push({ file: user, layer: 'user' })
  files.push({ layer: 'user', file: user, state: applied ? 'applied' : present ? 'left out' : 'absent' })

  const folder = projectFolder(options.cwd, options.env)
  if (folder !== undefined) {
    const file = projectLayer(folder)
    if (!isPresent(file)) files.push({ layer: 'project', file, state: 'absent' })
    else if (options.without !== 'none') files.push({ layer: 'project', file, state: 'left out' })
    else {
      // Loaded only when there is one: most folders have none, and a start is felt.
      const { judgeProject } = await import('./project-layer.ts')
      const { env, set } = options
      const judged = await judgeProject({ folder, file, tree, below: [...patches], above, set, env })
      if (judged.source) patches.push(judged.source)
      else if (!judged.failure) notice = `the layer of this project is not applied: ${noticeOf(judged.found)}`
      failure = judged.failure
      files.push(judged.found)
    }
  }
  patches.push(...above)
  for (const file of options.patch) files.push({ layer: 'patch', file, state: isPresent(file) ? 'applied' : 'absent' })
  const writeTo = options.without === 'all' ? {} : { writeTo: user }
  return { tree, patches, set: options.set, ...writeTo, files, notice, failure }
}

function noticeOf({ file, state, problem }: LayerFile): string {
  const label = labelOf(file)
  if (state === 'unusable') return `${label}: ${problem}`
  const verb = state === 'not trusted' ? 'is not trusted' : 'or a file that it names has changed since it was trusted'
  return `${label} ${verb}; \`cambium trust\` shows what it would do, and asks`
}

/** Also true for a link that leads nowhere: reading it then says so, instead of starting as if nobody had written it. */
export function isPresent(file: string): boolean {
  try {
    lstatSync(file)
    return true
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    return code !== 'ENOENT' && code !== 'ENOTDIR'
  }
}

/** The same error; if it lies in a layer that can be left out, it says how to start without that layer. */
export function withWayOut(error: unknown, { files }: Layers): unknown {
  if (!isHarnessError(error)) return error
  const named = (path: string) => {
    const text = ` ${error.message}`
    // Not as the end of another path.
    return text
      .split(path)
      .slice(0, -1)
      .some(before => /[\s("]$/.test(before))
  }
  const guilty = files.find(({ layer, file, state }) => {
    if ((state !== 'applied' && state !== 'unusable') || (layer !== 'user' && layer !== 'project')) return false
    // Also a file that the layer includes, which mostly stands beside it.
    return named(labelOf(file)) || (error.code.startsWith('TREE_') && named(`${labelOf(dirname(file))}/`))
  })
  if (!guilty) return error
  const way =
    guilty.layer === 'user'
      ? 'to start without your layer: cambium run --no-layers, or CAMBIUM_NO_LAYERS=1'
      : "to start without the project's layer: cambium run --no-project"
  const { code, problem, where, fix, cause } = error
  return new HarnessError(code, problem, { where, fix: fix ? `${fix}\n  ${way}` : way, cause })
}
