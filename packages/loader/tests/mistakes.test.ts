/** Each folder of fixtures/mistakes is a tree with mistakes; `expected.txt` is what its author is told. */

import { existsSync, readdirSync } from 'node:fs'
import { relative } from 'node:path'
import { bootTree, mistakesOf } from '@cambium/loader'
import { describe, expect, test } from 'vitest'

const root = new URL('./fixtures/mistakes/', import.meta.url).pathname

describe('a tree with mistakes is refused, and its author is told what, where and what to do', () => {
  test.each(readdirSync(root))('%s', async name => {
    const folder = `${root}${name}`
    const patch = `${folder}/patch.yml`
    const records: string[] = []
    const failure = await bootTree(
      { file: `${folder}/cordis.yml` },
      { patches: existsSync(patch) ? [{ file: patch }] : [], write: record => records.push(record.text) },
    ).catch(error => error)
    const short = (text: string) =>
      [relative(process.cwd(), `${folder}/`), folder, relative(process.cwd(), root), root]
        .reduce((all, path) => all.replaceAll(`${path}/`, ''), text)
        .replaceAll('packages/loader/tests/fixtures/', '../../')
    await expect(`${short(failure.message)}\n`).toMatchFileSnapshot(`${folder}/expected.txt`)
    expect(mistakesOf(failure).length).toBeGreaterThan(0)
    expect(records, 'what is thrown is not logged too').toEqual([])
  })
})
