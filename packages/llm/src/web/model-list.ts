/** What servers say of their models, each in its own words, in ours. */

import type { ModelInfo } from '../stream.ts'
import { isRecord } from './value.ts'

type Item = Readonly<Record<string, unknown>>

interface Listed {
  readonly info: ModelInfo
  /** False for what embeds, draws, speaks or judges. */
  readonly chats: boolean
  /** It is in memory, so it answers at once. */
  readonly loaded: boolean
}

/** The models of one answer; undefined where it is no list. */
export function readList(body: unknown): readonly Listed[] | undefined {
  const list = isRecord(body) ? ('data' in body ? body['data'] : body['models']) : body
  // Ollama's, when there is no model.
  if (list === null) return []
  if (!Array.isArray(list)) return undefined
  return list.flatMap(item => (isRecord(item) ? (readItem(item) ?? []) : typeof item === 'string' ? ofId(item) : []))
}

/** The parameter that asks for the rest of a list, where there is one: Anthropic's `after_id`. */
export function nextPage(body: unknown): string | undefined {
  const more = isRecord(body) && body['has_more'] === true ? body['last_id'] : undefined
  return typeof more === 'string' && more ? `after_id=${encodeURIComponent(more)}` : undefined
}

/**
 * Those that can answer, the loaded ones first. `also` are further lists of the server, whose facts lie over.
 * `preferred` is the order of those that are known without asking.
 */
export function usableModels(
  listed: readonly Listed[],
  also: readonly Listed[],
  preferred: readonly ModelInfo[],
): readonly ModelInfo[] {
  const more = new Map(also.map(item => [item.info.id, item]))
  const seen = new Set<string>()
  const usable = listed.flatMap(({ info, chats, loaded }) => {
    const over = more.get(info.id)
    if (!chats || over?.chats === false || seen.has(info.id)) return []
    seen.add(info.id)
    return [{ info: over ? { ...info, ...over.info } : info, loaded: loaded || over?.loaded === true }]
  })
  const rank = (id: string) => {
    const at = preferred.findIndex(model => model.id === id)
    return at < 0 ? preferred.length : at
  }
  return usable
    .sort((a, b) => Number(b.loaded) - Number(a.loaded) || rank(a.info.id) - rank(b.info.id))
    .map(({ info }) => info)
}

function ofId(id: string): Listed {
  return { info: { id }, chats: !OTHER.test(id), loaded: false }
}

/** Ids of what cannot hold a conversation, for servers that say no more than the id. */
const OTHER =
  /embed|rerank|moderation|whisper|transcribe|speech|realtime|dall-e|diffusion|-audio|-guard|-ocr(-|$)|(^|[-_/.])(tts|image|imagen|veo|lyria|sora|flux|bge|babbage|davinci)([-_.:0-9]|$)|-instruct-0914|turbo-instruct$/i
const OTHER_TYPE = /embed|rerank|moderation|image|audio|video|speech|transcri/i

