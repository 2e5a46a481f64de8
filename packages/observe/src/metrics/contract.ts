/** What `ctx.metrics` offers. */

import type { Counter, Gauge, Histogram, HistogramDefinition, MetricDefinition, MetricSnapshot } from './registry.ts'

export interface Metrics {
  /**
   * A metric for as long as the calling plugin lives. Labels that a definition does not name are left out.
   * @throws `METRIC_DUPLICATE`, `METRIC_INVALID`
   */
  counter(definition: MetricDefinition): Counter
  gauge(definition: MetricDefinition): Gauge
  histogram(definition: HistogramDefinition): Histogram
  /** Every metric as it stands, by name. */
  snapshot(): readonly MetricSnapshot[]
  /** The same in Prometheus' text format 0.0.4. */
  prometheus(): string
  /** Where `GET /metrics` answers; undefined without a server. */
  readonly url: string | undefined
}
