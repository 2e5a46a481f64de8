import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Context, type HarnessError, isHarnessError } from '@cambium/core'
import { replaceFile } from '@cambium/store'
import type { Settings, SettingsHandle } from '@cambium/store/settings'
import { TrustStore } from '@cambium/store/trust'
import { type BootedTree, bootTree } from '@cambium/testkit'
import Schema from 'schemastery'
import { describe, expect, it, onTestFinished } from 'vitest'

interface Budget {
  maxSteps: number
  mode: 'ask' | 'allow'
  hosts: string[]
  key: string
  deep: { a: number; b: number }
}
const Budget: Schema<Budget> = Schema.object({
  maxSteps: Schema.natural().default(10),
  mode: Schema.union(['ask', 'allow'] as const).default('ask'),
  hosts: Schema.array(Schema.string()).default([]),
  key: Schema.string().role('secret').default(''),
  deep: Schema.object({ a: Schema.number().default(1), b: Schema.number().default(2) }),
})
const defaults = { maxSteps: 10, mode: 'ask', hosts: [], key: '', deep: { a: 1, b: 2 } }

class Place {
  readonly root = realpathSync(mkdtempSync(join(tmpdir(), 'cambium-settings-')))
  readonly home = join(this.root, 'home')
  readonly project = join(this.root, 'work')
  readonly user = join(this.home, 'settings.yml')
  readonly shared = join(this.project, '.cambium', 'settings.yml')
  readonly refused: HarnessError[] = []
  private wake = () => {}

  constructor(user?: string, shared?: string) {
    onTestFinished(() => rmSync(this.root, { recursive: true, force: true }))
    mkdirSync(this.home)
    mkdirSync(join(this.project, '.cambium'), { recursive: true })
    if (user !== undefined) writeFileSync(this.user, user)
    if (shared !== undefined) writeFileSync(this.shared, shared)
  }

  trust() {
    new TrustStore(this.home).trust(this.project, [this.shared])
  }

  async boot(): Promise<BootedTree> {
    const config = JSON.stringify({ home: this.home, cwd: this.project })
    const tree = await bootTree(`- { name: '@cambium/store/settings', config: ${config} }`)
    onTestFinished(() => tree.dispose())
    tree.ctx.on('settings/refused', error => {
      this.refused.push(error)
      this.wake()
    })
    return tree
  }

  /** The next that is refused. */
  async refusal(): Promise<HarnessError> {
    while (!this.refused.length) await new Promise<void>(resolve => (this.wake = resolve))
    return this.refused.shift()!
  }
}

/** A plugin that defines settings; what it got, or why not. */
async function defining<S, T>(
  ctx: Context,
  namespace: string,
  schema: Schema<S, T>,
  options?: Parameters<Settings['define']>[2],
) {
  let handle: SettingsHandle<T> | undefined
  const fiber = await ctx.plugin({
    name: `plugin of ${namespace}`,
    inject: ['settings'],
    apply(inner: Context) {
      handle = inner.settings.define(namespace, schema, options)
    },
  })
  return { fiber, handle: handle! }
}

function changes(ctx: Context) {
  const seen: [string, unknown, unknown][] = []
  let wake = () => {}
  ctx.on('settings/changed', (...change) => {
    seen.push(change)
    wake()
  })
  return {
    seen,
    async next() {
      while (!seen.length) await new Promise<void>(resolve => (wake = resolve))
      return seen.shift()!
    },
  }
}

