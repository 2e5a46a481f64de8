/** A title as a list shows it: one short line of plain text, whatever it was taken from. */

import { stripVTControlCharacters } from 'node:util'
import { redact } from '@cambium/core'
import { cutTo } from '../first-words.ts'

const MAX_CHARS = 80
/** A model that says more than this has answered something else. */
const MAX_WORDS = 16
const MAX_WIDE = 40
/** Of a prompt. */
const PROMPT_WORDS = 8
const PROMPT_WIDE = 20

const WIDE = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}\p{Script=Thai}]/gu
/** Joiners make one emoji of several; everything else that cannot be seen goes. */
const UNSEEN = /(?!\u200d)[\p{Cc}\p{Cf}\p{Cs}\p{Co}\u2028\u2029]+/gu

/** The title that a model or a person gave, or undefined when it is none. */
export function titleOf(given: string): string | undefined {
  const spoken = given
    .replace(/<(think(?:ing)?|thought|reasoning)>[\s\S]*?(<\/\1>|$)/gi, '\n')
    // The opening mark may be the template's own, which is not sent.
    .replace(/^[\s\S]*<\/(?:think(?:ing)?|thought|reasoning)>/i, '')
    .replace(/^\s*(```|~~~)[^\n]*$/gm, '')
  const line = spoken
    .split(/[\r\n\u2028\u2029]+/)
    .map(plain)
    .find(text => text !== '')
  const title =
    line && unquoted(line.replace(/^(?:the )?(?:title|titel|titre|título|标题|タイトル|제목)\s*[:：]\s*/i, ''))
  if (!title || !says(title)) return undefined
  if (title.split(' ').length > MAX_WORDS || wide(title) > MAX_WIDE) return undefined
  return cutTo(redact(title), MAX_CHARS)
}

/** The first words of a prompt; undefined when it has none. */
export function wordsOf(prompt: string): string | undefined {
  const [text = ''] = prompt.slice(0, 4_000).split(/\n+/).map(plain).filter(says)
  if (!text) return undefined
  let words = text.split(' ').slice(0, PROMPT_WORDS).join(' ')
  if (wide(words) > PROMPT_WIDE) words = [...words].slice(0, PROMPT_WIDE).join('')
  const title = cutTo(redact(words), MAX_CHARS)
  return title.length < text.length && !title.endsWith('…') ? `${title}…` : title
}

/** Without what makes text look like something: colours, marks of Markdown, links, tags. */
function plain(text: string): string {
  let line = stripVTControlCharacters(text)
    .replace(/<\/?[a-z][\w-]*(?:\s[^<>]*)?>/gi, ' ')
    .replace(/!?\[([^\]]*)\]\([^)]*\)/g, '$1')
    .replace(/^\s*(?:#{1,6}\s+|[-*+>]\s+|\d+[.)]\s+)+/, '')
    .replace(/[*`]+|~~/g, '')
  if (line.includes('_')) line = line.replace(/(?<![\p{L}\p{N}])_+|_+(?![\p{L}\p{N}])/gu, '')
  if (isBeyondAscii(line)) line = line.replace(UNSEEN, ' ')
  return line.replace(/\s+/g, ' ').trim()
}

/** Classes of Unicode cost milliseconds where they are first used, which the title of a plain prompt need not pay. */
const isBeyondAscii = (text: string) => /[^ -~]/.test(text)

const says = (text: string) => /[a-z0-9]/i.test(text) || (isBeyondAscii(text) && /[\p{L}\p{N}]/u.test(text))

const QUOTES = /^["'“”„«»‘’‚‹›「」『』《》]+|["'“”«»‘’‹›「」『』《》]+$/gu

function unquoted(text: string): string {
  let title = text.trim()
  for (let before = ''; before !== title; ) {
    before = title
    title = title
      .replace(QUOTES, '')
      .replace(/[.。．:：;；,，、]+$/u, '')
      .trim()
  }
  return title
}

const wide = (text: string) => (isBeyondAscii(text) ? (text.match(WIDE)?.length ?? 0) : 0)
