/** Which parts of a configuration are secrets, so that showing it gives none away. */

export const MASK = '***'

const SECRET_WORDS = new Set(
  'passwords pass pwd secrets authorization credential credentials cookie bearer apikeys jwt'.split(' '),
)

/** Also as the end of a longer word: `PGPASSWORD`, `authtoken`. */
const SECRET_END = /(?:token|password|passwd|passphrase|secret|apikey)$/

const SECRET_KEYS = new Set(
  'access account api app auth client encryption license master private secret service signing ssh subscription'.split(
    ' ',
  ),
)

/** `apiKey`, `GITHUB_TOKEN`, `x-api-key`, `proxy.password`, `API_KEY_2`; not `maxTokens`, `tokenizer`, `key`. */
export function isSecretKey(key: string): boolean {
  const words = key
    .replace(/([a-z\d])([A-Z])/g, '$1 $2')
    .toLowerCase()
    .split(/[^a-z\d]+/)
    .map(word => word.replace(/\d+$/, ''))
    .filter(Boolean)
  const last = words.at(-1) ?? ''
  const before = words.at(-2)
  const isVariable = /^[A-Z\d_]+$/.test(key)
  if (SECRET_WORDS.has(last) || SECRET_END.test(last)) return true
  // In the lower case these are a way of logging in, a pattern, a field or a column.
  if (last === 'auth' || last === 'pat') return before !== undefined && (isVariable || before === 'x')
  if (!/^keys?$/.test(last) || before === undefined) return false
  // `x-acme-key` is a header.
  return SECRET_KEYS.has(before) || /^x-/i.test(key) || (isVariable && before !== 'public')
}

const OPTION = /^--?([\w.-]+)$/

/** Whether the value behind this item of a list of arguments is one: `[--token, abc]`. */
export function isSecretOption(text: string): boolean {
  const option = OPTION.exec(text)
  return option !== null && isSecretKey(option[1]!)
}

/** `name: value`, `"name": "value"`, `NAME=value`, `--name value`, wherever they stand; of a header all that follows is one. */
const NAMED = new RegExp(
  [
    /(?<![\w.-])-{0,2}(?<name>[A-Za-z_][\w.-]*)["']?(?:\s*:\s*|\s*=(?![=>])\s*)/,
    /(?<=(?:^|[\s"'])--?)(?<option>[A-Za-z][\w.-]*)\s+(?!-)/,
  ]
    .map(({ source }) => source)
    .join('|'),
  'g',
)
const QUOTED = /(["'])[^"']*(?:\1|$)/y
const WORD = /[^\s"'&;,]+/y
const LINE = /[^"'\n&;,]+/y

function maskNamed(text: string): string {
  let masked = ''
  let at = 0
  NAMED.lastIndex = 0
  for (let found = NAMED.exec(text); found; found = NAMED.exec(text)) {
    const { name, option } = found.groups!
    if (!isSecretKey(name ?? option!)) continue
    const start = found.index + found[0].length
    const value = [QUOTED, found[0].includes(':') ? LINE : WORD].map(kind => matchAt(kind, text, start)).find(Boolean)
    if (!value) continue
    const quote = /^["']/.test(value) ? value[0] : ''
    masked += `${text.slice(at, start)}${quote}${MASK}${quote}`
    at = start + value.length
    NAMED.lastIndex = at
  }
  return masked + text.slice(at)
}

function matchAt(kind: RegExp, text: string, at: number): string | undefined {
  kind.lastIndex = at
  return kind.exec(text)?.[0]
}

const BY_LOOKS: readonly (readonly [RegExp, string])[] = [
  // The password of an address, which may have an @ or a / of its own, or a key in the place of its user.
  [/((?<![a-z\d+.-])[a-z][a-z\d+.-]*:\/\/[^\s/:@]*):[^\s/]{1,999}@/gi, `$1:${MASK}@`],
  [/((?<![a-z\d+.-])[a-z][a-z\d+.-]*:\/\/[^\s/:@]*):(?!\d{1,5}\/)[^\s@]{1,999}@/gi, `$1:${MASK}@`],
  [/(\bhttps?:\/\/)[^\s/:@]{1,999}@/gi, `$1${MASK}@`],
  [/([?&#](?:[\w-]*(?:key|token|secret|password|sig|signature)))=[^\s&#"']+/gi, `$1=${MASK}`],
  // Whoever has the address may post.
  [/(\bhooks\.slack\.com\/services\/|\bdiscord(?:app)?\.com\/api\/webhooks\/)[^\s"']+/gi, `$1${MASK}`],
  [/\b(Bearer|Basic)\s+[\w.~+/=-]{6,}/gi, `$1 ${MASK}`],
  [/-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)/g, MASK],
  // Keys that say by their first letters what they are.
  [/\b(?:sk|pk|rk|xox[abprs]|gh[opsur]|github_pat|glpat|npm|hf|gsk|xai)[-_][\w-]{12,}/g, MASK],
  [/\bAKIA[A-Z\d]{12,}|\bAIza[\w-]{20,}|\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*/g, MASK],
]

/** The text without what can be told to be a secret by its own looks. */
export function maskLooks(text: string): string {
  return BY_LOOKS.reduce((masked, [pattern, instead]) => masked.replace(pattern, instead), text)
}

/** Also without what it calls by a secret's name. */
export const maskText = (text: string): string => maskNamed(maskLooks(text))

/** An expression's source with the text that stands in quotes in it masked: all of it, or what is secret there. */
export const maskLiterals = (source: string, hidden: boolean): string =>
  maskLooks(
    source.replace(/(['"`])((?:\\[\s\S]|(?!\1)[^\\])*)\1/g, (_, quote: string, text: string) => {
      return `${quote}${hidden ? MASK : maskText(text)}${quote}`
    }),
  )
