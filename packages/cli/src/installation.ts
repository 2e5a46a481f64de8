/** Files of this installation: its manifest, and the tree that the command mounts. */

import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

/** The nearest file of that name above this module: the workspace's when run from source, the package's when released. */
export function installed(name: string): string {
  for (let folder = dirname(fileURLToPath(import.meta.url)); ; folder = dirname(folder)) {
    const file = join(folder, name)
    if (existsSync(file) || folder === dirname(folder)) return file
  }
}
