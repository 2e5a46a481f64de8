import { ByteRedactor, createRoot, keepSecrets, type LogRecord, redact, redactCut, redactJson } from '@cambium/core'
import fc from 'fast-check'
import { afterEach, describe, expect, it } from 'vitest'

const KEY = 'sk-canary-4f9a81c2d7e05b36'

const roots: ReturnType<typeof createRoot>[] = []
afterEach(async () => {
  for (const root of roots.splice(0)) await root.fiber.dispose()
})

function keep(...values: string[]) {
  const records: LogRecord[] = []
  const root = createRoot({ level: 'debug', write: record => void records.push(record) })
  roots.push(root)
  keepSecrets(root, () => values)
  return { root, records }
}

describe('a secret', () => {
  it('is taken out of text wherever it stands, in JSON and in addresses too', () => {
    keep(KEY, 'a"b/c+d 123456789e')
    expect(redact(`x${KEY}y ${KEY}`)).toBe('x[redacted]y [redacted]')
    expect(redact(JSON.stringify({ a: 'a"b/c+d 123456789e' }))).toBe('{"a":"[redacted]"}')
    expect(redact(`?k=${encodeURIComponent('a"b/c+d 123456789e')}&b`)).toBe('?k=[redacted]&b')
  })

  it('that holds another one goes as a whole', () => {
    keep(KEY, `${KEY}-and-more`)
    expect(redact(`${KEY}-and-more ${KEY}`)).toBe('[redacted] [redacted]')
  })

  it('is known while its plugin lives, and what is asked for is what is known then', async () => {
    let values: readonly string[] = [KEY]
    const root = createRoot()
    keepSecrets(root, () => values)
    expect(redact(KEY)).toBe('[redacted]')
    values = ['another-one-8d2f']
    expect(redact(`${KEY} another-one-8d2f`)).toBe(`${KEY} [redacted]`)
    await root.fiber.dispose()
    expect(redact('another-one-8d2f')).toBe('another-one-8d2f')
  })

  it.each([
    'lm-studio',
    'ollama',
    'password',
    'Administrator',
    'not-needed-for-local-models',
    '12345678',
    'aaaaaaaaaaaaaaaa1',
  ])('such as %s could be a word, and is left alone', word => {
    keep(word)
    expect(redact(`is ${word} here`)).toBe(`is ${word} here`)
  })

  it('that is short counts only where it stands alone', () => {
    keep('passw0rd')
    expect(redact('passw0rd, "passw0rd" passw0rd1 mypassw0rd')).toBe('[redacted], "[redacted]" passw0rd1 mypassw0rd')
  })

  it('is taken out of data, and data without one stays the same object', () => {
    keep(KEY)
    const clean = { a: ['x', 1, null], b: { c: true } }
    expect(redactJson(clean)).toBe(clean)
    expect(redactJson({ a: [1, `<${KEY}>`], [KEY]: null, b: clean })).toEqual({
      a: [1, '<[redacted]>'],
      '[redacted]': null,
      b: clean,
    })
  })

  it('that was cut at either end of a text leaves no part of it there', () => {
    keep(KEY)
    fc.assert(
      fc.property(fc.nat(KEY.length), fc.nat(KEY.length), fc.string(), (from, to, middle) => {
        const text = `${KEY.slice(from)} ${middle} ${KEY.slice(0, to)}`
        const left = redactCut(text)
        for (let at = 0; at + 6 <= KEY.length; at++) {
          const part = KEY.slice(at, at + 6)
          if (!middle.includes(part)) expect(left).not.toContain(part)
        }
      }),
    )
    expect(redactCut(KEY.slice(0, 10))).toBe('[redacted]')
    expect(redactCut(KEY.slice(-10))).toBe('[redacted]')
    expect(redactCut('sk- and so on, sk-')).toBe('sk- and so on, sk-')
  })

  it('is in no log record, whatever is logged', () => {
    const { root, records } = keep(KEY)
    root.logger.info('plain', KEY)
    root.logger.warn('with %s', KEY)
    root.logger.error(new Error(`failed with ${KEY}`))
    root.logger.debug({ nested: [KEY] })
    expect(records).toHaveLength(4)
    for (const { text } of records) {
      expect(text).toContain('[redacted]')
      expect(text).not.toContain(KEY)
    }
  })
})

describe('bytes that come in pieces', () => {
  const through = (bytes: Buffer, size: number) => {
    const redactor = new ByteRedactor()
    const out: Uint8Array[] = []
    for (let at = 0; at < bytes.length; at += size) out.push(redactor.push(bytes.subarray(at, at + size)))
    return Buffer.concat([...out, redactor.end()])
  }

  it('lose a secret wherever they are cut, and no other byte', () => {
    keep(KEY, 'schlüssel-台-8F3k1')
    const part = fc.oneof(fc.uint8Array({ maxLength: 40 }), fc.constantFrom(KEY, 'schlüssel-台-8F3k1').map(Buffer.from))
    fc.assert(
      fc.property(fc.array(part, { maxLength: 8 }), fc.integer({ min: 1, max: 50 }), (parts, size) => {
        const secret = (item: Uint8Array) => [KEY, 'schlüssel-台-8F3k1'].includes(Buffer.from(item).toString())
        const expected = parts.map(item => (secret(item) ? Buffer.from('[redacted]') : item))
        expect(through(Buffer.concat(parts), size).toString('latin1')).toBe(Buffer.concat(expected).toString('latin1'))
      }),
    )
  })

  it('that end in the middle of a secret do not end with a part of it', () => {
    keep(KEY)
    expect(through(Buffer.from(`a ${KEY.slice(0, 12)}`), 5).toString()).toBe('a [redacted]')
  })

  it('are handed through as they are where nothing is secret', () => {
    const bytes = Buffer.from('plain')
    expect(new ByteRedactor().push(bytes)).toBe(bytes)
  })
})
