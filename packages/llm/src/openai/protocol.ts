/** Chat completions: `POST <base>/chat/completions` with a bearer key, answered by `data:` events up to `[DONE]`. */

import type { LlmRequest } from '../stream.ts'
import type { ProviderError } from '../web/failure-code.ts'
import type { Protocol } from '../web/protocol.ts'
import { amended } from './amend.ts'
import { type Dialect, dialectFor } from './dialect.ts'
import { RequestWriter } from './request.ts'
import { CompletionReader } from './stream.ts'

/** A session uses few; what was remembered of the others' messages goes. */
const MAX_MODELS = 16

interface Model {
  readonly dialect: Dialect
  readonly writer: RequestWriter
}

export class ChatCompletions implements Protocol {
  readonly answer = 'chat completion'
  readonly path = 'chat/completions'
  private readonly dialect: Dialect
  private readonly settings: Partial<Dialect>
  private readonly warn: (text: string) => void
  private readonly models = new Map<string, Model>()
  private readonly warned = new Set<string>()

  /**
   * `settings` are what somebody has set, over what is known of the provider and of its models. `warn` is told, once a
   * model, what of a request cannot be said to it.
   */
  constructor(dialect: Dialect, settings: Partial<Dialect>, warn: (text: string) => void) {
    this.dialect = dialect
    this.settings = settings
    this.warn = warn
  }

  authorization(key: string) {
    return { authorization: `Bearer ${key}` }
  }

  body(request: LlmRequest): Buffer {
    const { dialect, writer } = this.model(request)
    const { provider, model, effort, stop } = request
    if (effort && dialect.effort === 'none') this.once(`${provider}/${model} takes no effort: "${effort}" is left out`)
    if (stop?.length && dialect.refuses.includes('stop')) {
      this.once(`${provider}/${model} takes no stop sequences: they are left out`)
    }
    return writer.body(request)
  }

  amend(request: LlmRequest, refusal: ProviderError): boolean {
    const dialect = amended(this.model(request).dialect, request, refusal)
    if (dialect) this.use(request.model, dialect)
    return dialect !== undefined
  }

  reader(request: LlmRequest): CompletionReader {
    return new CompletionReader(this.model(request).dialect)
  }

  private model({ model }: LlmRequest): Model {
    return this.models.get(model) ?? this.use(model, dialectFor(this.dialect, model, this.settings))
  }

  private once(text: string): void {
    if (this.warned.has(text)) return
    this.warned.add(text)
    this.warn(text)
  }

  private use(model: string, dialect: Dialect): Model {
    if (this.models.size >= MAX_MODELS) this.models.clear()
    const used = { dialect, writer: new RequestWriter(dialect, model) }
    this.models.set(model, used)
    return used
  }
}
