import { isHarnessError } from '@cambium/core'
import { editYaml, type YamlEdit } from '@cambium/store/yaml'
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { parse } from 'yaml'

type Data = null | boolean | number | string | Data[] | { [key: string]: Data }
type Path = (string | number)[]

const nasty = [
  '',
  ' ',
  'yes',
  'on',
  'null',
  '~',
  '0o17',
  '1e3',
  '.5',
  '-',
  '- a',
  'a: b',
  'a #b',
  '#',
  '\tt',
  'tail ',
  '{a}',
  '[',
  ']',
  ',',
  '*x',
  '&x',
  '!t',
  '%',
  '@',
  '`',
  '"',
  "'",
  '?',
  '|',
  '>',
  '<',
  '=',
  'one\ntwo',
  'one\ntwo\n',
  '\n',
  'a\n\n',
  '  lead\nx',
  'a\r\nb',
  '\u0085',
  '\u2028',
  '\ufeff',
  'é😀',
  '---',
  '...',
  '__proto__',
  'constructor',
  '1',
  'x'.repeat(200),
]
const text = fc.oneof(fc.constantFrom(...nasty), fc.string({ maxLength: 8 }), fc.stringMatching(/^[a-z]{1,6}$/))
const key = fc
  .oneof({ weight: 4, arbitrary: fc.stringMatching(/^[a-z]{1,4}$/) }, { weight: 1, arbitrary: text })
  .filter(name => name !== '<<')
const scalar = fc.oneof(text, fc.integer(), fc.boolean(), fc.constant(null), fc.constantFrom(0.5, 1e21, -1))
const data: fc.Arbitrary<Data> = fc.letrec<{ tree: Data }>(tree => ({
  tree: fc.oneof(
    { maxDepth: 3, depthSize: 'small' },
    scalar,
    fc.array(tree('tree'), { maxLength: 4 }),
    fc.dictionary(key, tree('tree'), { maxKeys: 4, noNullPrototype: true }),
  ),
})).tree

/** A line of a document, and whose values stand on it. */
interface Line {
  text: string
  readonly owners: Path[]
  /** Of the last owner, the whole value. */
  readonly inline: boolean
}

/** Writes data as people do: this and that style, comments and blank lines in between. `chance` makes the choices. */
class Writer {
  readonly lines: Line[] = []
  private count = 0
  private readonly chance: () => number

  constructor(chance: () => number) {
    this.chance = chance
  }

  write(value: Data): this {
    this.remark([], '')
    if (isBlock(value) && this.chance() < 0.9) this.block(value, '', [], [])
    else this.line(this.flow(value), [[]], true)
    this.remark([], '')
    return this
  }

  private line(line: string, owners: Path[], inline: boolean) {
    this.lines.push({
      text: this.chance() < 0.3 && !/[|>][-+]?$/.test(line) ? `${line} # c${this.count++}` : line,
      owners,
      inline,
    })
  }

  private remark(owner: Path, pad: string) {
    if (this.chance() < 0.2)
      this.lines.push({ text: `${pad}# remark ${this.count++}`, owners: [[...owner, '#']], inline: true })
    if (this.chance() < 0.1) this.lines.push({ text: '', owners: [[...owner, '#']], inline: true })
  }

  /** `above` stand on the line that the first entry begins on. */
  private block(value: Data[] | { [key: string]: Data }, pad: string, path: Path, above: Path[], first = pad) {
    const list = Array.isArray(value)
    const entries: [string | number, Data][] = list ? [...value.entries()] : Object.entries(value)
    for (const [index, [name, inner]] of entries.entries()) {
      const lead = index === 0 ? first : pad
      if (index) this.remark(path, pad)
      const own = [...path, name]
      const owners = [...(index === 0 ? above : []), own]
      const mark = list ? '-' : `${this.key(String(name))}:`
      const below = `${pad}${' '.repeat(this.chance() < 0.5 || list ? 2 : 4)}`
      if (isBlock(inner) && this.chance() < 0.8) {
        if (list && this.chance() < 0.6) {
          this.block(inner, `${pad}  `, own, owners, `${lead}- `)
          continue
        }
        this.line(`${lead}${mark}`, owners, false)
        this.remark(own, below)
        this.block(inner, below, own, [])
      } else if (typeof inner === 'string' && /^[a-z][a-z]*\n[a-z]+\n?$/.test(inner)) {
        this.lines.push({ text: `${lead}${mark} |${inner.endsWith('\n') ? '' : '-'}`, owners, inline: true })
        for (const row of inner.trimEnd().split('\n'))
          this.lines.push({ text: `${below}${row}`, owners: [own], inline: true })
      } else {
        this.line(
          inner === null && this.chance() < 0.5 ? `${lead}${mark}` : `${lead}${mark} ${this.flow(inner)}`,
          owners,
          true,
        )
      }
    }
  }

