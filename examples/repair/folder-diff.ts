/** What differs between two folders, as a patch that a person reads. */

import { readdirSync, readFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { createTwoFilesPatch } from 'diff'

export function folderDiff(before: string, after: string): string {
  const names = [...new Set([...filesOf(before), ...filesOf(after)])].sort()
  return names.map(name => fileDiff(name, textOf(join(before, name)), textOf(join(after, name)))).join('')
}

function fileDiff(name: string, before: string | undefined, after: string | undefined): string {
  if (before === after) return ''
  const label = (text: string | undefined, side: string) => (text === undefined ? '/dev/null' : `${side}/${name}`)
  const patch = createTwoFilesPatch(label(before, 'a'), label(after, 'b'), before ?? '', after ?? '', '', '')
  return patch.replace(/^=+\n/, '').replaceAll('\t\n', '\n')
}

function filesOf(folder: string): string[] {
  const entries = readdirSync(folder, { recursive: true, withFileTypes: true })
  return entries.filter(entry => entry.isFile()).map(entry => relative(folder, join(entry.parentPath, entry.name)))
}

function textOf(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    // The file is on one side only.
    return undefined
  }
}
