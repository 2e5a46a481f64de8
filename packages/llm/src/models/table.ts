/**
 * What is known of common models without asking anybody. Windows and limits are in tokens, prices the vendors' list
 * prices for a million tokens in US dollars (late 2026), of prices by the hour the higher one. What is not sure is left
 * out: unknown is better than wrong.
 */

import type { ModelInfo } from '../stream.ts'

interface Vendor {
  /** The providers that are the vendor's own; only there is its price the price. */
  readonly providers: readonly string[]
  /**
   * Names | context window | longest answer | reads images | efforts | price: in, out, cache read, cache write, and
   * behind `>` from how many tokens of input on which others count.
   */
  readonly models: string
}

const VENDORS: readonly Vendor[] = [
  {
    providers: ['openai', 'openai-responses'],
    models: `
      gpt-5                |  400000 | 128000 | yes | minimal low medium high        | 1.25 10 0.125
      gpt-5-mini           |  400000 | 128000 | yes | minimal low medium high        | 0.25 2 0.025
      gpt-5-nano           |  400000 | 128000 | yes | minimal low medium high        | 0.05 0.4 0.005
      gpt-5-codex          |  400000 | 128000 | yes | low medium high                | 1.25 10 0.125
      gpt-5-pro            |  400000 | 272000 | yes | high                           | 15 120
      gpt-5.1              |  400000 | 128000 | yes | none low medium high           | 1.25 10 0.125
      gpt-5.1-codex        |  400000 | 128000 | yes | low medium high                | 1.25 10 0.125
      gpt-5.1-codex-max    |  400000 | 128000 | yes | low medium high xhigh          | 1.25 10 0.125
      gpt-5.2              |  400000 | 128000 | yes | none low medium high xhigh     | 1.75 14 0.175
      gpt-5.2-codex        |  400000 | 128000 | yes | low medium high xhigh          | 1.75 14 0.175
      gpt-5.3-codex        |  400000 | 128000 | yes | low medium high xhigh          | 1.75 14 0.175
      gpt-5.4              | 1050000 | 128000 | yes | none low medium high xhigh     | 2.5 15 0.25
      gpt-5.5              | 1050000 | 128000 | yes | none low medium high xhigh     | 5 30 0.5 > 272000 10 45 1
      gpt-5.6, gpt-5.6-sol | 1050000 | 128000 | yes | none low medium high xhigh max | 2 10 0.2 2.5 > 272000 4 15 0.4 5
      gpt-6-astra          | 1050000 | 128000 | yes | low medium high xhigh max      | 10 50 1 12.5 > 272000 20 75 2 25
      gpt-4.1              | 1047576 |  32768 | yes |                                | 2 8 0.5
      gpt-4.1-mini         | 1047576 |  32768 | yes |                                | 0.4 1.6 0.1
      gpt-4.1-nano         | 1047576 |  32768 | yes |                                | 0.1 0.4 0.025
      gpt-4o               |  128000 |  16384 | yes |                                | 2.5 10 1.25
      gpt-4o-2024-05-13    |  128000 |   4096 | yes |                                | 5 15
      gpt-4o-mini          |  128000 |  16384 | yes |                                | 0.15 0.6 0.075
      o1                   |  200000 | 100000 | yes | low medium high                | 15 60 7.5
      o3                   |  200000 | 100000 | yes | low medium high                | 2 8 0.5
      o3-pro               |  200000 | 100000 | yes | low medium high                | 20 80
      o3-mini              |  200000 | 100000 | no  | low medium high                | 1.1 4.4 0.55
      o4-mini              |  200000 | 100000 | yes | low medium high                | 1.1 4.4 0.275
      codex-mini           |  200000 | 100000 | no  | low medium high                | 1.5 6 0.375`,
  },
  {
    providers: ['anthropic'],
    models: `
      claude-3-5-sonnet                  |  200000 |   8192 | yes |                           | 3 15 0.3 3.75
      claude-3-5-haiku                   |  200000 |   8192 | yes |                           | 0.8 4 0.08 1
      claude-3-7-sonnet                  |  200000 |  64000 | yes |                           | 3 15 0.3 3.75
      claude-sonnet-4, claude-sonnet-4-0 |  200000 |  64000 | yes |                           | 3 15 0.3 3.75
      claude-opus-4, claude-opus-4-0     |  200000 |  32000 | yes |                           | 15 75 1.5 18.75
      claude-opus-4-1                    |  200000 |  32000 | yes |                           | 15 75 1.5 18.75
      claude-haiku-4-5                   |  200000 |  64000 | yes |                           | 1 5 0.1 1.25
      claude-sonnet-4-5                  |  200000 |  64000 | yes |                           | 3 15 0.3 3.75
      claude-opus-4-5                    |  200000 |  64000 | yes | low medium high           | 5 25 0.5 6.25
      claude-sonnet-4-6                  | 1000000 |  64000 | yes | low medium high max       | 3 15 0.3 3.75
      claude-opus-4-6                    | 1000000 | 128000 | yes | low medium high max       | 5 25 0.5 6.25
      claude-opus-4-7                    | 1000000 | 128000 | yes | low medium high xhigh max | 5 25 0.5 6.25
      claude-opus-4-8                    | 1000000 | 128000 | yes | low medium high xhigh max | 5 25 0.5 6.25
      claude-sonnet-5                    | 1000000 | 128000 | yes | low medium high xhigh max | 2 10 0.2 2.5
      claude-opus-5                      | 1000000 | 128000 | yes | low medium high xhigh max | 5 25 0.5 6.25
      claude-haiku-5-5                   | 1000000 | 128000 | yes | low medium high xhigh max |
      claude-sonnet-5-5                  | 1000000 | 128000 | yes | low medium high xhigh max | 2 10 0.1 2.5
      claude-opus-5-5                    | 1000000 | 128000 | yes | low medium high xhigh max | 4 20 0.2 5`,
  },
  {
    providers: ['deepseek'],
    models: `
      deepseek-flash, deepseek-v4.1-flash | 1000000 | 384000 | yes | none low high max | 0.3 1.2 0.006
      deepseek-v4-pro                     | 1000000 | 384000 | no  | none high max     | 1.32 3.96 0.044
      deepseek-v4-flash                   | 1000000 | 384000 |     | none low high max |
      deepseek-chat                       |  128000 |        | no  |                   |
      deepseek-reasoner                   |  128000 |        | no  |                   |
      deepseek-v3.1, deepseek-v3.2        |  128000 |        | no  |                   |
      deepseek-r1, deepseek-r1-0528       |  128000 |        | no  |                   |`,
  },
  {
    providers: ['gemini', 'google'],
    models: `
      gemini-2.0-flash                       | 1048576 |  8192 | yes |                         | 0.1 0.4 0.025
      gemini-2.0-flash-lite                  | 1048576 |  8192 | yes |                         | 0.075 0.3
      gemini-2.5-pro                         | 1048576 | 65536 | yes | low medium high         | 1.25 10 0.125 > 200000 2.5 15 0.25
      gemini-2.5-flash                       | 1048576 | 65536 | yes | none low medium high    | 0.3 2.5 0.03
      gemini-2.5-flash-lite                  | 1048576 | 65536 | yes | none low medium high    | 0.1 0.4 0.01
      gemini-3-pro, gemini-3-pro-preview     | 1000000 | 64000 | yes | low high                | 2 12 0.2 > 200000 4 18 0.4
      gemini-3-flash, gemini-3-flash-preview | 1048576 | 65536 | yes | minimal low medium high | 0.5 3 0.05
      gemini-3.1-pro, gemini-3.1-pro-preview | 1048576 | 65536 | yes | low medium high         | 2 12 0.2 > 200000 4 18 0.4
      gemini-3.5-flash                       | 1048576 | 65536 | yes | low medium high         | 1.5 9 0.15
      gemini-3.8-flash                       | 1048576 | 65536 | yes | low medium high         | 0.75 3.75 0.075`,
  },
  {
    providers: ['xai'],
    models: `
      grok-3                                 |  131072 |       | no  |                       | 3 15 0.75
      grok-3-mini                            |  131072 |       | no  | low high              | 0.3 0.5 0.075
      grok-4, grok-4-0709                    |  256000 |       | yes |                       | 3 15 0.75
      grok-4-fast, grok-4-fast-reasoning     | 2000000 | 30000 | yes |                       | 0.2 0.5 0.05
      grok-4-fast-non-reasoning              | 2000000 | 30000 | yes |                       | 0.2 0.5 0.05
      grok-4-1-fast, grok-4-1-fast-reasoning | 2000000 | 30000 | yes |                       | 0.2 0.5 0.05
      grok-4-1-fast-non-reasoning            | 2000000 | 30000 | yes |                       | 0.2 0.5 0.05
      grok-code-fast-1                       |  256000 | 10000 | no  |                       | 0.2 1.5 0.02
      grok-4.3                               | 1000000 |       | yes | none low medium high  | 1.25 2.5 0.2 > 200000 2.5 5 0.4
      grok-4.5                               |  500000 |       | yes | low medium high       | 2 6 0.5 > 200000 4 12 1
      grok-4.7                               |  500000 |       | yes | low medium high xhigh | 2 6 0.5 > 200000 4 12 1`,
  },
  {
    providers: ['mistral'],
    models: `
      mistral-large, mistral-large-2512         | 262144 |       | yes |           | 0.5 1.5
      mistral-medium, mistral-medium-3.5        | 262144 |       | yes | none high | 1.5 7.5
      mistral-medium-2508                       | 262144 |       | yes |           | 0.4 2
      mistral-small                             | 256000 |       | yes | none high | 0.15 0.6
      devstral-medium, devstral-2512            | 262144 |       | no  |           | 0.4 2
      devstral-medium-2507, devstral-small-2507 | 128000 |       | no  |           |
      magistral-medium                          | 128000 | 16384 |     | none high | 2 5
      magistral-small                           | 256000 |       | yes | none high | 0.15 0.6
      codestral, codestral-2508                 | 256000 |       | no  |           | 0.3 0.9`,
  },
  {
    providers: ['moonshot', 'moonshotai'],
    models: `
      kimi-k2-0711-preview, kimi-k2-instruct      | 131072 |  | no  |              | 0.6 2.5 0.15
      kimi-k2-0905-preview, kimi-k2-instruct-0905 | 262144 |  | no  |              | 0.6 2.5 0.15
      kimi-k2-0905                                | 262144 |  | no  |              | 0.6 2.5 0.15
      kimi-k2-thinking                            | 262144 |  | no  |              | 0.6 2.5 0.15
      kimi-k2.6                                   | 262144 |  | yes |              | 0.95 4 0.16
      kimi-k3                                     |        |  |     | low high max | 3 15 0.3
      kimi-k2.5                                   | 262144 |  |     |              |`,
  },
  {
    providers: ['zai'],
    models: `
      glm-4.5     | 131072 |  98304 | no |  | 0.6 2.2 0.11
      glm-4.5-air | 131072 |  98304 | no |  | 0.2 1.1 0.03
      glm-4.6     | 204800 | 131072 | no |  | 0.6 2.2 0.11
      glm-4.7     | 204800 | 131072 | no |  | 0.6 2.2 0.11
      glm-5.1     | 204800 | 131072 | no |  |`,
  },
  {
    // Weights that anybody may serve: what they cost, and often how long an answer may be, is the server's to say.
    providers: [],
    models: `
      gpt-oss-120b, gpt-oss-20b                                              | 131072 |  | no  | low medium high |
      llama-3.1-8b-instruct, llama-3.1-70b-instruct, llama-3.1-405b-instruct | 131072 |  | no  |                 |
      llama-3.1-8b-instant, llama-3.3-70b-versatile, llama-3.3-70b-instruct  | 131072 |  | no  |                 |
      llama-3.3-70b-instruct-turbo                                           | 131072 |  | no  |                 |
      llama-4-scout, llama-4-maverick                                        |        |  | yes |                 |
      llama-4-scout-17b-16e-instruct, llama-4-maverick-17b-128e-instruct     |        |  | yes |                 |
      qwen3-8b, qwen3-14b, qwen3-32b, qwen3-30b-a3b, qwen3-235b-a22b         |        |  | no  |                 |
      qwen3-235b-a22b-instruct-2507, qwen3-235b-a22b-2507                    | 262144 |  | no  |                 |
      qwen3-235b-a22b-thinking-2507, qwen3-30b-a3b-instruct-2507             | 262144 |  | no  |                 |
      qwen3-coder-480b-a35b-instruct, qwen3-coder-480b-a35b-instruct-fp8     | 262144 |  | no  |                 |
      qwen3-coder, qwen3-coder-30b-a3b-instruct, qwen3-coder-next            | 262144 |  | no  |                 |`,
  },
]

