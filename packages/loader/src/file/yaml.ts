/** YAML 1.2 text to positioned values; every mistake of the text is collected, none is guessed away. */

import { HarnessError } from '@cambium/core'
import {
  type Alias,
  type Document,
  isAlias,
  isMap,
  isScalar,
  isSeq,
  type Node,
  type Pair,
  parseDocument,
  Schema,
  type YAMLError,
} from 'yaml'
import { installation } from '../modules/installation.ts'
import { unpack } from './parsed.ts'
import { placeOf, type Source, type Spot } from './source.ts'
import { type Entry, mapOf, type Value } from './value.ts'

const TAGS = new Map<string, '!env' | '!env:string' | '!js'>([
  ['!env', '!env'],
  ['!env:string', '!env:string'],
  ['!js', '!js'],
  ['tag:yaml.org,2002:js', '!js'],
])

/** The value of `text`, or undefined for an empty text. Mistakes go to `mistakes`; the value then is what could be read. */
export function parseYaml(text: string, source: Source, mistakes: HarnessError[]): Value | undefined {
  const body = text.charCodeAt(0) === 0xfeff ? text.slice(1) : text
  source.text = body
  const parsed = installation().parsed?.(text)
  if (parsed) return unpack(parsed, source)
  const doc = parseDocument(body, {
    version: '1.2',
    merge: true,
    prettyErrors: false,
    // At 'silent' a second document is passed over without a word.
    logLevel: 'error',
  })
  if (doc.errors.length) {
    // A parser that has lost its way stumbles on: only the first word of it counts, unless the mistakes are separate.
    const separate = doc.errors.filter((error, index) => index === 0 || error.code === 'DUPLICATE_KEY')
    mistakes.push(...separate.map(error => syntaxMistake(error, doc.errors, body, source)))
    return undefined
  }
  return doc.contents ? new Reader(doc, source, mistakes).read(doc.contents) : undefined
}

function syntaxMistake(error: YAMLError, all: readonly YAMLError[], text: string, source: Source): HarnessError {
  const where = placeOf({ source, offset: error.pos[0] })
  if (error.code === 'DUPLICATE_KEY') {
    const key = /^[^\s:]+/.exec(text.slice(error.pos[0]))?.[0] ?? ''
    return new HarnessError('TREE_SYNTAX', `the key ${JSON.stringify(key)} stands twice in one map`, {
      where,
      fix: 'keep one of the two',
    })
  }
  if (error.code === 'MULTIPLE_DOCS') {
    return new HarnessError('TREE_SYNTAX', 'a second document begins here', {
      where,
      fix: 'keep one document per file: remove the `---`, and name the other file in an `include` row',
    })
  }
  const line = text
    .slice(0, error.pos[1] + 1)
    .split('\n')
    .at(-1)!
  if (/^ *\t/.test(line)) {
    const fix = 'indent with spaces: YAML allows no tabs there'
    return new HarnessError('TREE_SYNTAX', 'a tab indents this line', { where, fix })
  }
  // A value that goes on below is the parser's guess; whoever wrote it meant another key.
  if (error.code === 'BLOCK_AS_IMPLICIT_KEY' && all.some(({ code }) => code === 'MULTILINE_IMPLICIT_KEY')) {
    const offset = error.pos[0] + /^.*\s*/.exec(text.slice(error.pos[0]))![0].length
    return new HarnessError('TREE_SYNTAX', 'this line is indented further than the key above it', {
      where: placeOf({ source, offset }),
      fix: 'let it begin in the column of that key',
    })
  }
  if (error.message.startsWith('Sequence item without')) {
    return new HarnessError('TREE_SYNTAX', 'this line is neither an item of the list nor indented like a key of one', {
      where,
      fix: 'let it begin in the column of the keys above it, or with `- `',
    })
  }
  const rest = text.slice(error.pos[0]).split('\n', 1)[0]!
  const [first = ''] = error.message.split('\n')
  return new HarnessError('TREE_SYNTAX', `not YAML: ${first.charAt(0).toLowerCase()}${first.slice(1)}`, {
    where,
    fix: syntaxFix(error, rest),
  })
}

/** `rest` is what stands on the line from the mistake on. */
function syntaxFix(error: YAMLError, rest: string): string {
  if (error.code === 'BAD_SCALAR_START') return `put quotes around it: "${/^[^\s,\]}]*/.exec(rest)![0]}"`
  const variable = /^\{(\w+)\}/.exec(rest)?.[1]
  if (variable) return `write \`!env ${variable}\` for the variable, or put quotes around the text`
  return 'correct the text at that place, or just before it'
}

class Reader {
  private readonly doc: Document
  private readonly source: Source
  private readonly mistakes: HarnessError[]
  /** Values of anchored nodes, so that an alias shares the value instead of multiplying it. */
  private readonly known = new Map<Node, Value>()
  private readonly open = new Set<Node>()

  constructor(doc: Document, source: Source, mistakes: HarnessError[]) {
    this.doc = doc
    this.source = source
    this.mistakes = mistakes
  }

