/** Joins rows of fields into CSV text, quoting only what needs it. */
export function stringify(rows, { separator = ',' } = {}) {
  const quote = field =>
    /["\r\n]/.test(field) || field.includes(separator) ? `"${field.replaceAll('"', '""')}"` : field
  return rows.map(row => `${row.map(field => quote(String(field))).join(separator)}\n`).join('')
}
