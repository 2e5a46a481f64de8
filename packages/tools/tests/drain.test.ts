import { fileURLToPath } from 'node:url'
import type { Context, LogRecord } from '@cambium/core'
import type {} from '@cambium/loader'
import { bootTree } from '@cambium/testkit'
import { expect, onTestFinished, test, vi } from 'vitest'
import type { ToolExecution, ToolResult } from '../src/index.ts'
import { fakeAgent, latch, raw, textOf } from './boot.ts'

const TOOLS = fileURLToPath(new URL('../src/index.ts', import.meta.url))
// What is unloaded while it runs is cancelled at once here: only the drain before it lets it end.
const BASE = `- { id: session, name: '@cambium/session' }\n- { id: tools, name: ${TOOLS}, config: { drainMs: 0 } }\n`

/** Offers `slow`, whose call ends when the test lets it, and says which edition it was. */
const slow = (edition: string, body: (ctx: Context, exec: ToolExecution) => Promise<string> | string) => ({
  name: 'slow',
  inject: ['tools'],
  apply(ctx: Context) {
    ctx.tools.register(raw('slow', { execute: async (_args: never, exec) => `${edition}: ${await body(ctx, exec)}` }))
  },
})

const orCancelled = (work: Promise<string>, { signal }: ToolExecution) =>
  new Promise<string>((resolve, reject) => {
    void work.then(resolve)
    signal.addEventListener('abort', () => reject(signal.reason))
  })

async function boot(modules: Record<string, unknown>, rows = '- { id: s, name: slow }\n', options = {}) {
  const source = { text: BASE + rows }
  const tree = await bootTree(source, { modules, ...options })
  onTestFinished(() => tree.dispose())
  const results: ToolResult[] = []
  tree.ctx.on('tools/result', (_exec, result) => void results.push(result))
  const call = async () => {
    const { agent } = await fakeAgent(tree.ctx)
    const calls = [{ callId: 'c1', name: 'slow', arguments: '{}' }]
    agent.session.append('assistant/message', {
      ...{ turn: 1, step: 1, finish: 'tool-calls' },
      message: {
        ...{ id: 'answer', role: 'assistant', source: { kind: 'model', provider: 'local', model: 'm' } },
        content: [{ type: 'tool-call', id: 'c1', name: 'slow', arguments: '{}' }],
      },
    })
    const outcome = await tree.ctx.tools.runBatch(calls, { agent, signal: new AbortController().signal })
    return textOf(outcome.results[0])
  }
  /** Changes what the tree's text says. */
  const say = (text: string) => {
    source.text = BASE + text
    return tree.ctx.loader.reload()
  }
  return { tree, results, call, say, loader: tree.ctx.loader }
}

test.each([
  ['mounted anew', undefined],
  ['reconfigured', '- { id: s, name: slow, config: { x: 1 } }\n'],
  ['disabled', '- { id: s, name: slow, disabled: true }\n'],
  ['removed', ''],
  ['given another name', '- { id: t, name: slow }\n'],
])('a call that runs while its row is %s has its one real result', async (_what, text) => {
  const begun = latch()
  const end = latch<string>()
  const modules: Record<string, unknown> = {}
  modules.slow = slow('old', (_ctx, exec) => {
    begun.open()
    return orCancelled(end.promise, exec)
  })
  const { call, say, loader, results } = await boot(modules)
  const result = call()
  await begun.promise
  modules.slow = slow('new', () => 'at once')
  let done = false
  const change = (text === undefined ? loader.reload({ remount: new Set(['s']) }) : say(text)).then(() => {
    done = true
  })
  for (let turn = 0; turn < 20; turn++) await new Promise(resolve => setImmediate(resolve))
  expect(done, 'the row waits').toBe(false)
  end.open('real')
  expect(await result).toBe('old: real')
  await change
  expect(results).toHaveLength(1)
  const gone = text !== undefined && (text === '' || text.includes('disabled'))
  expect(await call()).toMatch(gone ? /^Error.*slow/ : /^new: at once/)
})

test('a call whose row restarts, because it injects what a changed row provides, has its real result', async () => {
  const begun = latch()
  const end = latch<string>()
  const paper = { provide: ['paper'], apply: (ctx: Context) => void ctx.provide('paper', {}) }
  const offering = slow('old', (_ctx, exec) => {
    begun.open()
    return orCancelled(end.promise, exec)
  })
  const modules = {
    paper,
    middle: { provide: ['ream'], inject: ['paper'], apply: (ctx: Context) => void ctx.provide('ream', {}) },
    slow: { ...offering, inject: ['tools', 'ream'] },
  }
  const rows = '- { id: s, name: slow }\n- { id: m, name: middle }\n- { id: p, name: paper }\n'
  const { call, loader, tree } = await boot(modules, rows)
  const heard: string[][] = []
  tree.ctx.on('loader/drain', leaving => void heard.push([...leaving]))
  const result = call()
  await begun.promise
  const change = loader.reload({ remount: new Set(['p']) })
  await vi.waitUntil(() => heard.length)
  end.open('real')
  expect(await result).toBe('old: real')
  await change
  expect(heard).toEqual([['p', 's', 'm']])
})

