import { createRoot, HarnessError, type LogLevel, type LogRecord, mountLogger, renderLog } from '@cambium/core'
import { describe, expect, it, vi } from 'vitest'
import { bench } from './bench.ts'
import { mount } from './scenarios.ts'

describe('a record', () => {
  it('carries time, level, the name of its plugin and its text', async () => {
    const records: LogRecord[] = []
    const root = createRoot({ level: 'info', write: record => void records.push(record) })
    const before = Date.now()
    await mount(root, 'my-plugin', ctx => ctx.logger.warn('careful', 7, { a: 1 }))
    expect(records).toEqual([{ time: expect.any(Number), level: 'warn', name: 'my-plugin', text: 'careful 7 {"a":1}' }])
    expect(records[0]!.time).toBeGreaterThanOrEqual(before)
  })

  it.each([
    ['silent', []],
    ['error', ['error']],
    ['warn', ['error', 'warn']],
    ['info', ['error', 'warn', 'info']],
    ['debug', ['error', 'warn', 'info', 'debug']],
  ] as [LogLevel, string[]][])('is written at level %s or above', (level, written) => {
    const { root, logs } = bench({ level })
    for (const kind of ['error', 'warn', 'info', 'debug'] as const) root.logger('x')[kind]('said')
    expect(logs.map(line => line.split(' ')[0])).toEqual(written)
  })

  it('fills in placeholders, as plugins written for cordis expect', () => {
    const { root, logs } = bench()
    const log = root.logger('x')
    log.info('%s listens on %C with %d', 'web', 'http://x', 3.7)
    log.info('100%sure', 'no placeholder follows a lone text: %s')
    log.info('50%s')
    log.warn('could not %s', 'read', new Error('gone'))
    expect(logs).toEqual([
      'info x: web listens on http://x with 3',
      'info x: 100no placeholder follows a lone text: %sure',
      'info x: 50%s',
      'warn x: could not read Error: gone',
    ])
  })

  it('of an error shows the cause first, and the stack only for debugging', () => {
    const { root, logs } = bench()
    root.logger('x').error(new Error('outer', { cause: new Error('inner') }))
    expect(logs).toEqual(['error x: Error: inner', 'error x: Error: outer'])
    const error = new Error('boom')
    expect(renderLog(error)).toBe('Error: boom')
    expect(renderLog(error, true)).toBe(error.stack)
    expect(renderLog(new HarnessError('A_B', 'it broke', { fix: 'mend it' }))).toBe('A_B: it broke\n  fix:   mend it')
  })
})

it('a logger that is undone takes no more records', () => {
  const { root } = bench()
  const write = vi.fn()
  const undo = mountLogger(root, 'info', write)
  root.logger('x').info('one')
  undo()
  root.logger('x').info('two')
  expect(write).toHaveBeenCalledTimes(1)
})
