/** What each feature of a text costs, in tokens, by the vocabulary of a model. */

import { estimateOf, type Features } from './features.ts'

/**
 * In the order of `FEATURES`. Fitted by least squares of the relative error, without negative prices, to the counts of
 * the vocabularies themselves over 700 texts: code, JSON, logs and documents of packages, compiler messages in thirteen
 * languages, machine-made numbers, hashes and tables, and prose. None of them is in `tests/fixtures/corpus`, which
 * is what the error is measured on. `claude` is the one that was published, of Claude 2; later ones differ, as calibration
 * finds out. `general` is for models that are not known: the middle of all the others.
 */
const PRICES = {
  o200k: [
    0.88, 0.13, 0.47, 0.1, 0, 0.98, 1.17, 0.72, 0.48, 1.06, 0.17, 0.08, 0.45, 0.76, 0, 0.3, 0.73, 0.44, 1.78, 0, 0.43,
    1.46, 0.02, 0.36, 0.45, 0.35, 0.6, 0.67, 0.78, 1.61, 1.52, 1.92,
  ],
  cl100k: [
    0.94, 0.09, 0.94, 0.07, 0, 0.96, 1.19, 0.79, 0.4, 1.07, 0.13, 0.05, 0.34, 0.81, 0, 0.3, 1.67, 0.27, 1.81, 0.19,
    1.26, 2.26, 0.37, 1.29, 1.33, 0.46, 0.95, 1, 1.17, 1.12, 1.62, 3.03,
  ],
  llama3: [
    0.94, 0.13, 1.03, 0.07, 0, 0.97, 1.2, 0.78, 0.39, 1.06, 0.11, 0.05, 0.3, 0.78, 0, 0.3, 0.73, 0.66, 1.95, 0.02, 0.66,
    2, 0, 0.66, 0.74, 0.35, 0.64, 0.6, 0.81, 1.46, 2.03, 2.67,
  ],
  mistral: [
    1.02, 0.08, 1.14, 0.22, 0.58, 0.83, 1, 0.73, 1.18, 0.93, 0.28, 0.17, 1.22, 0.57, 0.05, 0.3, 2.12, 0.13, 1.51, 0.19,
    1.22, 1.99, 0.66, 1.27, 1.16, 0.57, 1.24, 1.08, 1.12, 1.31, 1.67, 2.71,
  ],
  claude: [
    1.03, 0.02, 1.21, 0.14, 0, 0.94, 0.6, 0.68, 1.04, 1.07, 0.16, 0.14, 0.58, 0.26, 0.01, 0.3, 2.33, 0.01, 1.77, 0.3,
    1.32, 2.26, 0.62, 1.43, 1.75, 0.51, 1.11, 1.01, 1.04, 1.11, 1.79, 2.98,
  ],
  qwen: [
    0.92, 0.15, 0.87, 0.06, 0.6, 0.88, 0.88, 0.71, 0.42, 0.88, 0.15, 0.11, 0.48, 0.85, 0.01, 0.3, 1, 0.43, 1.96, 0.05,
    0.62, 2.02, 0, 1.17, 0.86, 0.38, 0.7, 0.58, 0.59, 2.51, 1.92, 1.8,
  ],
  deepseek: [
    0.92, 0.13, 0.8, 0.2, 0, 1, 1.13, 0.67, 0.71, 1.01, 0.23, 0.1, 0.48, 0.64, 0.01, 0.3, 1.33, 0.35, 1.92, 0.01, 0.57,
    1.92, 0, 0.67, 0.6, 0.38, 0.71, 0.62, 0.53, 2.33, 1.28, 2.33,
  ],
  gemini: [
    0.86, 0.16, 0.21, 0.13, 0.73, 0.55, 0.86, 0.56, 1.15, 0.98, 0.12, 0.15, 1.1, 0.63, 0.04, 0.3, 0.66, 0.34, 1.68, 0,
    0.53, 1.75, 0, 0.47, 0.55, 0.37, 0.71, 0.38, 0.62, 1.57, 1.4, 0.96,
  ],
  general: [
    0.95, 0.11, 0.82, 0.12, 0, 1.35, 0.89, 0.64, 0.69, 0.95, 0.18, 0.12, 0.66, 0.71, 0.02, 0.3, 1.3, 0.3, 1.49, 0.14,
    0.83, 1.86, 0.17, 0.84, 0.91, 0.43, 0.81, 0.73, 0.84, 1.31, 1.61, 2.22,
  ],
} satisfies Record<string, readonly number[]>

export type Vocabulary = keyof typeof PRICES

/** Which models have which vocabulary, by their id without vendor; the first that fits. */
const MODELS: readonly (readonly [RegExp, Vocabulary])[] = [
  [/^(chatgpt-)?gpt-(4o|4\.|5|oss)|^o\d|^codex|^chatgpt/, 'o200k'],
  [/^gpt-(4|3)|^text-embedding/, 'cl100k'],
  [/claude/, 'claude'],
  [/deepseek/, 'deepseek'],
  [/^(qwen|qwq|qvq)/, 'qwen'],
  [/^(gemini|gemma)/, 'gemini'],
  [/llama-?[34]/, 'llama3'],
  [/^(open-)?(mistral-7b|mixtral)|^codestral|llama-?2/, 'mistral'],
]

/** The vocabulary of a model by its id, whatever provider offers it; `general` for one that is not known. */
export function vocabularyOf(model: string): Vocabulary {
  let vocabulary = vocabularies.get(model)
  if (!vocabulary) {
    const id = model.slice(model.lastIndexOf('/') + 1).toLowerCase()
    vocabulary = MODELS.find(([pattern]) => pattern.test(id))?.[1] ?? 'general'
    // Ids come from configuration and from people, but nothing bounds them.
    if (vocabularies.size > 500) vocabularies.clear()
    vocabularies.set(model, vocabulary)
  }
  return vocabulary
}

const vocabularies = new Map<string, Vocabulary>()

/** Tokens of a text with these features, not rounded. */
export function tokensOf(features: Features, vocabulary: Vocabulary): number {
  return estimateOf(features, PRICES[vocabulary])
}
