/** Where a text stops being JSON. The parser's own messages quote what stands there, and not all of them tell the place. */

const BLANK = /[ \t\n\r]*/y
const STRING = /"(?:[^"\\\p{Cc}]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"/uy
const SCALAR = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null/y

/** The offset of the first character that cannot stand where it does; the length of a text that ends too early. */
export function jsonFault(text: string): number {
  let at = 0
  const take = (pattern: RegExp) => {
    pattern.lastIndex = at
    const found = pattern.test(text)
    if (found) at = pattern.lastIndex
    return found
  }
  const mark = (char: string) => {
    take(BLANK)
    if (text[at] !== char) return false
    at++
    return true
  }
  // What is still open, innermost last; no recursion, however deep the text is.
  const open: string[] = []
  let wantsValue = true
  for (;;) {
    if (wantsValue) {
      if (mark('{')) {
        if (mark('}')) wantsValue = false
        else {
          open.push('}')
          if (!member()) return at
        }
      } else if (mark('[')) {
        if (mark(']')) wantsValue = false
        else open.push(']')
      } else if (take(STRING) || take(SCALAR)) wantsValue = false
      else return at
      continue
    }
    const closer = open.at(-1)
    if (closer === undefined) {
      take(BLANK)
      return at
    }
    if (mark(closer)) open.pop()
    else if (mark(',')) {
      if (closer === '}' && !member()) return at
      wantsValue = true
    } else return at
  }

  function member() {
    take(BLANK)
    return take(STRING) && mark(':')
  }
}
