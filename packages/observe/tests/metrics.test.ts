import { get as httpGet } from 'node:http'
import { call, fail, say } from '@cambium/testkit'
import { afterEach, expect, test } from 'vitest'
import { ask, boot, type Watched } from './boot.ts'

const ROW = { id: 'metrics', name: '@cambium/observe/metrics' }

let tree: Watched
afterEach(() => tree?.dispose())

async function started(config: object, ...replies: NonNullable<Parameters<typeof boot>[1]>) {
  tree = await boot([{ ...ROW, config }], replies)
  tree.ctx.tools.register({
    name: 'look',
    description: 'looks',
    parameters: { type: 'object' },
    execute: (args: { fail?: boolean }) => {
      if (args.fail) throw new Error('it is dark')
      return 'seen'
    },
  })
  return tree.ctx
}

/** The lines of a metric, without histograms' buckets. */
const lines = (start: string) =>
  tree.ctx.metrics
    .prometheus()
    .split('\n')
    .filter(line => line.startsWith(start) && !line.includes('_bucket'))

function request(
  url: string,
  method = 'GET',
): Promise<{ status: number | undefined; type: string | undefined; body: string }> {
  return new Promise((resolve, reject) => {
    const sent = httpGet(url, { method, agent: false }, response => {
      let body = ''
      response.setEncoding('utf8').on('data', text => (body += text))
      response.on('end', () => resolve({ status: response.statusCode, type: response.headers['content-type'], body }))
    })
    sent.on('error', reject)
  })
}

test('turns, requests, tokens, money, tools and retries are counted', async () => {
  const usage = { inputTokens: 1_000, outputTokens: 500, cacheReadTokens: 30 }
  const ctx = await started(
    {},
    fail('SERVER'),
    { ...call('look'), usage },
    call('look', { fail: true }),
    call('invented'),
    say('done'),
    fail('AUTH'),
  )
  const { agent, dispose } = await ctx.agents.create()
  expect(lines('cambium_sessions_live')).toEqual(['cambium_sessions_live 1'])
  await ask(agent, 'look')
  await ask(agent, 'again')
  expect(lines('cambium_turns_total')).toEqual([
    'cambium_turns_total{reason="completed",code=""} 1',
    'cambium_turns_total{reason="error",code="AUTH"} 1',
  ])
  expect(lines('cambium_steps_total')).toEqual(['cambium_steps_total 5'])
  expect(lines('cambium_turn_duration_seconds_count')).toEqual(['cambium_turn_duration_seconds_count 2'])
  const fake = 'provider="fake",model="model"'
  expect(lines('cambium_llm_requests_total')).toEqual([
    `cambium_llm_requests_total{${fake},outcome="error",code="SERVER"} 1`,
    `cambium_llm_requests_total{${fake},outcome="tool-calls",code=""} 3`,
    `cambium_llm_requests_total{${fake},outcome="stop",code=""} 1`,
    `cambium_llm_requests_total{${fake},outcome="error",code="AUTH"} 1`,
  ])
  expect(lines('cambium_llm_tokens_total')).toEqual([
    `cambium_llm_tokens_total{${fake},kind="input"} 1000`,
    `cambium_llm_tokens_total{${fake},kind="cache_read"} 30`,
    `cambium_llm_tokens_total{${fake},kind="output"} 500`,
  ])
  expect(Number(lines('cambium_llm_cost_dollars_total')[0]!.split(' ')[1])).toBeCloseTo(0.00203, 5)
  expect(lines('cambium_llm_retries_total')).toEqual([`cambium_llm_retries_total{${fake},code="SERVER"} 1`])
  // A failure alone is no first piece of an answer.
  expect(lines('cambium_llm_time_to_first_chunk_seconds_count')).toEqual([
    `cambium_llm_time_to_first_chunk_seconds_count{${fake}} 4`,
  ])
  expect(lines('cambium_tool_calls_total')).toEqual([
    'cambium_tool_calls_total{tool="look",outcome="ok",code=""} 1',
    expect.stringMatching(/^cambium_tool_calls_total\{tool="look",outcome="error",code="\w+"\} 1$/),
    expect.stringMatching(/^cambium_tool_calls_total\{tool="unknown",outcome="error",code="\w+"\} 1$/),
  ])
  expect(lines('cambium_tool_duration_seconds_count')).toContain('cambium_tool_duration_seconds_count{tool="look"} 2')
  expect(lines('cambium_events_logged_total')).toEqual([`cambium_events_logged_total ${agent.session.seq}`])
  await dispose()
  expect(lines('cambium_sessions_live')).toEqual(['cambium_sessions_live 0'])
})

