import { createScope, errorMessage, gate, notify, parallel, serial, waterfall } from '@cambium/core'
import { describe, expect, it } from 'vitest'
import { bench, heads, turn } from './bench.ts'
import { mount } from './scenarios.ts'

declare module 'cordis' {
  interface Events {
    'test/asked'(word: string): unknown
    'test/wrapped'(word: string, next: () => Promise<string>): Promise<string>
  }
}

/** One listener for each answer, in order; functions are the listeners themselves. */
function asked(...answers: unknown[]) {
  const { root, logs } = bench()
  const heard: number[] = []
  answers.forEach((answer, at) => {
    root.on('test/asked', (word: string) => {
      heard.push(at)
      return typeof answer === 'function' ? (answer as (word: string) => unknown)(word) : answer
    })
  })
  return { root, logs, heard }
}

const boom = () => {
  throw new Error('boom')
}
const rejects = async () => boom()

describe('notify', () => {
  it('reaches all and answers nothing, whatever they throw, reject or return', async () => {
    const { root, logs, heard } = asked(boom, rejects, 'answer', () => new Promise(() => {}), undefined)
    expect(notify(root, undefined, 'test/asked', 'x')).toBeUndefined()
    expect(heard).toEqual([0, 1, 2, 3, 4])
    await turn()
    expect(heads(logs)).toEqual([
      'error root: listener of test/asked failed: Error: boom',
      'error root: listener of test/asked failed: Error: boom',
    ])
  })

  it('says where a listener failed', () => {
    const { root, logs } = asked(boom)
    notify(root, undefined, 'test/asked', 'x')
    expect(logs[0]).toMatch(/\n\s+at .*dispatch\.test\.ts/)
  })

  it('copes with what is thrown though it is no error', () => {
    const { root, logs } = asked(
      () => {
        throw 'text'
      },
      () => {
        throw undefined
      },
      () => {
        throw { toJSON: boom }
      },
    )
    notify(root, undefined, 'test/asked', 'x')
    expect(logs.map(line => line.replace(/.*failed: /, ''))).toEqual([
      'text',
      'undefined',
      '<unprintable thrown value>',
    ])
  })
})

describe('gate', () => {
  it('ends at the first throw, which reaches the caller', () => {
    const { root, heard } = asked('yes', boom, 'never asked')
    expect(() => gate(root, undefined, 'test/asked', 'x')).toThrow('boom')
    expect(heard).toEqual([0, 1])
  })

  it('passes when nobody throws; a promise is no veto, and its failure is reported with its plugin', async () => {
    const { root, logs } = bench()
    await mount(root, 'late', ctx => ctx.on('test/asked', rejects))
    expect(() => gate(root, undefined, 'test/asked', 'x')).not.toThrow()
    await turn()
    expect(heads(logs)).toEqual(['error late: listener of test/asked failed: Error: boom'])
  })
})

describe('waterfall', () => {
  it('wraps the inner function in listeners, the first outermost', async () => {
    const { root } = bench()
    for (const name of ['a', 'b']) root.on('test/wrapped', async (word, next) => `${name}(${await next()}:${word})`)
    expect(await waterfall(root, undefined, 'test/wrapped', 'x', async () => 'body')).toBe('a(b(body:x):x)')
  })

  it('ends where next is not called, and runs the rest again when it is called again', async () => {
    const { root } = bench()
    const order: string[] = []
    root.on('test/wrapped', async (_, next) => next().catch(next).catch(next))
    root.on('test/wrapped', async (_, next) => {
      order.push('timeout')
      return next()
    })
    let turns = 0
    const answer = await waterfall(root, undefined, 'test/wrapped', 'x', async () =>
      ++turns < 3 ? boom() : `turn ${turns}`,
    )
    expect([answer, order.length]).toEqual(['turn 3', 3])
    root.on('test/wrapped', async () => 'short', { prepend: true })
    expect(await waterfall(root, undefined, 'test/wrapped', 'x', boom)).toBe('short')
    expect(turns).toBe(3)
  })

  it('keeps concurrent calls of next apart', async () => {
    const { root } = bench()
    root.on('test/wrapped', async (_, next) => (await Promise.all([next(), next()])).join('+'))
    let calls = 0
    root.on('test/wrapped', async (_, next) => {
      const call = ++calls
      await turn()
      return `${await next()}${call}`
    })
    expect(await waterfall(root, undefined, 'test/wrapped', 'x', async () => 'body')).toBe('body1+body2')
  })

  it('lets a failure through', async () => {
    const { root } = bench()
    await expect(waterfall(root, undefined, 'test/wrapped', 'x', rejects)).rejects.toThrow('boom')
  })
})

describe('serial', () => {
  it('asks in order, each after the last, until one answers', async () => {
    const order: string[] = []
    const slow = async () => {
      await turn()
      order.push('slow')
    }
    const { root, heard } = asked(slow, () => void order.push('quick'), null, false, 0, 'never asked')
    expect(await serial(root, undefined, 'test/asked', 'x')).toBe(0)
    expect(order).toEqual(['slow', 'quick'])
    expect(heard).toEqual([0, 1, 2, 3, 4])
  })

  it('answers undefined when nobody does, and rejects with the first failure', async () => {
    expect(await serial(asked(undefined).root, undefined, 'test/asked', 'x')).toBeUndefined()
    const { root, heard } = asked(rejects, 'never asked')
    await expect(serial(root, undefined, 'test/asked', 'x')).rejects.toThrow('boom')
    expect(heard).toEqual([0])
  })
})

describe('parallel', () => {
  it('asks all at once and waits for all', async () => {
    let ended = 0
    const slow = async () => {
      await turn()
      ended++
    }
    const { root, heard } = asked(slow, slow)
    const done = parallel(root, undefined, 'test/asked', 'x')
    expect(heard).toEqual([0, 1])
    await done
    expect(ended).toBe(2)
  })

  it('rejects with every failure, after all have settled', async () => {
    let ended = false
    const { root } = asked(boom, rejects, async () => {
      await turn()
      ended = true
    })
    const failure = await parallel(root, undefined, 'test/asked', 'x').catch(error => error)
    expect(failure).toBeInstanceOf(AggregateError)
    expect(failure.errors).toHaveLength(2)
    expect(errorMessage(failure)).toBe('boom; boom')
    expect(ended).toBe(true)
  })
})

it('every mode is heard in the scope it is for and above, and not beside it', async () => {
  const { root } = bench()
  const [mine, other] = [{}, {}]
  const heard: string[] = []
  const listen = (name: string, ctx = root) => {
    ctx.on('test/asked', word => void heard.push(`${name} ${word}`))
    ctx.on('test/wrapped', (word, next) => {
      heard.push(`${name} ${word}`)
      return next()
    })
  }
  listen('root')
  listen('mine', createScope(root, mine).ctx)
  listen('other', createScope(root, other).ctx)
  notify(root, mine, 'test/asked', 'notify')
  gate(root, mine, 'test/asked', 'gate')
  await serial(root, mine, 'test/asked', 'serial')
  await parallel(root, mine, 'test/asked', 'parallel')
  await waterfall(root, mine, 'test/wrapped', 'waterfall', async () => '')
  const modes = ['notify', 'gate', 'serial', 'parallel', 'waterfall']
  expect(heard).toEqual(modes.flatMap(mode => [`root ${mode}`, `mine ${mode}`]))
})
