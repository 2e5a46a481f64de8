/** A written tree as YAML text that the loader reads back, each value with a comment of its own. */

import type { Expression, Spot } from '@cambium/loader'

/** A value as it is to be written. */
export type Written = (
  | { readonly kind: 'scalar'; readonly value: unknown }
  | {
      readonly kind: 'expression'
      readonly source: ExpressionText
      /** Of `!env`: whether there is such a variable. */
      readonly set?: boolean
    }
  | { readonly kind: 'list'; readonly items: readonly Written[] }
  | { readonly kind: 'map'; readonly entries: readonly (readonly [string, Written])[] }
) & {
  /** One line. */
  readonly comment?: string
  /** Where it was written. */
  readonly spot?: Spot
}

export type ExpressionText = Pick<Expression, 'tag' | 'text' | 'fallback'>

/** The lines of a block list. `paint` colours the comments. */
export function yamlOf(list: readonly Written[], paint: (comment: string) => string = text => text): string {
  const lines: string[] = []
  const end = (comment: string | undefined) => (comment ? ` ${paint(`# ${comment}`)}` : '')
  /** Adds the value behind `lead`, which ends in `:` or `-`, or is a new line's indentation. */
  const put = (lead: string, indent: string, value: Written) => {
    if (value.kind === 'scalar') lines.push(`${lead} ${scalarText(value.value)}${end(value.comment)}`)
    else if (value.kind === 'expression') lines.push(`${lead} ${expressionText(value.source)}${end(value.comment)}`)
    else if (value.kind === 'list') {
      if (!value.items.length) lines.push(`${lead} []${end(value.comment)}`)
      else {
        lines.push(`${lead}${end(value.comment)}`)
        putItems(indent, value.items)
      }
    } else if (!value.entries.length) lines.push(`${lead} {}${end(value.comment)}`)
    else {
      lines.push(`${lead}${end(value.comment)}`)
      putEntries(indent, value.entries)
    }
  }
  const putEntries = (indent: string, entries: readonly (readonly [string, Written])[]) => {
    for (const [key, value] of entries) put(`${indent}${scalarText(key)}:`, `${indent}  `, value)
  }
  const putItems = (indent: string, items: readonly Written[]) => {
    for (const item of items) {
      if (item.kind !== 'map' || !item.entries.length) {
        put(`${indent}-`, `${indent}  `, item)
        continue
      }
      if (item.comment) lines.push(`${indent}${paint(`# ${item.comment}`)}`)
      const at = lines.length
      putEntries(`${indent}  `, item.entries)
      lines[at] = `${indent}- ${lines[at]!.slice(indent.length + 2)}`
    }
  }
  if (!list.length) return '[]\n'
  putItems('', list)
  return `${lines.join('\n')}\n`
}

const PLAIN = /^(?:[A-Za-z_/]|\.{1,2}\/)(?:[\w ./@+()=,-]|:(?=\S))*$/
const WORDS = /^(?:true|false|null|yes|no|on|off|y|n)$/i

/** A scalar as YAML 1.2 reads it; text that could be taken for something else stands in JSON's quotes. */
export function scalarText(value: unknown): string {
  if (typeof value === 'string')
    return PLAIN.test(value) && !/ $/.test(value) && !WORDS.test(value) ? value : quoted(value)
  if (typeof value === 'number') return numberText(value)
  return String(value)
}

function numberText(value: number): string {
  if (Number.isNaN(value)) return '.nan'
  if (!Number.isFinite(value)) return value < 0 ? '-.inf' : '.inf'
  return Object.is(value, -0) ? '-0' : String(value)
}

/** Also without the characters that a terminal obeys or shows in another order. */
const quoted = (text: string) =>
  JSON.stringify(text).replace(/[\x7f-\x9f\p{Cf}\p{Zl}\p{Zp}]/gu, char =>
    [...char].map(one => `\\U${one.codePointAt(0)!.toString(16).padStart(8, '0')}`).join(''),
  )

/** The expression with its tag, as the reader takes it. */
export function expressionText({ tag, text, fallback }: ExpressionText): string {
  if (fallback) return `${tag} [${flowText(text)}, ${flowText(fallback.value)}]`
  // What stands plainly after a tag must not begin like another kind of node, and not end before its end.
  if (!/^[-?:,[\]{}#&*!|>'"%@`]|: | #|:$|[\p{C}\p{Zl}\p{Zp}]/u.test(text)) return `${tag} ${text}`
  return /[\p{C}\p{Zl}\p{Zp}]/u.test(text) ? `${tag} ${quoted(text)}` : `${tag} '${text.replaceAll("'", "''")}'`
}

const flowText = (value: unknown) =>
  typeof value === 'string' && !/^[A-Za-z_]\w*$/.test(value) ? quoted(value) : scalarText(value)
