/** `cambium config path`: the files that are looked at. */

import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { homeFolder } from '@cambium/store'
import type { ConfigRequest } from './config-show.ts'
import { EXIT } from './exit-code.ts'
import type { Host } from './host.ts'
import { findLayers } from './layers/layers.ts'
import { TreeView } from './layers/show-tree.ts'
import { jsonText } from './printable.ts'

export async function path({ layers: options, json }: ConfigRequest, host: Host): Promise<number> {
  const { files } = await findLayers(options)
  const home = homeFolder(options.env)
  const trust = join(home, 'trust.json')
  const rows = [
    ...files.map(({ layer, file, state, problem }) => ({
      what: layer as string,
      file,
      exists: existsSync(file),
      state: problem ? `${state}: ${problem}` : (state as string),
    })),
    { what: 'trust', file: trust, exists: existsSync(trust), state: existsSync(trust) ? 'read' : 'absent' },
  ]
  if (json) {
    host.stdout.write(jsonText({ home, cwd: options.cwd, files: rows }, 2))
    return EXIT.done
  }
  const view = new TreeView({ env: options.env, cwd: options.cwd })
  const what = Math.max(...rows.map(row => row.what.length))
  const width = Math.max(...rows.map(row => view.path(row.file).length))
  for (const row of rows) {
    host.stdout.write(`${row.what.padEnd(what)}  ${view.path(row.file).padEnd(width)}  ${row.state}\n`)
  }
  return EXIT.done
}