  private key(name: string): string {
    return /^[a-z]+$/.test(name) && !['null', 'true', 'false'].includes(name) ? name : quoted(name)
  }

  private flow(value: Data): string {
    if (Array.isArray(value)) return `[${value.map(item => this.flow(item)).join(this.chance() < 0.5 ? ', ' : ',')}]`
    if (typeof value === 'object' && value) {
      const pairs = Object.entries(value).map(([name, inner]) => `${this.key(name)}: ${this.flow(inner)}`)
      return this.chance() < 0.5 ? `{ ${pairs.join(', ')} }` : `{${pairs.join(', ')}}`
    }
    if (typeof value !== 'string') return String(value)
    if (/^[a-z]+$/.test(value) && !['null', 'true', 'false'].includes(value) && this.chance() < 0.7) return value
    return /^[ -~]+$/.test(value) && this.chance() < 0.3 ? `'${value.replaceAll("'", "''")}'` : quoted(value)
  }
}

const isBlock = (value: Data): value is Data[] | { [key: string]: Data } =>
  typeof value === 'object' && value !== null && Object.keys(value).length > 0
const quoted = (value: unknown) =>
  JSON.stringify(value).replace(
    /[\u007f-\u009f\u2028\ufeff]/g,
    char => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )

function pathsOf(value: Data, path: Path = []): Path[] {
  if (typeof value !== 'object' || value === null) return [path]
  const entries: [string | number, Data][] = Array.isArray(value) ? [...value.entries()] : Object.entries(value)
  return [path, ...entries.flatMap(([name, inner]) => pathsOf(inner, [...path, name]))]
}

function at(value: Data, path: readonly (string | number)[]): Data {
  return path.reduce<Data>((inner, name) => (inner as { [key: string]: Data })[name as string]!, value)
}

/** The edit, on the data. */
function changed(value: Data, edit: YamlEdit, depth = 0): Data {
  const name = edit.path[depth]
  if (name === undefined) {
    if ('value' in edit) return edit.value as Data
    const list = [...(value as Data[])]
    list.splice((edit as { index: number }).index, 0, (edit as { insert: Data }).insert)
    return list
  }
  const copy = (Array.isArray(value) ? [...value] : { ...(value as object) }) as { [key: string]: Data }
  if ('remove' in edit && depth === edit.path.length - 1) {
    if (Array.isArray(copy)) copy.splice(Number(name), 1)
    else delete copy[name]
    return copy
  }
  const inner = changed(Object.hasOwn(copy, name) ? copy[name]! : null, edit, depth + 1)
  Object.defineProperty(copy, name, { value: inner, enumerable: true, configurable: true, writable: true })
  return copy
}

const begins = (path: readonly (string | number)[], start: readonly (string | number)[]) =>
  start.every((name, index) => path[index] === name)

/** Which lines an edit may touch, by what stands on them. */
function untouched(lines: readonly Line[], value: Data, edit: YamlEdit): string[] {
  const above = edit.path.slice(0, -1)
  const empties = 'remove' in edit && Object.keys(at(value, above) as object).length === 1
  const path = empties ? above : edit.path
  let shared = false
  return lines
    .filter(({ text, owners, inline }) => {
      const after = shared
      const mine = owners.findIndex(owner => begins(owner, path) && !('insert' in edit && !inline))
      // What follows the first entry behind a dash takes its place.
      shared = 'remove' in edit && (mine > 0 || (after && (mine === 0 || !text)))
      const inside = inline && begins(path, owners.at(-1)!)
      if ('insert' in edit) {
        const list = at(value, edit.path) as Data[]
        const first = edit.index === 0 && list.length > 0 && owners.some(owner => begins(owner, [...path, 0]))
        return !(inside || first || (list.length === 0 && mine >= 0))
      }
      return mine < 0 && !inside && !after
    })
    .map(line => line.text)
}

