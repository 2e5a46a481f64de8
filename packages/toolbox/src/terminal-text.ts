/** What a program wrote for a terminal, as the text that would be left standing there. */

import { stripVTControlCharacters } from 'node:util'

const BELL_AND_FRIENDS = /(?![\t\n\r\b])\p{Cc}/gu
/** A character and the backspace after it; `\b` is one only in brackets. */
const OVERSTRUCK = /[^\b][\b]/g

/** Colours and cursor movements go; a line that was overwritten (a progress bar) keeps its last state only. */
export function plainText(output: string): string {
  if (!/(?![\t\n])\p{Cc}/u.test(output)) return output
  const text = stripVTControlCharacters(output).replace(/\r+\n/g, '\n').replace(BELL_AND_FRIENDS, '')
  if (!/[\r\b]/.test(text)) return text
  return text.split('\n').map(settled).join('\n')
}

function settled(line: string): string {
  const last = line.slice(line.replace(/\r+$/, '').lastIndexOf('\r') + 1).replace(/\r+$/, '')
  let text = last
  for (let before = ''; before !== text; ) {
    before = text
    text = text.replace(OVERSTRUCK, '')
  }
  return text.replaceAll('\b', '')
}
