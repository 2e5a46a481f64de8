/** Counts what a harness does, for whoever runs it: `ctx.metrics`, and Prometheus text on request. */

import { type Context, HarnessError, Service } from '@cambium/core'
import Schema from 'schemastery'
import type { Metrics } from './metrics/contract.ts'
import { prometheusText } from './metrics/prometheus.ts'
import {
  type Counter,
  checkDefinition,
  type Gauge,
  type Histogram,
  type HistogramDefinition,
  Metric,
  type MetricBounds,
  type MetricDefinition,
  type MetricKind,
  type MetricSnapshot,
} from './metrics/registry.ts'
import { watch } from './metrics/watch.ts'

export type { Metrics } from './metrics/contract.ts'
export type {
  Counter,
  Gauge,
  Histogram,
  HistogramDefinition,
  Labels,
  MetricDefinition,
  MetricSample,
  MetricSnapshot,
} from './metrics/registry.ts'

export const name = 'metrics'
export const inject = ['sessions', 'llm']
export const provide = ['metrics']

export interface Config {
  port?: number
  host: '127.0.0.1' | '::1' | 'localhost'
  maxLabelValues: number
  maxSeries: number
}
export const Config: Schema<Config> = Schema.object({
  port: Schema.natural()
    .max(65_535)
    .description(
      'Where `GET /metrics` answers; 0 takes any. No server without it, or while another process has the port',
    ),
  host: Schema.union(['127.0.0.1', '::1', 'localhost'] as const)
    .default('127.0.0.1')
    .description('Of this machine alone: figures name models and tools'),
  maxLabelValues: Schema.natural()
    .min(1)
    .default(100)
    .description('Values of one label; further ones count as `other`'),
  maxSeries: Schema.natural().min(1).default(1_000).description('Combinations of labels of one metric; likewise'),
})

declare module 'cordis' {
  interface Context {
    /** Counters, gauges and histograms: what a harness has done since its start. */
    metrics: Metrics
  }
}

class MetricsService extends Service implements Metrics {
  url: string | undefined
  private readonly all = new Map<string, Metric>()
  private readonly bounds: MetricBounds

  constructor(ctx: Context, bounds: MetricBounds) {
    super(ctx, 'metrics')
    this.bounds = bounds
  }

  counter(definition: MetricDefinition): Counter {
    return this.add('counter', definition)
  }

  gauge(definition: MetricDefinition): Gauge {
    return this.add('gauge', definition)
  }

  histogram(definition: HistogramDefinition): Histogram {
    return this.add('histogram', definition)
  }

  snapshot(): readonly MetricSnapshot[] {
    const byName = (a: MetricSnapshot, b: MetricSnapshot) => (a.name < b.name ? -1 : 1)
    return [...this.all.values()].map(metric => metric.snapshot()).sort(byName)
  }

  prometheus(): string {
    return prometheusText(this.snapshot())
  }

  private add(kind: MetricKind, definition: MetricDefinition): Metric {
    checkDefinition(kind, definition)
    const { name: called } = definition
    if (this.all.has(called)) {
      throw new HarnessError('METRIC_DUPLICATE', `a metric "${called}" is registered already`, {
        where: this.ctx.fiber.name,
        fix: 'begin the name with that of your plugin',
      })
    }
    const { all } = this
    const metric = new Metric(kind, definition, this.bounds)
    this.ctx.effect(() => {
      all.set(called, metric)
      return () => void all.delete(called)
    }, `metric ${called}`)
    return metric
  }
}

export async function apply(ctx: Context, config: Config) {
  const service = new MetricsService(ctx, config)
  watch(ctx, service)
  const { port, host } = config
  if (port === undefined) return
  await ctx.effect(async () => {
    const { serve, close } = await import('./metrics/endpoint.ts')
    const server = await serve(() => service.prometheus(), { host, port })
    if (!server) {
      // Two runs at once are nothing wrong, and a second one does not fail for its figures.
      ctx.logger.warn(`port ${port} of ${host} is taken: figures of this process are not served; 0 takes any port`)
      return () => {}
    }
    const address = server.address() as { port: number }
    service.url = `http://${host === '::1' ? '[::1]' : host}:${address.port}/metrics`
    ctx.logger.info(`for Prometheus: ${service.url}`)
    return () => close(server)
  }, 'metrics server')
}