const choice = fc.record({
  document: data,
  chances: fc.array(fc.double({ min: 0, max: 0.999, noNaN: true }), { minLength: 40, maxLength: 40 }),
  pick: fc.nat(),
  kind: fc.constantFrom('set', 'set', 'add', 'insert', 'remove'),
  name: key,
  value: data,
  ending: fc.constantFrom('\n', '\r\n'),
  last: fc.boolean(),
  mark: fc.boolean(),
})

function editOf({
  document,
  pick,
  kind,
  name,
  value,
}: typeof choice extends fc.Arbitrary<infer T> ? T : never): YamlEdit | undefined {
  const paths = pathsOf(document).filter(path => {
    const here = at(document, path)
    if (kind === 'insert') return Array.isArray(here)
    if (kind === 'add')
      return typeof here === 'object' && here !== null && !Array.isArray(here) && !Object.hasOwn(here, name)
    return kind === 'set' || path.length > 0
  })
  const path = paths[pick % paths.length]
  if (!path) return undefined
  if (kind === 'set') return { path, value }
  if (kind === 'add') return { path: [...path, name], value }
  if (kind === 'remove') return { path, remove: true }
  return { path, insert: value, index: pick % ((at(document, path) as Data[]).length + 1) }
}

const runs = Number(process.env['CAMBIUM_PROPERTY_RUNS'] ?? 100)

it('after a random edit the document says what was meant, and every other line is the same', () => {
  fc.assert(
    fc.property(choice, chosen => {
      const edit = editOf(chosen)
      fc.pre(edit !== undefined)
      let next = 0
      const { lines } = new Writer(() => chosen.chances[next++ % chosen.chances.length]!).write(chosen.document)
      const before = `${chosen.mark ? '\ufeff' : ''}${lines.map(line => line.text).join(chosen.ending)}${chosen.last ? chosen.ending : ''}`
      expect(parse(before.replace(/^\ufeff/, ''), { merge: true })).toEqual(chosen.document)

      const after = editYaml(before, [edit], { label: 'x.yml' })
      expect(parse(after.replace(/^\ufeff/, ''), { merge: true })).toEqual(changed(chosen.document, edit))
      expect(after.startsWith('\ufeff')).toBe(chosen.mark)
      if (lines.length > 1) expect(after.replaceAll(chosen.ending, '').includes('\n')).toBe(false)
      const left = after.replace(/^\ufeff/, '').split(chosen.ending)
      for (const line of untouched(lines, chosen.document, edit)) {
        const place = left.indexOf(line)
        expect(place, `lost: ${line}\n${before}\n--${JSON.stringify(edit)}--\n${after}`).toBeGreaterThanOrEqual(0)
        left.splice(0, place + 1)
      }
    }),
    { numRuns: runs },
  )
})

it('an edit of a document that shares values does what was meant, or is refused', () => {
  const shared = fc.record({ ...{ chosen: choice, where: fc.nat(), merged: fc.boolean() } })
  let done = 0
  fc.assert(
    fc.property(shared, ({ chosen, where, merged }) => {
      const map = { ...(chosen.document as object) }
      fc.pre(typeof chosen.document === 'object' && !Array.isArray(chosen.document) && Object.keys(map).length > 0)
      const body = quoted(map)
      const use = merged ? '{ <<: *a, own: 1 }' : '*a'
      const before = ['# head', `one: &a ${body}`, `two: ${use}`, 'three:', `  - ${use} # use`, ''].join('\n')
      const document = parse(before, { merge: true }) as Data
      const edit = editOf({ ...chosen, document, pick: where })
      fc.pre(edit !== undefined)
      try {
        const after = editYaml(before, [edit], { label: 'x.yml' })
        expect(parse(after, { merge: true })).toEqual(changed(document, edit))
        done++
      } catch (error) {
        if (!isHarnessError(error)) throw error
        expect(error.code).toBe('STORE_EDIT_UNSAFE')
      }
    }),
    { numRuns: runs },
  )
  expect(done).toBeGreaterThan(runs / 10)
})

it('an edit of JSON leaves JSON', () => {
  fc.assert(
    fc.property(choice, fc.constantFrom(0, 2, 4), (chosen, step) => {
      const edit = editOf(chosen)
      fc.pre(edit !== undefined && typeof chosen.document === 'object' && chosen.document !== null)
      const after = editYaml(JSON.stringify(chosen.document, null, step), [edit], { label: 'x.json' })
      expect(JSON.parse(after)).toEqual(changed(chosen.document, edit))
    }),
    { numRuns: runs },
  )
})
