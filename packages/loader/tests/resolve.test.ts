import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { bootTree, findPlugin, setInstallation, shippedPlugins } from '@cambium/loader'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'

let folder = ''
const write = (path: string, text: string) => {
  mkdirSync(dirname(join(folder, path)), { recursive: true })
  writeFileSync(join(folder, path), text)
}
const pack = (path: string, name: string, exports: unknown) =>
  write(`${path}/package.json`, JSON.stringify({ name, version: '1.0.0', type: 'module', exports }))
const plugin = (tag: string) => `export const apply = ctx => { ctx.provide('which', '${tag}') }\n`

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'loader-resolve-'))
  pack('node_modules/near', 'near', { '.': { import: './index.js' }, './sub': './sub.js', './lost': './lost.js' })
  write('node_modules/near/index.js', plugin('near'))
  write('node_modules/near/sub.js', plugin('near/sub'))
  pack('installed/far', 'far', { '.': './index.js' })
  write('installed/far/index.js', plugin('far'))
  write('installed/near.js', plugin('near of the installation'))
  pack('own', '@me/own', { './tool': './tool.js' })
  write('own/tool.js', plugin('own'))
  write('own/trees/deep.yml', "- { id: it, name: '@me/own/tool' }\n")
  write('local.js', plugin('local'))
})
afterAll(() => rmSync(folder, { recursive: true }))

async function which(name: string, file = 'cordis.yml') {
  const text = `- { id: it, name: ${JSON.stringify(name)} }`
  const tree = await bootTree({ text, file: join(folder, file) }, { write: () => {} })
  const found: unknown = tree.ctx.get('which')
  await tree.dispose()
  return found
}

describe('a specifier', () => {
  test('may be relative, absolute or a URL', async () => {
    expect(await which('./local.js')).toBe('local')
    expect(await which('../local.js', 'deeper/cordis.yml')).toBe('local')
    expect(await which(join(folder, 'local.js'))).toBe('local')
    expect(await which(pathToFileURL(join(folder, 'local.js')).href)).toBe('local')
  })

  test.skipIf(process.platform === 'win32')('is not looked for in a manifest that is a pipe', async () => {
    mkdirSync(join(folder, 'piped/node_modules/piped'), { recursive: true })
    mkdirSync(join(folder, 'below/node_modules/inner'), { recursive: true })
    for (const path of ['piped/node_modules/piped/package.json', 'below/package.json'])
      execFileSync('mkfifo', [join(folder, path)])
    await expect(which('piped', 'piped/cordis.yml')).rejects.toThrow('no package "piped" was found')
    await expect(which('inner', 'below/cordis.yml')).rejects.toThrow('no package "inner" was found')
  })

  test('that can lead to no file is a mistake with its place, in a name and in an include', async () => {
    for (const name of ['file://elsewhere/a.js', 'file:///a%2fb.js', './local.js\0']) {
      await expect(which(name)).rejects.toThrow(/names no file of this machine[\s\S]*cordis\.yml:1:19 \(row it\)/)
    }
    const text = '- { id: it, name: include, config: { path: "file://elsewhere/a.yml" } }'
    const tree = bootTree({ text, file: join(folder, 'cordis.yml') }, { write: () => {} })
    await expect(tree).rejects.toThrow(/there is no such file[\s\S]*cordis\.yml:1:38 \(row it\)/)
  })

  test('of a package is looked up from the file that names it, also one that only offers `import`', async () => {
    expect(await which('near')).toBe('near')
    expect(await which('near/sub', 'deeper/still/cordis.yml')).toBe('near/sub')
  })

  test('may be of the package that the tree belongs to', async () => {
    const tree = await bootTree({ file: join(folder, 'own/trees/deep.yml') })
    expect(tree.ctx.get('which')).toBe('own')
    await tree.dispose()
  })

  test('is looked up in the installation last', async () => {
    const resolve = (specifier: string) => {
      const file = new Map([
        ['far', 'installed/far/index.js'],
        ['near', 'installed/near.js'],
      ]).get(specifier)
      return file && pathToFileURL(join(folder, file)).href
    }
    const undo = setInstallation({ resolve })
    expect(await which('far')).toBe('far')
    expect(await which('near')).toBe('near')
    undo()
    const undoOwning = setInstallation({ resolve, owns: specifier => specifier === 'near' })
    expect(await which('near'), 'unless the installation owns the name').toBe('near of the installation')
    undoOwning()
    const shipped = () => [{ specifier: '@far/room/plugin', name: 'plugin', provide: [], inject: [] }]
    const undoShipped = setInstallation({ resolve, shipped })
    await expect(which('@far/room/plugn')).rejects.toThrow('the installation has no plugin "@far/room/plugn"')
    undoShipped()
    await expect(which('far')).rejects.toThrow('no package "far" was found')
  })

  test('finds our own packages from any folder when run from the workspace', async () => {
    await expect(which('@cambium/core')).rejects.toThrow('@cambium/core has no `apply`')
  })

  test('whose package does not offer that path, or has lost the file, says so', async () => {
    await expect(which('near/other')).rejects.toThrow(
      /"near\/other" cannot be resolved: Package subpath '.\/other' is not/,
    )
    await expect(which('near/lost')).rejects.toThrow(/"near\/lost" cannot be resolved: its file .*lost.js is missing/)
  })

  test.each([
    ['@cambium/toolbox/bsh', 'did you mean "@cambium/toolbox/bash"?'],
    ['@cambium/tolbox/bash', 'did you mean "@cambium/toolbox/bash"?'],
    ['@cambium/tool', 'did you mean "@cambium/tools"?'],
    ['bash', 'did you mean "@cambium/toolbox/bash"?'],
    ['@cambium/toolbox/typewriter', 'there are @cambium/toolbox/fs, @cambium/toolbox/search, @cambium/toolbox/bash'],
    ['@cambium/x', 'install @cambium/x beside the tree, or correct the name'],
    ['somewhat', 'install somewhat beside the tree, or correct the name'],
  ])('that leads nowhere, %s, is answered with what the installation has', async (name, fix) => {
    await expect(which(name)).rejects.toThrow(`fix:   ${fix}`)
  })
})

describe('the plugins of the installation', () => {
  test('are known by what their modules export, without importing them', async () => {
    const shipped = await shippedPlugins()
    expect(shipped.length).toBeGreaterThan(10)
    const root = new URL('../../../', import.meta.url)
    const plugins: unknown[] = []
    for (const room of readdirSync(new URL('packages', root)).filter(room => room !== 'testkit')) {
      const manifest = JSON.parse(readFileSync(new URL(`packages/${room}/package.json`, root), 'utf8'))
      for (const path of Object.keys(manifest.exports)) {
        const specifier = `${manifest.name}${path.slice(1)}`
        const module = await import(specifier)
        const plugin = findPlugin(module)
        if (!plugin) continue
        const inject = module.inject ?? []
        plugins.push({
          specifier,
          name: plugin.name,
          provide: plugin.provide,
          inject: Array.isArray(inject) ? inject : Object.keys(inject),
        })
      }
    }
    expect(shipped).toEqual(plugins)
  })
})
