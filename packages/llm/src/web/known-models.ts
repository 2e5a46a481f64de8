/** What is known of one provider's models: by the configuration, by its own list, by the table that is shipped. */

import { mergedInfo } from '../models/merge.ts'
import { lookUpModel } from '../models/table.ts'
import type { ModelInfo } from '../stream.ts'
import { baseOf, isHome, trimmed } from './endpoint.ts'
import type { ProviderEntry } from './provider.ts'
import type { ProviderSettings } from './settings.ts'

export class KnownModels {
  /** What the provider listed when it was last asked. */
  listed: readonly ModelInfo[] = []
  private readonly entry: ProviderEntry
  /** Somebody has written down what it offers. */
  private readonly written: boolean
  /** Somebody has given it another address. */
  private readonly moved: boolean

  constructor(entry: ProviderEntry, { models, baseURL }: ProviderSettings) {
    this.entry = entry
    this.written = (models?.length ?? 0) > 0
    this.moved = Boolean(baseURL)
  }

  all(): readonly ModelInfo[] {
    return this.informed(this.written || !this.listed.length ? this.entry.models : this.listed)
  }

  /** Each with all that is known of it. */
  informed(models: readonly ModelInfo[]): readonly ModelInfo[] {
    return models.map(({ id }) => this.info(id) ?? { id })
  }

  info(id: string): ModelInfo | undefined {
    const ours = this.entry.models.find(model => model.id === id)
    const listed = this.listed.find(model => model.id === id)
    return mergedInfo(id, this.written ? ours : undefined, listed, ours, this.facts(id))
  }

  /** Our list is that of the provider's own address; another server has models of its own. */
  isOurs(base: string): boolean {
    const { kind, baseURL, models } = this.entry
    return this.written || (kind === 'remote' && base === baseURL && models.length > 0)
  }

  defaultModel(): string | undefined {
    return (this.isOurs(baseOf(this.entry)) ? this.entry.models : this.listed)[0]?.id
  }

  /** Our table's word: its price is that of the provider's own address, and its window not that of a server at home. */
  private facts(id: string): ModelInfo | undefined {
    const { provider, kind, baseURL } = this.entry
    const base = baseOf(this.entry)
    const found = lookUpModel(id, !this.moved && base === trimmed(baseURL) ? provider : '')
    if (!found || (kind === 'remote' && !isHome(base))) return found
    const { input, efforts } = found
    return { id, ...(input ? { input } : {}), ...(efforts ? { efforts } : {}) }
  }
}
