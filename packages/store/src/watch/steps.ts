/** The names that a path goes through: what has to be watched to see it lead elsewhere. */

import { lstatSync, readlinkSync } from 'node:fs'
import { dirname, join, parse, sep } from 'node:path'

export interface Step {
  /** A real folder, or one that was when it was looked at. */
  readonly folder: string
  readonly name: string
  readonly link: boolean
}

const MAX_LINKS = 40

/** From the root to the file, links followed; ends early at what does not exist. `path` is absolute. */
export function stepsOf(path: string): Step[] {
  const { root } = parse(path)
  const rest = parts(path.slice(root.length))
  const steps: Step[] = []
  let folder = root
  let links = 0
  for (let name = rest.shift(); name !== undefined; name = rest.shift()) {
    if (name === '..') {
      folder = dirname(folder)
      continue
    }
    const target = linkAt(join(folder, name))
    steps.push({ folder, name, link: typeof target === 'string' })
    if (target === undefined || links === MAX_LINKS) return steps
    if (target === false) {
      folder = join(folder, name)
      continue
    }
    links++
    const { root: other } = parse(target)
    if (other) folder = other
    rest.unshift(...parts(target.slice(other.length)))
  }
  return steps
}

const parts = (path: string) => path.split(sep === '/' ? '/' : /[\\/]/).filter(part => part && part !== '.')

/** Where a link leads; false for what is no link, undefined for what is not there or cannot be seen. */
function linkAt(path: string): string | false | undefined {
  try {
    return lstatSync(path).isSymbolicLink() ? readlinkSync(path) : false
  } catch {
    return undefined
  }
}

/**
 * The folders that tell at once of a change: that of the file, the one above it (it tells when the folder is replaced),
 * and those of links. The others are looked at now and then.
 */
export function telling(steps: readonly Step[]): Step[] {
  return steps.filter((step, index) => step.link || index >= steps.length - 2)
}
