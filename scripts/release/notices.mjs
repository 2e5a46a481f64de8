/** The licences of the libraries that are part of the bundle. */

import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { readJson, root } from './modules.mjs'

export function notices(sources) {
  const folders = new Set()
  for (const input of sources) {
    const folder = /^(.*node_modules\/(?:@[^/]+\/)?[^/]+)\//.exec(input)?.[1]
    if (folder && existsSync(join(root, folder, 'package.json'))) folders.add(join(root, folder))
  }
  const parts = [...folders].map(folder => {
    const { name, version, license } = readJson(join(folder, 'package.json'))
    const file = readdirSync(folder).find(entry => /^licen[cs]e/i.test(entry))
    const text = file ? readFileSync(join(folder, file), 'utf8').trim() : `Licence: ${license}`
    return [`${name} ${version}`, text]
  })
  const sorted = [...new Map(parts)].sort(([a], [b]) => (a < b ? -1 : 1))
  const rule = '-'.repeat(80)
  return `This package contains the following software.\n\n${sorted.map(([name, text]) => `${rule}\n${name}\n\n${text}\n`).join('\n')}`
}
