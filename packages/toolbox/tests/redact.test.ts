import { keepSecrets } from '@cambium/core'
import * as credentials from '@cambium/store/credentials'
import * as redact from '@cambium/toolbox/redact'
import { failedResult, toolResult } from '@cambium/tools'
import { describe, expect, it } from 'vitest'
import { openWorkbench, textOf, type Workbench, type WorkbenchOptions } from './workbench.ts'

const CANARY = 'sk-canary-4f9a81c2d7e05b36'
const tool = (name: string, execute: (args: never, exec: never) => unknown) =>
  ({ name, description: name, parameters: { type: 'object' }, execute }) as never

async function openRedacting(options?: WorkbenchOptions): Promise<Workbench> {
  const bench = await openWorkbench(options)
  await bench.ctx.plugin(redact)
  return bench
}

/** All that is stored of a session, and all that was shown while it ran. */
function record({ ctx, agent }: Workbench) {
  const shown: unknown[] = []
  ctx.on('session/event', (_session, event) => void shown.push(event))
  return { logged: () => JSON.stringify(agent.session.events()), shown: () => JSON.stringify(shown) }
}

describe('a stored key', () => {
  it('is in nothing that a tool answers, shows or leaves in the log', async () => {
    const bench = await openRedacting({ files: { '.env': `TEST_API_KEY=${CANARY}\n` } })
    const { ctx, dir, ask, call } = bench
    await ctx.plugin(credentials, { home: `${dir}/home` })
    await ctx.credentials.set('TEST_API_KEY', CANARY)
    const seen = record(bench)
    expect(await ask('bash', { command: 'cat home/credentials.json' })).toContain('"TEST_API_KEY": "[redacted]"')
    expect(await ask('read', { file_path: '.env' })).toContain('TEST_API_KEY=[redacted]')
    expect(await ask('grep', { pattern: 'API_KEY', path: '.env' })).toContain('[redacted]')
    expect(await ask('bash', { command: `echo ${CANARY} >&2; exit 3` })).toContain('[redacted]')
    const failed = await call('read', { file_path: `${CANARY}.txt` })
    expect(failed.isError).toBe(true)
    expect(textOf(failed)).toContain('[redacted].txt')
    expect(JSON.stringify(failed)).not.toContain(CANARY)
    // What the model itself writes stays as it is: it had it from somewhere else.
    const results = JSON.parse(seen.logged()).filter(({ type }: { type: string }) => type === 'tool/result')
    expect(results).toHaveLength(5)
    expect(JSON.stringify(results)).not.toContain(CANARY)
  })

  it('is not seen while a command runs, not even a part of it', async () => {
    const bench = await openRedacting()
    const { ctx, ask } = bench
    keepSecrets(ctx, () => [CANARY])
    const tails: string[] = []
    let go = () => {}
    ctx.on('session/event', (_session, event) => {
      if (event.type !== 'tool/progress') return
      tails.push((event.data.data as { tail: string }).tail)
      go()
    })
    // Half of it is written, and the other half once that was shown.
    const shown = new Promise<void>(resolve => {
      go = resolve
    })
    const done = ask('bash', {
      command: `printf %s ${CANARY.slice(0, 14)}; while [ ! -e go ]; do sleep 0.02; done; echo ${CANARY.slice(14)}; sleep 0.3`,
    })
    await shown
    bench.files.write('go', '')
    expect(await done).toBe('[redacted]')
    expect(tails.length).toBeGreaterThan(1)
    for (const tail of tails) expect(tail.trim()).toBe('[redacted]')
  })
})

describe('a result', () => {
  const open = async () => {
    const bench = await openRedacting()
    keepSecrets(bench.ctx, () => [CANARY])
    return bench
  }

  it('is freed of secrets in its value, its text and its data', async () => {
    const { ctx, call } = await open()
    ctx.tools.register(tool('value', () => ({ key: CANARY, list: [1, CANARY] })))
    ctx.tools.register(tool('parts', () => toolResult({ value: 1, content: `<${CANARY}>`, meta: { at: CANARY } })))
    expect(await call('value', {})).toMatchObject({
      value: { key: '[redacted]', list: [1, '[redacted]'] },
      content: [{ type: 'text', text: expect.stringContaining('"key": "[redacted]"') }],
    })
    expect(await call('parts', {})).toMatchObject({
      value: 1,
      content: [{ type: 'text', text: '<[redacted]>' }],
      meta: { at: '[redacted]' },
    })
  })

  it('of a failure is freed in its error too', async () => {
    const { ctx, call } = await open()
    ctx.tools.register(
      tool('thrown', () => {
        throw new Error(`no ${CANARY}`)
      }),
    )
    ctx.tools.register(tool('said', () => failedResult('X_FAILED', `no ${CANARY}`, { meta: CANARY })))
    const thrown = await call('thrown', {})
    expect(thrown.error).toEqual({ code: 'TOOL_FAILED', message: 'no [redacted]' })
    expect(textOf(thrown)).toBe('Error: no [redacted]')
    expect(JSON.stringify(await call('said', {}))).not.toContain(CANARY)
  })

  it('that another listener changes, blocks or adds to is freed as well', async () => {
    const { ctx, call } = await open()
    ctx.tools.register(tool('plain', () => 'nothing here'))
    const answers = [
      { kind: 'accept', content: [{ type: 'text', text: CANARY }] },
      { kind: 'accept', value: `v ${CANARY}` },
      { kind: 'block', feedback: `blocked ${CANARY}` },
    ] as const
    for (const answer of answers) {
      const stop = ctx.on('tools/post-execute', async () => answer)
      const result = await call('plain', {})
      expect(textOf(result)).toContain('[redacted]')
      expect(JSON.stringify(result)).not.toContain(CANARY)
      stop()
    }
  })

  it('without a secret is the very same, and with one that is a word as well', async () => {
    const { ctx, call } = await open()
    keepSecrets(ctx, () => ['password', 'lm-studio', 'abc'])
    ctx.tools.register(tool('plain', () => ({ text: 'password of lm-studio: abc', more: [1, null] })))
    expect((await call('plain', {})).value).toEqual({ text: 'password of lm-studio: abc', more: [1, null] })
  })

  it('of a MiB costs no time that one would notice, and secrets stay when the plugin has left', async () => {
    const bench = await openWorkbench()
    const plugin = await bench.ctx.plugin(redact)
    const many = Array.from({ length: 20 }, (_, i) => `sk-key-${i}-0123456789abcdef`)
    keepSecrets(bench.ctx, () => [CANARY, ...many])
    const line = 'a line of a log that says sk-key and so on 0123456789\n'
    const text = line.repeat(Math.ceil(2 ** 20 / line.length)) + CANARY
    bench.ctx.tools.register(tool('large', () => text))
    const started = performance.now()
    const result = await bench.call('large', {})
    const took = performance.now() - started
    expect(textOf(result).endsWith('[redacted]')).toBe(true)
    expect(took).toBeLessThan(1_000)
    await plugin.dispose()
    expect(textOf(await bench.call('large', {})).endsWith(CANARY)).toBe(true)
  })
})