test('a request that nobody reads to its end is counted as such, and its stream is closed', async () => {
  const ctx = await started({}, { text: ['a', 'b'], hang: true })
  for await (const chunk of ctx.llm.stream({ provider: 'fake', model: 'model', messages: [] })) {
    if (chunk.type === 'text-delta') break
  }
  expect(lines('cambium_llm_requests_total')).toEqual([expect.stringContaining('outcome="abandoned"')])
})

test('a plugin brings its own metrics, which leave with it', async () => {
  const ctx = await started({})
  const fiber = ctx.plugin({
    name: 'mine',
    inject: ['metrics'],
    apply(own) {
      const seen = own.metrics.counter({ name: 'mine_seen_total', help: 'What was\nseen \\ "so"', labels: ['what'] })
      seen.inc({ what: 'a "b"\nc\\d' }, 2)
      seen.inc({ what: 'x', unknown: 'left out' })
      const size = own.metrics.histogram({ name: 'mine_size_bytes', help: 'Sizes', buckets: [1, 10] })
      for (const value of [0.5, 10, 99]) size.observe(value)
      expect(() => own.metrics.counter({ name: 'mine_seen_total', help: 'again' })).toThrow('METRIC_DUPLICATE')
      expect(() => own.metrics.counter({ name: 'mine_seen', help: 'no ending' })).toThrow('METRIC_INVALID')
      expect(() => own.metrics.gauge({ name: '1st', help: 'no name' })).toThrow('METRIC_INVALID')
      expect(() => own.metrics.histogram({ name: 'mine_x', help: 'x', buckets: [2, 1] })).toThrow('METRIC_INVALID')
      expect(() => seen.inc({}, -1)).toThrow('METRIC_VALUE')
    },
  })
  await fiber
  const text = ctx.metrics.prometheus()
  expect(text).toContain(`# HELP mine_seen_total What was\\nseen \\\\ "so"
# TYPE mine_seen_total counter
mine_seen_total{what="a \\"b\\"\\nc\\\\d"} 2
mine_seen_total{what="x"} 1
# HELP mine_size_bytes Sizes
# TYPE mine_size_bytes histogram
mine_size_bytes_bucket{le="1"} 1
mine_size_bytes_bucket{le="10"} 2
mine_size_bytes_bucket{le="+Inf"} 3
mine_size_bytes_sum 109.5
mine_size_bytes_count 3
`)
  await fiber.dispose()
  expect(ctx.metrics.prometheus()).not.toContain('mine_')
})

test('what labels come to is bounded', async () => {
  const ctx = await started({ maxLabelValues: 3, maxSeries: 5 })
  const one = ctx.metrics.counter({ name: 'one_total', help: 'one', labels: ['name'] })
  for (let i = 0; i < 10; i++) one.inc({ name: `n${i}` })
  expect(lines('one_total')).toEqual([
    'one_total{name="n0"} 1',
    'one_total{name="n1"} 1',
    'one_total{name="n2"} 1',
    'one_total{name="other"} 7',
  ])
  const two = ctx.metrics.counter({ name: 'two_total', help: 'two', labels: ['a', 'b'] })
  for (let i = 0; i < 9; i++) two.inc({ a: `a${i % 3}`, b: `b${Math.floor(i / 3)}` })
  expect(lines('two_total')).toHaveLength(6)
  expect(lines('two_total').at(-1)).toBe('two_total{a="other",b="other"} 4')
})

test('a port answers GET /metrics and nothing else, and is free when the row is gone', async () => {
  const ctx = await started({ port: 0 })
  const url = ctx.metrics.url!
  expect(url).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/metrics$/)
  expect(await request(url)).toEqual({
    status: 200,
    type: 'text/plain; version=0.0.4; charset=utf-8',
    body: expect.stringContaining('# TYPE cambium_turns_total counter\n'),
  })
  expect(await request(url, 'HEAD')).toMatchObject({ status: 200, body: '' })
  expect(await request(url, 'DELETE')).toMatchObject({ status: 405 })
  expect(await request(url.replace('/metrics', '/'))).toMatchObject({ status: 404 })
  await ctx.loader.remove('metrics')
  await expect(request(url)).rejects.toThrow('ECONNREFUSED')
  expect(ctx.get('metrics')).toBeUndefined()
})

test('a port that another run has is said, and fails nothing', async () => {
  const { metrics } = await started({ port: 0 })
  const port = Number(new URL(metrics.url!).port)
  const second = await boot([{ ...ROW, config: { port } }])
  try {
    expect(second.ctx.metrics.url).toBeUndefined()
    expect(second.ctx.metrics.prometheus()).toContain('# TYPE cambium_turns_total counter')
    expect(second.logs()).toContain(`warn metrics: port ${port} of 127.0.0.1 is taken`)
  } finally {
    await second.dispose()
  }
})

test('other machines are not answered', async () => {
  await expect(boot([{ ...ROW, config: { port: 0, host: '0.0.0.0' } }])).rejects.toThrow('host')
})
