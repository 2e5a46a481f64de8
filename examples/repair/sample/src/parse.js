/** Splits CSV text into rows of fields. */
export function parse(text, { separator = ',' } = {}) {
  const rows = []
  let row = []
  let field = ''
  let quoted = false

  const endField = () => {
    row.push(field)
    field = ''
  }
  const endRow = () => {
    endField()
    rows.push(row)
    row = []
  }

  for (let i = 0; i < text.length; i++) {
    const char = text[i]
    if (quoted) {
      if (char === '"') quoted = false
      else field += char
    } else if (char === '"') quoted = true
    else if (char === separator) endField()
    else if (char === '\n') endRow()
    else if (char !== '\r') field += char
  }
  if (field || row.length) endRow()
  return rows
}