  read(node: Node): Value {
    if (isAlias(node)) return this.alias(node)
    const known = this.known.get(node)
    if (known) return known
    this.open.add(node)
    const value = this.tagged(node)
    this.open.delete(node)
    this.known.set(node, value)
    return value
  }

  private spot(node: Node | null | undefined): Spot {
    return { source: this.source, offset: node?.range?.[0] ?? 0 }
  }

  private mistake(node: Node, problem: string, fix: string): Value {
    this.mistakes.push(new HarnessError('TREE_SYNTAX', problem, { where: placeOf(this.spot(node)), fix }))
    return { kind: 'scalar', spot: this.spot(node), value: null }
  }

  private alias(node: Alias): Value {
    const target = node.resolve(this.doc)
    if (!target) return this.mistake(node, `no anchor &${node.source} stands before *${node.source}`, 'define it first')
    if (this.open.has(target)) {
      return this.mistake(node, `the anchor &${node.source} contains itself`, 'refer to it from outside')
    }
    return this.read(target)
  }

  private tagged(node: Node): Value {
    const { tag } = node as { tag?: string }
    const expression = tag === undefined ? undefined : TAGS.get(tag)
    if (expression) return this.expression(node, expression)
    if (tag?.startsWith('!') && tag !== '!') {
      return this.mistake(node, `unknown tag ${tag}`, 'the tags are !env, !env:string and !js')
    }
    const spot = this.spot(node)
    if (isScalar(node)) return { kind: 'scalar', spot, value: node.value }
    if (isSeq(node)) return { kind: 'list', spot, items: node.items.map(item => this.read(item as Node)) }
    if (isMap(node)) return mapOf(spot, this.entries(node.items as Pair<Node, Node | null>[]))
    return this.mistake(node, 'this is neither a map, a list nor a scalar', 'write one of these')
  }

  private entries(pairs: readonly Pair<Node, Node | null>[]): Map<string, Entry> {
    const entries = new Map<string, Entry>()
    const merged: Value[] = []
    for (const pair of pairs) {
      const key = isAlias(pair.key) ? pair.key.resolve(this.doc) : pair.key
      const value: Value = pair.value
        ? this.read(pair.value)
        : { kind: 'scalar', spot: this.spot(pair.key), value: null }
      if (!isScalar(key) || (key.tag !== undefined && TAGS.has(key.tag))) {
        this.mistake(pair.key, 'a key is plain text', 'write the key as one word or quoted text')
      } else if (typeof key.value === 'symbol') {
        merged.push(value)
      } else {
        entries.set(key.source ?? String(key.value), { spot: this.spot(pair.key), value })
      }
    }
    for (const source of merged) this.merge(entries, source)
    return entries
  }

  /** `<<`: keys of the map itself win, then those of the map merged first. */
  private merge(entries: Map<string, Entry>, from: Value) {
    if (from.kind === 'list') {
      for (const item of from.items) this.merge(entries, item)
    } else if (from.kind === 'map') {
      for (const [key, entry] of from.entries) if (!entries.has(key)) entries.set(key, entry)
    } else {
      const where = placeOf(from.spot)
      this.mistakes.push(
        new HarnessError('TREE_SYNTAX', '`<<` merges maps only', { where, fix: 'write `<<: *anchor` with a map' }),
      )
    }
  }

  private expression(node: Node, tag: '!env' | '!env:string' | '!js'): Value {
    const spot = this.spot(node)
    if (isScalar(node)) {
      const text = node.source ?? String(node.value ?? '')
      const spelt = node.tag === undefined || node.tag === tag ? {} : { spelt: node.tag }
      if (text.trim()) return { kind: 'expression', spot, tag, ...spelt, text: text.trim() }
    }
    if (tag !== '!js' && isSeq(node) && node.items.length === 2) {
      const [name, fallback] = node.items
      if (isScalar(name) && typeof name.value === 'string' && isScalar(fallback)) {
        return { kind: 'expression', spot, tag, text: name.value, fallback: { value: fallback.value } }
      }
    }
    return tag === '!js'
      ? this.mistake(node, '`!js` needs one expression', "write `!js process.platform === 'win32'`")
      : this.mistake(node, `\`${tag}\` needs a name`, `write \`${tag} NAME\` or \`${tag} [NAME, default]\``)
  }
}

interface ScalarTag {
  readonly test: RegExp
  readonly resolve: unknown
}

let tags: readonly ScalarTag[] | undefined

function scalarTags(): readonly ScalarTag[] {
  tags ??= new Schema({ schema: 'core' }).tags.flatMap(tag =>
    tag.default && 'test' in tag && tag.test && tag.resolve ? [{ test: tag.test, resolve: tag.resolve }] : [],
  )
  return tags
}

/** Text read as a plain YAML 1.2 scalar: `5` is a number, `true` a boolean, anything unusual text. */
export function scalarOf(text: string): unknown {
  const trimmed = text.trim()
  const tag = scalarTags().find(({ test }) => test.test(trimmed))
  if (!tag) return text
  const value = (tag.resolve as (text: string, fail: () => void, options: object) => unknown)(trimmed, () => {}, {})
  return isScalar(value) ? value.value : value
}