describe('what counts', () => {
  it('is the defaults, then the user, then a trusted project, key by key', async () => {
    const place = new Place(
      'budget: # mine\n  maxSteps: 20\n  hosts: [a, b]\n  deep: { a: 5 }\n',
      'budget:\n  mode: allow\n  hosts: [c]\n  deep: { b: 6 }\n',
    )
    place.trust()
    const { ctx } = await place.boot()
    const { handle } = await defining(ctx, 'budget', Budget)
    expect(handle.get()).toEqual({ maxSteps: 20, mode: 'allow', hosts: ['c'], key: '', deep: { a: 5, b: 6 } })
    expect(Object.isFrozen(handle.get().deep)).toBe(true)
    expect(ctx.settings.explain('budget')).toEqual({
      namespace: 'budget',
      definedBy: 'plugin of budget',
      ignored: [],
      settings: [
        { path: ['maxSteps'], value: 20, layer: 'user', where: `${place.user}:2:3` },
        { path: ['mode'], value: 'allow', layer: 'project', where: `${place.shared}:2:3` },
        { path: ['hosts'], value: ['c'], layer: 'project', where: `${place.shared}:3:3` },
        { path: ['key'], secret: true, layer: 'default' },
        { path: ['deep', 'a'], value: 5, layer: 'user', where: `${place.user}:4:11` },
        { path: ['deep', 'b'], value: 6, layer: 'project', where: `${place.shared}:4:11` },
      ],
    })
  })

  it('is the defaults where there are no files, and nothing is created', async () => {
    const place = new Place()
    const { ctx } = await place.boot()
    expect((await defining(ctx, 'budget', Budget)).handle.get()).toEqual(defaults)
    expect(readdirSync(place.home)).toEqual([])
  })

  it('of an untrusted project is what is harmless; the rest is ignored, and told with its place', async () => {
    const text = 'budget: { maxSteps: 5 }\nlook: { theme: dark }\nmodel: { baseURL: http://evil }\n'
    const place = new Place('model: { baseURL: http://mine }\n', text)
    const { ctx } = await place.boot()
    const model = Schema.object({ baseURL: Schema.string() })
    const look = Schema.object({ theme: Schema.string().default('light') })
    expect((await defining(ctx, 'look', look, { project: 'always' })).handle.get()).toEqual({ theme: 'dark' })
    expect(place.refused).toEqual([])
    expect((await defining(ctx, 'budget', Budget)).handle.get().maxSteps).toBe(10)
    expect(await place.refusal()).toMatchObject({ code: 'STORE_SETTINGS_UNTRUSTED', where: `${place.shared}:1:1` })
    place.trust()
    const changed = changes(ctx)
    expect((await changed.next()).slice(0, 2)).toEqual(['budget', { ...defaults, maxSteps: 5 }])
    expect((await defining(ctx, 'model', model, { project: 'never' })).handle.get()).toEqual({ baseURL: 'http://mine' })
    expect(await place.refusal()).toMatchObject({
      code: 'STORE_SETTINGS_NOT_FOR_PROJECTS',
      where: `${place.shared}:3:1`,
    })
    expect(ctx.settings.explain('model')?.ignored).toEqual([
      { layer: 'project', where: `${place.shared}:3:1`, reason: 'model: a project cannot set this; it is ignored' },
    ])
    // Content that was not trusted ends the trust.
    writeFileSync(place.shared, text.replace('5', '500'))
    expect((await changed.next())[1]).toEqual(defaults)
    expect(await place.refusal()).toMatchObject({ code: 'STORE_SETTINGS_UNTRUSTED' })
  })

  it('of namespaces that nobody defines is kept, listed without values, and counts when a plugin comes', async () => {
    const place = new Place('later:\n  key: secret\n  list: [1]\n')
    const { ctx } = await place.boot()
    expect(ctx.settings.explain()).toEqual([
      {
        namespace: 'later',
        settings: [
          { path: ['key'], layer: 'user', where: `${place.user}:2:3` },
          { path: ['list'], layer: 'user', where: `${place.user}:3:3` },
        ],
        ignored: [{ layer: 'user', where: `${place.user}:1:1`, reason: 'no plugin that is mounted defines it' }],
      },
    ])
    const { fiber, handle } = await defining(
      ctx,
      'later',
      Schema.object({ key: Schema.string(), list: Schema.array(Schema.number()) }),
    )
    expect(handle.get()).toEqual({ key: 'secret', list: [1] })
    expect(() => ctx.settings.define('later', Schema.object({}))).toThrow(
      /STORE_SETTINGS_DUPLICATE: the settings "later" are already defined by plugin of later/,
    )
    await fiber.dispose()
    expect(ctx.settings.explain('later')?.definedBy).toBeUndefined()
    await expect(handle.set('key', 'x')).rejects.toThrow(/STORE_SETTINGS_GONE/)
    expect(ctx.settings.explain('never')).toBeUndefined()
  })
})