test('whoever waits for a call to end is told after a second what is waited for', async () => {
  const begun = latch()
  const end = latch<string>()
  const said = latch<string>()
  const modules: Record<string, unknown> = {
    slow: slow('old', (_ctx, exec) => {
      begun.open()
      return orCancelled(end.promise, exec)
    }),
  }
  const write = ({ level, name, text }: LogRecord) => {
    if (text.includes('waits for')) said.open(`${level} ${name}: ${text}`)
  }
  const { call, loader } = await boot(modules, undefined, { level: 'info', write })
  const result = call()
  await begun.promise
  const change = loader.reload({ remount: new Set(['s']) })
  expect(await said.promise).toBe('info tools: a change waits for running calls of tool "slow" (row s)')
  end.open('real')
  expect(await result).toBe('old: real')
  await change
})

test('a call that hangs is left after a while, with one line that names the tool', async () => {
  const begun = latch()
  const modules: Record<string, unknown> = {
    slow: slow('old', (_ctx, exec) => {
      begun.open()
      return orCancelled(new Promise<never>(() => {}), exec)
    }),
  }
  const { call, loader, tree, results } = await boot(modules, undefined, { drainMs: 30 })
  const result = call()
  await begun.promise
  modules.slow = slow('new', () => 'at once')
  await loader.reload({ remount: new Set(['s']) })
  expect(await result).toMatch(/^Error: TOOL_WITHDRAWN|^Error.*unloaded/)
  expect(results).toHaveLength(1)
  const lines = tree
    .logs()
    .split('\n')
    .filter(line => line.startsWith('warn'))
  expect(lines).toEqual([
    'warn tools: a call of tool "slow" (row s) did not end within 30 ms; its row does not wait any longer',
  ])
  expect(await call()).toBe('new: at once')
})

test('a call that asks for the change of its own row gets its answer, and ends as it likes', async () => {
  const modules: Record<string, unknown> = {
    slow: slow('old', async ctx => {
      const change = await ctx.loader.reload({ remount: new Set(['s']) })
      return change.remounted.join()
    }),
  }
  const { call, results, tree } = await boot(modules)
  const asking = call()
  modules.slow = slow('new', () => 'at once')
  expect(await asking).toBe('old: s')
  expect(results).toHaveLength(1)
  expect(tree.logs()).not.toContain('warn')
  expect(await call()).toBe('new: at once')
})

test("calls that ask for the change of each other's rows do not wait for each other", async () => {
  const begun = latch()
  const asking = (name: string, other: string) => ({
    name,
    inject: ['tools'],
    apply(ctx: Context) {
      const execute = async () => {
        await begun.promise
        await ctx.loader.update(other, { label: name })
        return (await ctx.loader.update(other, { config: { by: name } })).remounted.join()
      }
      ctx.tools.register(raw(name, { execute }))
    },
  })
  const modules = { one: asking('one', 'two'), two: asking('two', 'one') }
  const { tree } = await boot(modules, '- { id: one, name: one }\n- { id: two, name: two }\n')
  const call = async (name: string) => textOf(await tree.ctx.tools.execute({ name, arguments: '{}' }))
  const calls = [call('one'), call('two')]
  begun.open()
  expect(await Promise.all(calls)).toEqual(['two', 'one'])
})

test('a change that is refused lets the call go on', async () => {
  const begun = latch()
  const end = latch<string>()
  const modules: Record<string, unknown> = {
    slow: slow('old', (_ctx, exec) => {
      begun.open()
      return orCancelled(end.promise, exec)
    }),
  }
  const { call, say } = await boot(modules)
  const result = call()
  await begun.promise
  await expect(say('- { id: s, name: nowhere }\n')).rejects.toThrow('TREE_MODULE_NOT_FOUND')
  end.open('real')
  expect(await result).toBe('old: real')
})

test.each([
  ['no name', { name: undefined }],
  ['no schema', { parameters: undefined }],
  ['no code', { execute: 'soon' }],
  ['a name that is taken', { name: 'other' }],
])('a plugin whose tool has %s does not take the place of one that works', async (_what, bad) => {
  const modules: Record<string, unknown> = { slow: slow('old', () => 'works') }
  modules.other = { inject: ['tools'], apply: (ctx: Context) => void ctx.tools.register(raw('other')) }
  const { call, loader, tree } = await boot(modules, '- { id: other, name: other }\n- { id: s, name: slow }\n')
  modules.slow = {
    name: 'slow',
    inject: ['tools'],
    apply: (ctx: Context) => void ctx.tools.register(raw('slow', bad as never)),
  }
  await expect(loader.reload({ remount: new Set(['s']) })).rejects.toThrow(
    /^TOOL_(INVALID|DUPLICATE)[\s\S]*\(row s\)|slow/,
  )
  expect(await call()).toBe('old: works')
  expect(tree.ctx.tools.schemas().map(({ name }) => name)).toEqual(['other', 'slow'])
})
