/** Where spans go, by the row's config and by the variables that OpenTelemetry defines; the config goes first. */

import { HarnessError } from '@cambium/core'

export interface OtelConfig {
  endpoint?: string
  headers: Record<string, string>
  serviceName?: string
  resource: Record<string, string>
  compression: 'none' | 'gzip'
  content: boolean
  timeoutMs: number
  flushMs: number
  maxQueued: number
  maxBatch: number
}

type Env = Readonly<Record<string, string | undefined>>

export interface Target {
  readonly url: URL
  readonly headers: Readonly<Record<string, string>>
  readonly gzip: boolean
  /** Attributes of the resource, `service.name` among them. */
  readonly resource: Readonly<Record<string, string>>
}

/**
 * Undefined where nobody says an endpoint, or the variables switch it off.
 * @throws `OTEL_ENDPOINT`, `OTEL_PROTOCOL`
 * @see https://opentelemetry.io/docs/specs/otel/protocol/exporter/
 */
export function targetOf(config: OtelConfig, env: Env): Target | undefined {
  if (env['OTEL_SDK_DISABLED']?.toLowerCase() === 'true') return undefined
  const url = urlOf(config.endpoint, env)
  if (!url) return undefined
  const protocol = env['OTEL_EXPORTER_OTLP_TRACES_PROTOCOL'] || env['OTEL_EXPORTER_OTLP_PROTOCOL']
  if (protocol && protocol !== 'http/json' && !config.endpoint) {
    throw new HarnessError('OTEL_PROTOCOL', `spans are sent as http/json, and the environment asks for ${protocol}`, {
      fix: 'set OTEL_EXPORTER_OTLP_PROTOCOL=http/json with an endpoint for it (a collector has it on port 4318), or say `endpoint` in the row',
    })
  }
  const compression = env['OTEL_EXPORTER_OTLP_TRACES_COMPRESSION'] || env['OTEL_EXPORTER_OTLP_COMPRESSION']
  const named = pairs(env['OTEL_RESOURCE_ATTRIBUTES'])
  const service = config.serviceName ?? (env['OTEL_SERVICE_NAME'] || named['service.name'] || 'cambium')
  return {
    url,
    headers: {
      ...pairs(env['OTEL_EXPORTER_OTLP_TRACES_HEADERS'] || env['OTEL_EXPORTER_OTLP_HEADERS']),
      ...config.headers,
    },
    gzip: config.compression === 'gzip' || compression === 'gzip',
    resource: { ...named, ...config.resource, 'service.name': service },
  }
}

/** A base gets the path of traces; a variable of traces alone is taken as it is. */
function urlOf(configured: string | undefined, env: Env): URL | undefined {
  const exact = configured ? undefined : env['OTEL_EXPORTER_OTLP_TRACES_ENDPOINT']
  const text = configured || exact || env['OTEL_EXPORTER_OTLP_ENDPOINT']
  if (!text) return undefined
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (!url || !/^https?:$/.test(url.protocol)) {
    throw new HarnessError('OTEL_ENDPOINT', `"${text}" is no address of a collector`, {
      fix: 'write http://host:4318, or the whole address of its traces',
    })
  }
  if (!exact && !url.pathname.endsWith('/v1/traces')) url.pathname = `${url.pathname.replace(/\/$/, '')}/v1/traces`
  return url
}

/** `a=b,c=d`, percent-encoded as in W3C baggage; what is no pair is left out. */
function pairs(text: string | undefined): Record<string, string> {
  const found: [string, string][] = []
  for (const part of text?.split(',') ?? []) {
    const at = part.indexOf('=')
    if (at > 0) found.push([decoded(part.slice(0, at)), decoded(part.slice(at + 1))])
  }
  return Object.fromEntries(found)
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text.trim())
  } catch {
    // Not encoded at all, with a percent sign of its own.
    return text.trim()
  }
}