function readItem(item: Item): Listed | undefined {
  const given = textOf(item['id']) ?? textOf(item['model']) ?? textOf(item['name'])
  if (!given) return undefined
  // Gemini writes `models/…`.
  const id = given.replace(/^models\//, '')
  const name = textOf(item['display_name']) ?? textOf(item['name'])
  const contextWindow = windowOf(item)
  const maxOutputTokens = outputOf(item)
  const input = inputOf(item)
  const price = priceOf(item['pricing'])
  const info = {
    id,
    ...(name && name !== given && name !== id ? { name } : {}),
    ...(contextWindow ? { contextWindow } : {}),
    ...(maxOutputTokens ? { maxOutputTokens } : {}),
    ...(input ? { input } : {}),
    ...(price ? { price } : {}),
  }
  return { info, chats: chats(item, id), loaded: item['state'] === 'loaded' || item['expires_at'] !== undefined }
}

function chats(item: Item, id: string): boolean {
  const { type, active, kind } = item
  if (active === false || item['supports_chat'] === false) return false
  const capabilities = asRecord(item['capabilities'])
  if (capabilities['completion_chat'] === false) return false
  const outputs = asRecord(item['architecture'])['output_modalities'] ?? item['output_modalities']
  if (Array.isArray(outputs) && !outputs.includes('text')) return false
  if ([type, kind].some(value => typeof value === 'string' && OTHER_TYPE.test(value))) return false
  // One that is called a chat model, or says what it puts out, is one whatever its name.
  return type === 'chat' || type === 'llm' || type === 'vlm' || Array.isArray(outputs) || !OTHER.test(id)
}

/** As it was loaded (LM Studio, Ollama), as it is served (vLLM), as the model could. */
function windowOf(item: Item): number | undefined {
  const provider = sizeOf(asRecord(item['top_provider'])['context_length'])
  const own =
    sizeOf(item['loaded_context_length']) ??
    sizeOf(item['max_model_len']) ??
    sizeOf(item['context_length']) ??
    sizeOf(item['context_window']) ??
    sizeOf(item['max_context_length']) ??
    sizeOf(item['max_input_tokens'])
  return provider && own ? Math.min(provider, own) : (own ?? provider)
}

function outputOf(item: Item): number | undefined {
  return (
    sizeOf(asRecord(item['top_provider'])['max_completion_tokens']) ??
    sizeOf(item['max_completion_tokens']) ??
    sizeOf(item['max_output_tokens']) ??
    // Anthropic's, beside its `max_input_tokens`; elsewhere the word may mean anything.
    (item['max_input_tokens'] === undefined ? undefined : sizeOf(item['max_tokens']))
  )
}

function inputOf(item: Item): ModelInfo['input'] | undefined {
  const modalities = asRecord(item['architecture'])['input_modalities'] ?? item['input_modalities']
  if (Array.isArray(modalities)) return reads(modalities.includes('image'))
  const { vision, image_input: image } = asRecord(item['capabilities'])
  if (typeof vision === 'boolean') return reads(vision)
  if (isRecord(image) && typeof image['supported'] === 'boolean') return reads(image['supported'])
  if (typeof item['supports_image_input'] === 'boolean') return reads(item['supports_image_input'])
  if (item['type'] === 'vlm' || item['type'] === 'llm') return reads(item['type'] === 'vlm')
  return undefined
}

const reads = (images: boolean): ModelInfo['input'] => (images ? ['text', 'image'] : ['text'])

/** OpenRouter's texts are dollars a token, Together's numbers dollars a million; both noughts there mean not for sale. */
function priceOf(value: unknown): ModelInfo['price'] | undefined {
  if (!isRecord(value)) return undefined
  const perToken = typeof value['prompt'] === 'string'
  const dollars = (price: unknown): number | undefined => {
    const number = typeof price === 'string' && price.trim() ? Number(price) : price
    if (typeof number !== 'number' || !(number >= 0)) return undefined
    return perToken ? Number((number * 1_000_000).toPrecision(10)) : number
  }
  const input = dollars(perToken ? value['prompt'] : value['input'])
  const output = dollars(perToken ? value['completion'] : value['output'])
  if (input === undefined || output === undefined || (!perToken && input + output === 0)) return undefined
  const cacheRead = dollars(perToken ? value['input_cache_read'] : value['cached_input'])
  const cacheWrite = dollars(value['input_cache_write'])
  return {
    input,
    output,
    ...(cacheRead === undefined ? {} : { cacheRead }),
    ...(cacheWrite === undefined ? {} : { cacheWrite }),
  }
}

const textOf = (value: unknown): string | undefined => (typeof value === 'string' && value.trim() ? value : undefined)
const sizeOf = (value: unknown): number | undefined =>
  typeof value === 'number' && value > 0 && Number.isInteger(value) ? value : undefined
const asRecord = (value: unknown): Item => (isRecord(value) ? value : {})
