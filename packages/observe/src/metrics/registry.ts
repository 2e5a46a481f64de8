/** Counters, gauges and histograms by name, with a bound on what their labels may come to. */

import { HarnessError } from '@cambium/core'

export type Labels = Readonly<Record<string, string>>

export interface MetricDefinition {
  /** As Prometheus wants it: `cambium_tool_calls_total`, `…_seconds`, `…_bytes`. A counter's ends in `_total`. */
  readonly name: string
  /** One sentence. */
  readonly help: string
  /** Names of its labels; none by default. */
  readonly labels?: readonly string[]
}

export interface HistogramDefinition extends MetricDefinition {
  /** Upper bounds in ascending order, without the last one, which is infinite. */
  readonly buckets: readonly number[]
}

export interface Counter {
  /** @throws `METRIC_VALUE` for what is below zero or no number */
  inc(labels?: Labels, by?: number): void
}

export interface Gauge {
  set(value: number, labels?: Labels): void
  add(by: number, labels?: Labels): void
}

export interface Histogram {
  observe(value: number, labels?: Labels): void
}

export type MetricKind = 'counter' | 'gauge' | 'histogram'

export interface MetricSample {
  readonly labels: Labels
  /** Of a histogram: the sum of what was observed. */
  readonly value: number
  /** Of a histogram: how much was observed, and how much of it up to each bound. */
  readonly count?: number
  readonly buckets?: readonly { readonly le: number; readonly count: number }[]
}

export interface MetricSnapshot {
  readonly name: string
  readonly help: string
  readonly kind: MetricKind
  readonly samples: readonly MetricSample[]
}

/** What stands for every further value of a label, when there are too many. */
export const OTHER = 'other'

interface Series {
  readonly labels: Labels
  value: number
  count: number
  readonly buckets: number[]
}

export interface MetricBounds {
  /** Distinct values of one label. */
  readonly maxLabelValues: number
  /** Combinations of one metric. */
  readonly maxSeries: number
}

export class Metric implements Counter, Gauge, Histogram {
  readonly kind: MetricKind
  readonly definition: MetricDefinition & Partial<HistogramDefinition>
  private readonly names: readonly string[]
  private readonly bounds: MetricBounds
  private readonly series = new Map<string, Series>()
  private readonly values: readonly Set<string>[]

  constructor(kind: MetricKind, definition: MetricDefinition & Partial<HistogramDefinition>, bounds: MetricBounds) {
    this.kind = kind
    this.definition = definition
    this.bounds = bounds
    this.names = definition.labels ?? []
    this.values = this.names.map(() => new Set())
    // One without labels is there from the start, as zero.
    if (!this.names.length) this.at({})
  }

  inc(labels: Labels = {}, by = 1): void {
    if (!(by >= 0)) {
      throw new HarnessError('METRIC_VALUE', `the counter ${this.definition.name} cannot grow by ${by}`, {
        fix: 'count upwards, or make it a gauge',
      })
    }
    this.at(labels).value += by
  }

  set(value: number, labels: Labels = {}): void {
    this.at(labels).value = value
  }

  add(by: number, labels: Labels = {}): void {
    this.at(labels).value += by
  }

  observe(value: number, labels: Labels = {}): void {
    const series = this.at(labels)
    const place = this.definition.buckets!.findIndex(le => value <= le)
    if (place >= 0) series.buckets[place]!++
    series.value += value
    series.count++
  }

  snapshot(): MetricSnapshot {
    const { name, help, buckets = [] } = this.definition
    const samples = [...this.series.values()].map(({ labels, value, count, buckets: counts }): MetricSample => {
      if (this.kind !== 'histogram') return { labels, value }
      let below = 0
      const cumulative = buckets.map((le, at) => {
        below += counts[at]!
        return { le, count: below }
      })
      return { labels, value, count, buckets: cumulative }
    })
    return { name, help, kind: this.kind, samples }
  }

  private at(labels: Labels): Series {
    const values = this.names.map((name, index) => this.admitted(index, String(labels[name] ?? '')))
    let key = JSON.stringify(values)
    let series = this.series.get(key)
    if (!series && this.series.size >= this.bounds.maxSeries) {
      values.fill(OTHER)
      key = JSON.stringify(values)
      series = this.series.get(key)
    }
    if (!series) {
      const buckets = (this.definition.buckets ?? []).map(() => 0)
      const own = Object.fromEntries(this.names.map((name, index) => [name, values[index]!]))
      series = { labels: own, value: 0, count: 0, buckets }
      this.series.set(key, series)
    }
    return series
  }

  private admitted(index: number, value: string): string {
    const known = this.values[index]!
    if (known.has(value)) return value
    if (known.size >= this.bounds.maxLabelValues) return OTHER
    known.add(value)
    return value
  }
}

const METRIC_NAME = /^[a-zA-Z_:][a-zA-Z0-9_:]*$/
const LABEL_NAME = /^(?!__)[a-zA-Z_][a-zA-Z0-9_]*$/

/** @throws `METRIC_INVALID` */
export function checkDefinition(kind: MetricKind, { name, labels = [], buckets }: Metric['definition']): void {
  const problem = !METRIC_NAME.test(name)
    ? 'its name holds what no name may'
    : kind === 'counter' && !name.endsWith('_total')
      ? 'the name of a counter ends in _total'
      : labels.some(label => !LABEL_NAME.test(label) || label === 'le')
        ? `one of its labels (${labels.join(', ')}) has a name that no label may have`
        : kind === 'histogram' && !ascending(buckets ?? [])
          ? 'its buckets are not ascending numbers'
          : undefined
  if (problem) throw new HarnessError('METRIC_INVALID', `the metric "${name}" cannot be registered: ${problem}`)
}

const ascending = (buckets: readonly number[]) =>
  buckets.length > 0 && buckets.every((le, at) => Number.isFinite(le) && (at === 0 || le > buckets[at - 1]!))
