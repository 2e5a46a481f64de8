export { parse } from './parse.js'
export { toRecords } from './records.js'
export { stringify } from './stringify.js'
