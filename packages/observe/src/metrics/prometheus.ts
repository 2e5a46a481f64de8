/** The text format 0.0.4 of Prometheus, which OpenMetrics readers take as well. */

import type { Labels, MetricSnapshot } from './registry.ts'

export const CONTENT_TYPE = 'text/plain; version=0.0.4; charset=utf-8'

export function prometheusText(metrics: readonly MetricSnapshot[]): string {
  const lines: string[] = []
  for (const { name, help, kind, samples } of metrics) {
    lines.push(`# HELP ${name} ${escaped(help)}`, `# TYPE ${name} ${kind}`)
    for (const { labels, value, count, buckets } of samples) {
      if (!buckets) {
        lines.push(`${name}${written(labels)} ${numeral(value)}`)
        continue
      }
      for (const { le, count: below } of buckets)
        lines.push(`${name}_bucket${written({ ...labels, le: numeral(le) })} ${below}`)
      lines.push(`${name}_bucket${written({ ...labels, le: '+Inf' })} ${count}`)
      lines.push(`${name}_sum${written(labels)} ${numeral(value)}`, `${name}_count${written(labels)} ${count}`)
    }
  }
  return lines.map(line => `${line}\n`).join('')
}

const escaped = (text: string) => text.replaceAll('\\', '\\\\').replaceAll('\n', '\\n')

function written(labels: Labels): string {
  const parts = Object.entries(labels).map(([name, value]) => `${name}="${escaped(value).replaceAll('"', '\\"')}"`)
  return parts.length ? `{${parts.join(',')}}` : ''
}

function numeral(value: number): string {
  if (Number.isNaN(value)) return 'NaN'
  return Number.isFinite(value) ? String(value) : value > 0 ? '+Inf' : '-Inf'
}
