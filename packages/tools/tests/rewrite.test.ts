import type { Context, JsonValue } from '@cambium/core'
import { expect, test, vi } from 'vitest'
import type { PreToolDecision, ToolExecution } from '../src/index.ts'
import { boot, call, fakeAgent, never, raw, textOf } from './boot.ts'

type Next = () => Promise<PreToolDecision>
type Judge = (exec: ToolExecution, next: Next) => Promise<PreToolDecision>

async function setup(...judges: [name: string, judge: Judge][]) {
  const { ctx } = await boot()
  const ran = vi.fn((args: JsonValue) => args)
  const schema = { type: 'object', properties: { path: { type: 'string' } } }
  ctx.tools.register(raw('work', { parameters: schema, execute: ran as never }))
  for (const [name, judge] of judges) {
    await ctx.plugin({ name, apply: (own: Context) => void own.on('tools/pre-execute', judge) })
  }
  const { agent } = await fakeAgent(ctx)
  const go = async (path: string) =>
    (await ctx.tools.runBatch([call('work', { path }, 'c')], { agent, signal: never() })).results[0]!
  const logged = () =>
    agent.session
      .events()
      .flatMap(event => (event.type === 'tool/rewritten' ? [[event.data.by, event.data.arguments]] : []))
  return { ctx, ran, go, logged, agent }
}

const pathOf = (exec: ToolExecution) => (exec.arguments as { path: string }).path
const allow = (path: string): PreToolDecision => ({ kind: 'allow', arguments: { path } })

test('rewritten arguments run; the log keeps what the model wrote and what was used, and by whom', async () => {
  const { go, ran, logged, agent } = await setup(['rewriter', async (_exec, _next) => allow('/safe')])
  const result = await go('/etc')
  expect(result.value).toEqual({ path: '/safe' })
  expect(ran).toHaveBeenCalledTimes(1)
  expect(agent.session.last('tool/call')?.data.arguments).toBe('{"path":"/etc"}')
  expect(logged()).toEqual([['rewriter', { path: '/safe' }]])
  expect(
    agent.session
      .events()
      .map(event => event.type)
      .slice(2),
  ).toEqual(['tool/call', 'tool/rewritten', 'tool/result'])
})

test('a rewriter may say for whom it acts', async () => {
  const { go, logged } = await setup(['hooks', async () => ({ ...allow('/b'), by: 'hook guard.sh' })])
  await go('/a')
  expect(logged()).toEqual([['hook guard.sh', { path: '/b' }]])
})

test('arguments that are the same are no rewrite', async () => {
  const { go, logged } = await setup(['echo', async exec => ({ kind: 'allow', arguments: exec.arguments })])
  expect((await go('/a')).value).toEqual({ path: '/a' })
  expect(logged()).toEqual([])
})

test('an outer rewrite is judged by inner listeners, by outer ones and by guards on the effective arguments', async () => {
  const outer: string[] = []
  const inner: string[] = []
  const { ctx, go, ran } = await setup(
    [
      'outer',
      async (exec, next) => {
        outer.push(pathOf(exec))
        return next()
      },
    ],
    ['rewriter', async exec => allow(`${pathOf(exec)}/etc`)],
    [
      'inner',
      async (exec, next) => {
        inner.push(pathOf(exec))
        return pathOf(exec).includes('etc') ? { kind: 'deny', reason: 'not there' } : next()
      },
    ],
  )
  expect(textOf(await go('/a'))).toBe('Error: not there')
  expect([outer, inner]).toEqual([['/a', '/a/etc'], ['/a/etc']])
  expect(ran).not.toHaveBeenCalled()
  const guarded: string[] = []
  ctx.tools.guard(exec => void guarded.push(pathOf(exec)))
  expect(guarded).toEqual([])
})

test('a guard judges what a listener made of the arguments', async () => {
  const { ctx, go } = await setup(['rewriter', async () => allow('/etc')])
  ctx.tools.guard(exec => (pathOf(exec) === '/etc' ? 'not there' : undefined))
  expect(textOf(await go('/a'))).toBe('Error: not there')
})

test('a rewrite that is no fixed point is applied once', async () => {
  const { go, logged } = await setup(['prefixer', async exec => allow(`sandbox ${pathOf(exec)}`)])
  expect((await go('ls')).value).toEqual({ path: 'sandbox ls' })
  expect(logged()).toEqual([['prefixer', { path: 'sandbox ls' }]])
})

test('a rewriter is heard again when another one changed what it had made', async () => {
  const { go, logged } = await setup(
    [
      'sanitiser',
      async (exec, next) => (pathOf(exec).includes('..') ? allow(pathOf(exec).replaceAll('..', '')) : next()),
    ],
    ['linker', async (exec, next) => (pathOf(exec) === 'link' ? allow('../target') : next())],
  )
  expect((await go('link')).value).toEqual({ path: '/target' })
  expect(logged()).toEqual([['sanitiser', { path: '/target' }]])
})

test('the one who had the idea is named, not those who passed it on', async () => {
  const { go, logged } = await setup(
    ['wrapper', async (_exec, next) => ({ ...(await next()) })],
    ['idea', async (exec, next) => (pathOf(exec) === 'a' ? allow('b') : next())],
  )
  expect((await go('a')).value).toEqual({ path: 'b' })
  expect(logged()).toEqual([['idea', { path: 'b' }]])
})

test('two that undo each other end in a denial that names both', async () => {
  const { go, ran } = await setup(
    ['yes', async exec => allow(`${pathOf(exec)}y`)],
    ['no', async exec => allow(pathOf(exec).slice(0, -1))],
  )
  expect(textOf(await go('a'))).toBe('Error: yes and no keep rewriting the arguments of this call')
  expect(ran).not.toHaveBeenCalled()
})

test('rewritten arguments are validated, and the blame is where it belongs', async () => {
  const { go, ran } = await setup(['rewriter', async () => ({ kind: 'allow', arguments: { path: 5 } })])
  const result = await go('a')
  expect(textOf(result)).toBe('Error: invalid arguments, as rewriter rewrote them: "path" must be a string, got 5')
  expect(result.error?.code).toBe('INVALID_ARGUMENTS')
  expect(ran).not.toHaveBeenCalled()
})

test('a rewriter that asks has its question asked, though it is not heard on its own output', async () => {
  const { ctx, go } = await setup([
    'rewriter',
    async exec => ({ kind: 'ask', reason: 'look at this', arguments: { path: `${pathOf(exec)}!` } }),
  ])
  expect(textOf(await go('a'))).toMatch(/nobody is there to give it: look at this/)
  const request = vi.fn(async (_question: { exec: ToolExecution }) => ({ kind: 'allow' }) as const)
  await ctx.plugin({ name: 'approver', apply: (own: Context) => void own.provide('approval', { request }) })
  expect((await go('a')).value).toEqual({ path: 'a!' })
  expect(request).toHaveBeenCalledTimes(1)
})

test('a rewrite cannot be used to get around an inner listener that asks', async () => {
  const { go } = await setup(
    ['auto-allow', async () => allow('/x')],
    ['rules', async () => ({ kind: 'ask', reason: 'rule says so' })],
  )
  expect(textOf(await go('a'))).toMatch(/nobody is there to give it: rule says so/)
})

test('arguments that are no JSON are refused before anything runs', async () => {
  const { go, ran } = await setup([
    'rewriter',
    async () => ({ kind: 'allow', arguments: { path: (() => {}) as never } }),
  ])
  expect(textOf(await go('a'))).toMatch(/a check by rewriter failed: what it wants as arguments\.path is function/)
  expect(ran).not.toHaveBeenCalled()
})
