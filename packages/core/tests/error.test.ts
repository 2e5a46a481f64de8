import { errorMessage, HarnessError, isHarnessError } from '@cambium/core'
import { describe, expect, it } from 'vitest'

describe('an error of the harness', () => {
  it('reads as what happened, where, and what to do', () => {
    const error = new HarnessError('TOOL_DUPLICATE', 'tool "hello" is already offered by greeter', {
      where: 'rival (cordis.yml:12:3)',
      fix: 'rename one of the two, or disable greeter in cordis.yml',
    })
    expect(error.message).toBe(`TOOL_DUPLICATE: tool "hello" is already offered by greeter
  where: rival (cordis.yml:12:3)
  fix:   rename one of the two, or disable greeter in cordis.yml`)
    expect(`${error}`).toBe(`HarnessError: ${error.message}`)
    expect(error).toMatchObject({ code: 'TOOL_DUPLICATE', problem: 'tool "hello" is already offered by greeter' })
  })

  it('is one line where there is no more to say', () => {
    const error = new HarnessError('A_B', 'it broke')
    expect(error.message).toBe('A_B: it broke')
    expect('cause' in error).toBe(false)
  })

  it('keeps its cause', () => {
    const cause = new Error('deep')
    expect(new HarnessError('A_B', 'it broke', { cause }).cause).toBe(cause)
  })

  it('is known by its shape, so that another copy of the package counts', () => {
    expect(isHarnessError(new HarnessError('A_B', 'it broke'))).toBe(true)
    expect(isHarnessError(Object.assign(new Error('x'), { name: 'HarnessError', code: 'A_B' }))).toBe(true)
    expect(isHarnessError(Object.assign(new Error('x'), { code: 'ENOENT' }))).toBe(false)
    expect(isHarnessError({ name: 'HarnessError', code: 'A_B' })).toBe(false)
    expect(isHarnessError(undefined)).toBe(false)
  })
})

describe('a message', () => {
  it.each([
    [new Error('plain'), 'plain'],
    [new TypeError(), 'TypeError'],
    ['text', 'text'],
    [undefined, 'undefined'],
    [null, 'null'],
    [{ a: 1 }, '{"a":1}'],
    [Symbol('s'), 'Symbol(s)'],
    [10n, '<unprintable thrown value>'],
    [new AggregateError([new Error('a'), 'b']), 'a; b'],
    [new AggregateError([], 'none'), 'none'],
  ])('of %o can always be made', (thrown, text) => {
    expect(errorMessage(thrown)).toBe(text)
  })
  it('of what throws when it is looked at says that', () => {
    const hostile = Object.create(Error.prototype, {
      message: {
        get() {
          throw new Error('gotcha')
        },
      },
    })
    expect(errorMessage(hostile)).toBe('<unprintable thrown value>')
  })
})