describe('a change of a file', () => {
  it('is told to watchers in order, frozen, and only to those whose settings are others', async () => {
    const place = new Place('budget: { maxSteps: 1 }\n')
    const { ctx } = await place.boot()
    const changed = changes(ctx)
    const { handle, fiber } = await defining(ctx, 'budget', Budget)
    const other = await defining(ctx, 'other', Schema.object({ x: Schema.number().default(0) }))
    const order: string[] = []
    handle.watch(({ maxSteps }, previous) => order.push(`first ${previous.maxSteps} > ${maxSteps}`))
    handle.watch(() => {
      throw new Error('a watcher that fails')
    })
    const undo = handle.watch(next => order.push(`second ${Object.isFrozen(next)}`))
    other.handle.watch(() => order.push('never'))
    replaceFile(place.user, '# a comment changes nothing\nbudget: { maxSteps: 1 }\n')
    writeFileSync(place.user, 'budget: { maxSteps: 2 }\n')
    expect((await changed.next())[0]).toBe('budget')
    expect(order).toEqual(['first 1 > 2', 'second true'])
    undo()
    rmSync(place.user)
    expect((await changed.next())[1]).toEqual(defaults)
    expect(order).toEqual(['first 1 > 2', 'second true', 'first 2 > 10'])
    await fiber.dispose()
    writeFileSync(place.user, 'budget: { maxSteps: 3 }\nother: { x: 1 }\n')
    expect((await changed.next())[0]).toBe('other')
    expect(order.at(-1)).toBe('never')
    expect(order).toHaveLength(4)
  })

  it('that breaks the settings of one plugin changes those of none', async () => {
    const place = new Place('budget: { maxSteps: 2 }\nother: { x: 1 }\n')
    const { ctx } = await place.boot()
    const { handle } = await defining(ctx, 'budget', Budget)
    const other = (await defining(ctx, 'other', Schema.object({ x: Schema.number() }))).handle
    writeFileSync(place.user, 'budget: { maxSteps: many }\nother: { x: 2 }\n')
    expect((await place.refusal()).message).toMatch(/budget\.maxSteps: it is wrong/)
    expect(other.get()).toEqual({ x: 1 })
    const changed = changes(ctx)
    writeFileSync(place.user, 'budget: { maxSteps: 3 }\nother: { x: 2 }\n')
    await changed.next()
    expect([handle.get().maxSteps, other.get()]).toEqual([3, { x: 2 }])
  })

  it.each([
    ['syntax', 'budget: { maxSteps: 3\n', /STORE_YAML_SYNTAX.*\n.*where: .*settings\.yml:\d+:\d+/],
    [
      'a value',
      'budget:\n  maxSteps: 3\n  mode: secret-word\n',
      /STORE_SETTINGS_INVALID: budget\.mode: (?!.*secret-word).*\n.*where: .*settings\.yml:3:3/,
    ],
    [
      'an unknown key',
      'budget:\n  maxStep: 3\n',
      /budget\.maxStep: there is no such setting\n.*settings\.yml:2:3\n.*did you mean `maxSteps`/,
    ],
    ['no map', '- budget\n', /settings are a map from namespaces/],
    ['a tag', 'budget:\n  key: !env KEY\n', /settings have no tags, and this is !env\n.*settings\.yml:2:/],
    ['a hostile key', 'budget:\n  __proto__: { polluted: 1 }\n', /no setting is called __proto__\n.*settings\.yml:2:3/],
  ])('that breaks it by %s keeps the last good document, and is told with its line', async (_, text, message) => {
    const place = new Place('budget: { maxSteps: 2 }\n')
    const { ctx } = await place.boot()
    const changed = changes(ctx)
    const { handle } = await defining(ctx, 'budget', Budget)
    writeFileSync(place.user, text)
    expect((await place.refusal()).message).toMatch(message)
    expect(handle.get().maxSteps).toBe(2)
    await expect(handle.set('maxSteps', 7)).rejects.toThrow(/STORE_/)
    expect(readFileSync(place.user, 'utf8')).toBe(text)
    writeFileSync(place.user, 'budget: { maxSteps: 4 }\n')
    expect((await changed.next())[1]).toMatchObject({ maxSteps: 4 })
    expect(({} as { polluted?: number }).polluted).toBeUndefined()
  })
})

