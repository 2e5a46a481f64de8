/** Which parts of a configuration are secrets, so that showing it gives none away. */

export const MASK = '***'

const SECRET_WORDS = new Set(
  'token password passwords passwd pwd passphrase secret secrets authorization credential credentials cookie bearer apikey apikeys'.split(
    ' ',
  ),
)

const SECRET_KEYS = new Set(
  'access account api app auth client encryption license master private secret service signing ssh subscription'.split(
    ' ',
  ),
)

/** `apiKey`, `GITHUB_TOKEN`, `x-api-key`, `proxy.password`; not `maxTokens`, `tokenizer`, `key`. */
export function isSecretKey(key: string): boolean {
  const words = key
    .replace(/([a-z\d])([A-Z])/g, '$1 $2')
    .toLowerCase()
    .split(/[^a-z\d]+/)
    .filter(Boolean)
  const last = words.at(-1) ?? ''
  if (SECRET_WORDS.has(last)) return true
  if (!/^keys?$/.test(last) || words.length < 2) return false
  // `STRIPE_KEY` is one; of other spellings many name a field or a column.
  return SECRET_KEYS.has(words.at(-2)!) || (/^[A-Z\d_]+$/.test(key) && words.at(-2) !== 'public')
}

const OPTION = /^--?([\w.-]+)(=|$)/
const HEADER = /^\s*([\w-]+)\s*:\s*\S/

/** Whether the value behind this item of a list of arguments is one: `[--token, abc]`. */
export function isSecretOption(text: string): boolean {
  const option = OPTION.exec(text)
  return option?.[2] === '' && isSecretKey(option[1]!)
}

const IN_TEXT: readonly (readonly [RegExp, string])[] = [
  // The password of an address, and what its query calls by a secret's name.
  [/(\b[a-z][a-z\d+.-]*:\/\/[^\s/:@]*):[^\s/@]+@/gi, `$1:${MASK}@`],
  [/([?&](?:[\w-]*(?:key|token|secret|password|sig|signature)))=[^\s&#"']+/gi, `$1=${MASK}`],
  [/\b(Bearer|Basic)\s+[\w.~+/=-]{6,}/gi, `$1 ${MASK}`],
  [/-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)/g, MASK],
  // Keys that say by their first letters what they are.
  [/\b(?:sk|pk|rk|xox[abprs]|gh[opsur]|github_pat|glpat|npm|hf|gsk|xai)[-_][\w-]{12,}/g, MASK],
  [/\bAKIA[A-Z\d]{12,}|\bAIza[\w-]{20,}|\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*/g, MASK],
]

/** The text without what can be told to be a secret by its own looks. */
export function maskText(text: string): string {
  const option = OPTION.exec(text)
  if (option?.[2] === '=' && isSecretKey(option[1]!)) return `${option[0]}${MASK}`
  const header = HEADER.exec(text)
  if (header && isSecretKey(header[1]!)) return `${header[1]}: ${MASK}`
  return IN_TEXT.reduce((masked, [pattern, instead]) => masked.replace(pattern, instead), text)
}

/** An expression's source with the text that stands in quotes in it masked. */
export const maskLiterals = (source: string): string =>
  source.replace(/(['"`])(?:\\[\s\S]|(?!\1)[^\\])*\1/g, (_, quote: string) => `${quote}${MASK}${quote}`)
