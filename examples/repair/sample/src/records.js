/** Turns rows into objects, the first row being their keys. */
export function toRecords([header = [], ...rows]) {
  return rows.map(row => Object.fromEntries(header.map((key, i) => [key, row[i] ?? ''])))
}