describe('a document that is broken at the start', () => {
  it('fails the plugin when it is the user’s, and is left out with a notice when it is the project’s', async () => {
    const user = new Place('budget: [\n')
    await expect(user.boot()).rejects.toThrow(/STORE_YAML_SYNTAX[\s\S]*settings\.yml:\d+:\d+/)
    const project = new Place('budget: { maxSteps: 2 }\n', 'budget: [\n')
    const { ctx } = await project.boot()
    expect((await defining(ctx, 'budget', Budget)).handle.get().maxSteps).toBe(2)
    writeFileSync(project.shared, 'budget: { maxSteps: [ }\n')
    expect((await project.refusal()).message).toMatch(/STORE_YAML_SYNTAX.*\n.*work\/\.cambium\/settings\.yml:1/)
  })

  it('in the part of one plugin fails that plugin, with all its mistakes', async () => {
    const place = new Place('budget:\n  maxSteps: many\n  mod: ask\nother: { x: 1 }\n')
    const { ctx } = await place.boot()
    expect(() => ctx.settings.define('budget', Budget)).toThrow(
      /2 settings are wrong\n.*settings\.yml:3:3: budget\.mod: .*`mode`[\s\S]*settings\.yml:2:3: budget\.maxSteps: it is wrong/,
    )
    expect(ctx.settings.explain('budget')?.definedBy).toBeUndefined()
    expect(ctx.settings.define('other', Schema.object({ x: Schema.number() })).get()).toEqual({ x: 1 })
  })

  it('by size, by aliases, by links in a circle, or by being no file is refused in time', async () => {
    const bomb = [
      'a0: &a0 [x, x]',
      ...Array.from({ length: 40 }, (_, i) => `a${i + 1}: &a${i + 1} [*a${i}, *a${i}]`),
    ].join('\n')
    await expect(new Place(bomb).boot()).rejects.toThrow(/its aliases unfold to too much/)
    await expect(new Place(`# ${'x'.repeat(2 ** 20)}`).boot()).rejects.toThrow(/larger than 1 MiB/)
    await expect(new Place('['.repeat(50_000)).boot()).rejects.toThrow(/nested too deeply/)
    const circle = new Place()
    symlinkSync('settings.yml', circle.user)
    await expect(circle.boot()).rejects.toThrow(/STORE_PATH: .*in a circle/)
    const folder = new Place()
    mkdirSync(folder.user)
    await expect(folder.boot()).rejects.toThrow(/STORE_PATH: .*a folder is in the way/)
  })
})