type Facts = Omit<ModelInfo, 'id'>

interface Known {
  readonly cells: readonly string[]
  readonly providers: readonly string[]
  /** Read from the cells when they are asked for: a start asks for one model of all these. */
  facts?: Facts
}

let byName: ReadonlyMap<string, Known> | undefined

function table(): ReadonlyMap<string, Known> {
  if (byName) return byName
  const known = new Map<string, Known>()
  for (const { providers, models } of VENDORS) {
    for (const line of models.trim().split('\n')) {
      const [names = '', ...cells] = line.split('|')
      const model = { cells, providers }
      for (const name of names.split(',')) known.set(plain(name), model)
    }
  }
  byName = known
  return known
}

function factsOf(cells: readonly string[]): Facts {
  const [context, output, images, efforts, prices = ''] = cells.map(cell => cell.trim())
  const [usual, long] = prices.split('>')
  const price = priceOf(usual)
  const [tokens, ...above] = long?.trim().split(' ') ?? []
  const beyond = priceOf(above.join(' '))
  return {
    ...(context ? { contextWindow: Number(context) } : {}),
    ...(output ? { maxOutputTokens: Number(output) } : {}),
    ...(images ? { input: images === 'yes' ? (['text', 'image'] as const) : (['text'] as const) } : {}),
    ...(efforts ? { efforts: efforts.split(' ') } : {}),
    ...(price ? { price: beyond ? { ...price, above: { tokens: Number(tokens), ...beyond } } : price } : {}),
  }
}

