/** The page on models: what it says to write is taken by the shipped tree, and gives what it says. */

import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { builtBin, tempWorkspace } from '@cambium/testkit'
import { expect, it } from 'vitest'

const page = readFileSync(fileURLToPath(new URL('../docs/models.md', import.meta.url)), 'utf8')
const rows = [...page.matchAll(/```yaml\n(.*?)```/gs)].map(([, text]) => text!)

interface Listed {
  readonly provider: string
  readonly models: readonly { readonly id: string }[]
}

async function listed(patch: string): Promise<Map<string, Listed>> {
  using home = tempWorkspace()
  home.write('cordis.patch.yml', patch)
  const env = { PATH: process.env['PATH'], HOME: home.path, CAMBIUM_HOME: home.path }
  const bin = await builtBin('cambium')
  const { stdout } = await promisify(execFile)(process.execPath, [bin, 'models', '--offline', '--json'], { env })
  const { providers } = JSON.parse(stdout) as { providers: Listed[] }
  return new Map(providers.map(entry => [entry.provider, entry]))
}

it('every row of the page can be laid over the shipped tree, and offers its providers and models', async () => {
  expect(rows.length).toBeGreaterThan(3)
  const found = await listed(rows.join(''))
  const ids = (provider: string) => found.get(provider)?.models.map(({ id }) => id)
  expect(ids('mine')).toEqual(['big', 'small'])
  expect(ids('kimi')).toEqual(['kimi-k2-thinking'])
  expect(ids('azure')).toEqual(['my-deployment'])
  expect(ids('cohere')).toEqual(['command-a-03-2025'])
  expect(found.has('gateway')).toBe(true)
  const named = [...page.matchAll(/^\| (`.*?`) \|/gm)].flatMap(([, cell]) => cell!.match(/[\w.-]+(?=`)/g)!)
  expect([...found.keys()].sort()).toEqual(
    [...named, 'mine', 'gateway', 'kimi', 'azure', 'bedrock', 'cohere', 'scripted'].sort(),
  )
})
