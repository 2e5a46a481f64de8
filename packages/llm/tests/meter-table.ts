/** The error of the estimate on the corpus, by vocabulary and kind of text. Run by itself it prints the table. */

import { readdirSync, readFileSync } from 'node:fs'
import { pathToFileURL } from 'node:url'
import { createUserMessage, estimateTokens, type Message, TokenMeter } from '@cambium/llm'

/** A model of each vocabulary. */
export const MODELS: Readonly<Record<string, string>> = {
  o200k: 'gpt-5',
  cl100k: 'gpt-4-turbo',
  llama3: 'meta-llama/Llama-3.3-70B-Instruct',
  mistral: 'mixtral-8x7b',
  claude: 'claude-sonnet-4-5',
  qwen: 'qwen2.5-coder:32b',
  deepseek: 'deepseek-chat',
  gemini: 'gemini-2.5-pro',
}

const KINDS: readonly (readonly [string, RegExp])[] = [
  ['Chinese, Japanese, Korean', /chinese|japanese|korean/],
  ['Russian, Arabic, Hindi', /russian|arabic|hindi/],
  ['English, German, French', /^prose/],
  ['code, diffs, YAML', /^code|diff|yaml/],
  ['JSON, tool schemas', /json|schemas/],
  ['logs, tables, numbers, emoji', /log|stack|table|numbers|emoji/],
  ['base64, hashes', /base64|hashes/],
]

const folder = new URL('./fixtures/corpus/', import.meta.url)

export interface Text {
  readonly name: string
  readonly kind: string
  readonly text: string
  readonly counts: Readonly<Record<string, number>>
}

export function corpus(): Text[] {
  const { counts } = JSON.parse(readFileSync(new URL('counts.json', folder), 'utf8')) as {
    counts: Record<string, Text['counts']>
  }
  const names = readdirSync(folder).filter(name => name !== 'counts.json' && name !== 'README.md')
  return names.sort().map(name => ({
    name,
    kind: KINDS.find(([, pattern]) => pattern.test(name))?.[0] ?? 'other',
    text: readFileSync(new URL(name, folder), 'utf8'),
    counts: counts[name] ?? {},
  }))
}

/** Share by which the estimate of these texts together is off; `model` may be none that is known. */
export function errorOf(texts: readonly Text[], vocabulary: string, model = MODELS[vocabulary]!): number {
  let estimated = 0
  let counted = 0
  for (const { text, counts } of texts) {
    estimated += estimateTokens(text, model)
    counted += counts[vocabulary]!
  }
  return estimated / counted - 1
}

export const messageOf = ({ text }: Text): Message => createUserMessage({ content: text, source: { kind: 'user' } })

/** As a request that grows: three are sent and counted, then the whole corpus is estimated. */
export function calibratedError(texts: readonly Text[], vocabulary: string, model = MODELS[vocabulary]!): number {
  const meter = new TokenMeter()
  const route = { provider: 'p', model }
  const none = { outputTokens: 0, cacheReadTokens: 0, cacheWriteTokens: 0, reasoningTokens: 0 }
  const count = (part: readonly Text[]) => part.reduce((sum, { counts }) => sum + counts[vocabulary]!, 0)
  const mixed = [0, 1, 2].flatMap(from => texts.filter((_, at) => at % 3 === from))
  for (const share of [1 / 3, 2 / 3, 1]) {
    const part = mixed.slice(0, Math.round((mixed.length / 2) * share))
    meter.learn(route, { messages: part.map(messageOf) }, { ...none, inputTokens: count(part) })
  }
  const rest = mixed.slice(Math.round(mixed.length / 2))
  return meter.estimate(route, { messages: rest.map(messageOf) }) / count(rest) - 1
}

const percent = (share: number) => `${share < 0 ? '−' : '+'}${Math.abs(share * 100).toFixed(0)}`

export function table(): string {
  const texts = corpus()
  const names = Object.keys(MODELS)
  const line = (label: string, cells: readonly string[]) => `| ${[label, ...cells].join(' | ')} |`
  const row = (label: string, error: (vocabulary: string) => number) =>
    line(
      label,
      names.map(name => percent(error(name))),
    )
  return [
    line('error in %', names),
    line(
      '---',
      names.map(() => '---:'),
    ),
    ...KINDS.map(([kind]) =>
      row(kind, name =>
        errorOf(
          texts.filter(text => text.kind === kind),
          name,
        ),
      ),
    ),
    row('**all**', name => errorOf(texts, name)),
    row('all, after 3 counted requests', name => calibratedError(texts, name)),
    row('a model that is not known', name => errorOf(texts, name, 'unknown')),
    row('… after 3 counted requests', name => calibratedError(texts, name, 'unknown')),
  ].join('\n')
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  console.log(table())
  const names = Object.keys(MODELS)
  for (const text of corpus())
    console.log(`| ${[text.name, ...names.map(name => percent(errorOf([text], name)))].join(' | ')} |`)
}