function priceOf(text = '') {
  const [input, output, cacheRead, cacheWrite] = text.split(' ').filter(Boolean).map(Number)
  if (input === undefined || output === undefined) return undefined
  return {
    input,
    output,
    ...(cacheRead === undefined ? {} : { cacheRead }),
    ...(cacheWrite === undefined ? {} : { cacheWrite }),
  }
}

/**
 * What the table knows of a model, under the id that was asked for; undefined for a variant that it does not know.
 * Where a `provider` is named, the vendor's price is told only if that is one of its own.
 */
export function lookUpModel(id: string, provider?: string): ModelInfo | undefined {
  const known = table().get(plain(id)) ?? table().get(undated(plain(id)))
  if (!known) return undefined
  known.facts ??= factsOf(known.cells)
  const { price, ...facts } = known.facts
  const own = provider === undefined || known.providers.includes(provider)
  return { id, ...facts, ...(price && own ? { price } : {}) }
}

/** Marks of a route that leave the model what it is, as routers and registries append them. */
const ROUTE_MARK = /:(free|nitro|floor|exacto|online|thinking|latest|0)$/
/** `us.anthropic.` of Bedrock. */
const REGION = /^(?:(?:us|eu|apac|global|jp|au)\.)?(?:anthropic|openai|deepseek|meta|mistral|qwen|moonshot|zai)\./

/** A model's name without what differs from one server to the next: path, region, mark, spelling of its version. */
function plain(id: string): string {
  const name = id.trim().toLowerCase().replace(/^.*\//, '').replace(REGION, '').replace(ROUTE_MARK, '')
  return (
    name
      .replace('@', '-')
      // `-20250929-v1` of Bedrock.
      .replace(/(-20\d{6})-v\d+$/, '$1')
      // `glm-4p6`, as Fireworks writes 4.6.
      .replace(/(\d)p(?=\d)/g, '$1-')
      .replace(/[.:_]/g, '-')
      .replace(/-latest$/, '')
  )
}

/** Four digits are left: `-0905` and `-2508` are models of their own. */
const undated = (name: string) => name.replace(/-20\d\d(?:-?[01]\d-?[0-3]\d)$/, '')