describe('writing', () => {
  it('keeps comments and all else, counts at once, and is told once', async () => {
    const place = new Place('# mine\nother: 1 # kept\n\nbudget: # of all\n  maxSteps: 5 # five\n')
    const { ctx } = await place.boot()
    const changed = changes(ctx)
    const { handle } = await defining(ctx, 'budget', Budget)
    await handle.set('maxSteps', 6)
    expect(handle.get().maxSteps).toBe(6)
    await handle.set('deep.a', 7)
    await handle.set(['hosts'], ['x'])
    expect(readFileSync(place.user, 'utf8')).toBe(
      '# mine\nother: 1 # kept\n\nbudget: # of all\n  maxSteps: 6 # five\n  deep:\n    a: 7\n  hosts:\n    - x\n',
    )
    await handle.unset('maxSteps')
    expect(handle.get().maxSteps).toBe(10)
    expect(readFileSync(place.user, 'utf8')).not.toContain('maxSteps')
    expect(changed.seen).toHaveLength(4)
    await handle.unset('')
    expect(readFileSync(place.user, 'utf8')).toBe('# mine\nother: 1 # kept\n\n')
    expect(handle.get()).toEqual(defaults)
    // What it wrote itself comes back to it by the watcher, and is nothing new.
    writeFileSync(place.user, 'budget: { maxSteps: 1 }\n')
    while ((await changed.next())[1] === undefined || handle.get().maxSteps !== 1);
    expect(changed.seen).toHaveLength(0)
  })

  it('creates the file for its owner only', async () => {
    const place = new Place()
    rmSync(place.home, { recursive: true })
    const { ctx } = await place.boot()
    const { handle } = await defining(ctx, 'budget', Budget)
    await handle.set('key', 's')
    expect(readFileSync(place.user, 'utf8')).toBe('budget:\n  key: s\n')
    expect(statSync(place.user).mode & 0o777).toBe(0o600)
    expect(readdirSync(place.home)).toEqual(['settings.yml'])
  })

  it('reads the file again first, so that nothing of others is lost', async () => {
    const place = new Place('budget: { maxSteps: 1 }\n')
    const { ctx } = await place.boot()
    const { handle } = await defining(ctx, 'budget', Budget)
    writeFileSync(place.user, 'budget: { maxSteps: 1, mode: allow } # by somebody else\n')
    await Promise.all([handle.set('maxSteps', 2), handle.set('deep.a', 3), handle.set('hosts', ['h'])])
    expect(handle.get()).toEqual({ maxSteps: 2, mode: 'allow', hosts: ['h'], key: '', deep: { a: 3, b: 2 } })
    expect(readFileSync(place.user, 'utf8')).toContain('# by somebody else')
  })

  it('what does not fit, or cannot be written, changes nothing', async () => {
    const place = new Place('x: &x { maxSteps: 1 }\nbudget: *x\n')
    const { ctx } = await place.boot()
    const { handle } = await defining(ctx, 'budget', Budget)
    const before = readFileSync(place.user, 'utf8')
    await expect(handle.set('maxSteps', 2)).rejects.toThrow(/STORE_EDIT_UNSAFE/)
    await expect(handle.set('', { mode: 'hidden-word' })).rejects.toThrow(
      /STORE_SETTINGS_INVALID: budget\.mode: (?!.*hidden-word)/,
    )
    await expect(handle.set('', { maxStep: 2 })).rejects.toThrow(/did you mean `maxSteps`/)
    expect(readFileSync(place.user, 'utf8')).toBe(before)
    expect(handle.get().maxSteps).toBe(1)
    renameSync(place.user, `${place.user}.real`)
    writeFileSync(place.user, before, { mode: 0o444 })
    await expect(handle.set('', { maxSteps: 3 })).rejects.toThrow(/STORE_READ_ONLY/)
    expect(existsSync(`${place.user}.lock`)).toBe(false)
  })

  it('into the project is for what it may say, and keeps its trust', async () => {
    const place = new Place(undefined, '# ours\nbudget: { maxSteps: 3 }\n')
    const { ctx } = await place.boot()
    const { handle } = await defining(ctx, 'budget', Budget)
    const look = (await defining(ctx, 'look', Schema.object({ theme: Schema.string() }), { project: 'always' })).handle
    const never = (await defining(ctx, 'model', Schema.object({ url: Schema.string() }), { project: 'never' })).handle
    const project = { layer: 'project' } as const
    await expect(never.set('url', 'x', project)).rejects.toThrow(/STORE_SETTINGS_NOT_FOR_PROJECTS/)
    await expect(handle.set('maxSteps', 4, project)).rejects.toThrow(
      /STORE_SETTINGS_UNTRUSTED: .*\n.*\n.*cambium trust/,
    )
    await look.set('theme', 'dark', project)
    expect(look.get()).toEqual({ theme: 'dark' })
    const changed = changes(ctx)
    place.trust()
    await changed.next()
    await handle.set('maxSteps', 4, project)
    expect(handle.get().maxSteps).toBe(4)
    expect(new TrustStore(place.home).check(place.project, [place.shared])).toBe('trusted')
    expect(readFileSync(place.shared, 'utf8')).toBe('# ours\nbudget: { maxSteps: 4 }\nlook:\n  theme: dark\n')
  })

  it('behind a link is trusted by what the link leads to', async () => {
    const place = new Place()
    const real = join(place.project, 'shared.yml')
    writeFileSync(real, 'budget: { maxSteps: 3 }\n')
    symlinkSync('../shared.yml', place.shared)
    new TrustStore(place.home).trust(place.project, [real])
    const { ctx } = await place.boot()
    const { handle } = await defining(ctx, 'budget', Budget)
    expect(handle.get().maxSteps).toBe(3)
    await handle.set('maxSteps', 4, { layer: 'project' })
    expect([handle.get().maxSteps, readFileSync(real, 'utf8')]).toEqual([4, 'budget: { maxSteps: 4 }\n'])
    expect(new TrustStore(place.home).check(place.project, [real])).toBe('trusted')
  })

  it('a first file of a trusted project is trusted', async () => {
    const place = new Place()
    new TrustStore(place.home).trust(place.project, [])
    const { ctx } = await place.boot()
    const { handle } = await defining(ctx, 'budget', Budget)
    await handle.set('maxSteps', 4, { layer: 'project' })
    expect(handle.get().maxSteps).toBe(4)
    expect((await place.boot()).ctx.settings.define('budget', Budget).get().maxSteps).toBe(4)
  })
})

it('the harness’s own home is no project', async () => {
  const place = new Place('budget: { maxSteps: 9 }\n')
  const own = join(place.root, 'user')
  mkdirSync(own)
  renameSync(place.home, join(own, '.cambium'))
  const config = JSON.stringify({ home: join(own, '.cambium'), cwd: own })
  const tree = await bootTree(`- { name: '@cambium/store/settings', config: ${config} }`)
  onTestFinished(() => tree.dispose())
  const { handle } = await defining(tree.ctx, 'budget', Budget)
  expect(tree.ctx.settings.explain('budget')?.settings[0]).toMatchObject({ layer: 'user' })
  const error: unknown = await handle.set('maxSteps', 1, { layer: 'project' }).catch(problem => problem)
  expect(isHarnessError(error) && error.code).toBe('STORE_NO_PROJECT')
})
