/** Who waits for which service, and whether anybody can provide it. */

import { HarnessError, nearest } from '@cambium/core'
import type { Row } from '../file/row.ts'
import { listing } from '../listing.ts'
import { type ShippedPlugin, shippedProviders } from '../modules/shipped.ts'

/**
 * What is known of a row before it runs: the services it needs and, if it says so, those it provides. A service in a
 * realm of its own is written `name@realm`.
 */
export interface ServiceUse {
  readonly id: string
  readonly at: string
  readonly needs: readonly string[]
  readonly provides: readonly string[]
}

/** How each row calls a service, by its id: `name`, or `name@realm`. Rows come after the groups that they lie in. */
export function realmsOf(rows: Iterable<Row>): Map<string, (service: string) => string> {
  const realms = new Map<string, Record<string, string>>()
  for (const { id, parent, isolate } of rows) {
    const own = Object.entries(isolate).map(([service, label]) => [service, label === true ? `#${id}` : label])
    realms.set(id, { ...realms.get(parent ?? ''), ...Object.fromEntries(own) })
  }
  const named = (realm: Record<string, string>) => (service: string) =>
    realm[service] === undefined ? service : `${service}@${realm[service]}`
  return new Map([...realms].map(([id, realm]) => [id, named(realm)]))
}

/**
 * One mistake per ring of rows that wait for each other, so that none of them could ever start. Only declared
 * providers count, and a service that a row outside the ring provides too closes no ring.
 */
export function findCycles(rows: readonly ServiceUse[]): HarnessError[] {
  const providers = new Map<string, ServiceUse[]>()
  for (const row of rows) {
    for (const name of row.provides) providers.set(name, [...(providers.get(name) ?? []), row])
  }
  // Whoever can start does, and what it provides lets others start; what is left over waits for ever.
  const stuck = new Set(rows)
  for (let changed = true; changed; ) {
    changed = false
    for (const row of stuck) {
      const blocked = row.needs.some(name => providers.get(name)?.every(provider => stuck.has(provider)))
      if (!blocked) changed = stuck.delete(row) || changed
    }
  }
  const rings: HarnessError[] = []
  const seen = new Set<ServiceUse>()
  for (const start of stuck) {
    const trail: { row: ServiceUse; needs: string }[] = []
    let row: ServiceUse | undefined = start
    while (row && !seen.has(row)) {
      seen.add(row)
      const needs: string = row.needs.find(name => providers.get(name)?.every(provider => stuck.has(provider)))!
      trail.push({ row, needs })
      row = providers.get(needs)?.[0]
    }
    const from = trail.findIndex(step => step.row === row)
    if (from >= 0) rings.push(cycle(trail.slice(from)))
  }
  return rings
}

function cycle(ring: readonly { row: ServiceUse; needs: string }[]): HarnessError {
  const steps = listing(ring.map(({ row, needs }) => `${row.id} waits for ctx.${needs.split('@', 1)[0]}`))
  return new HarnessError('TREE_SERVICE_CYCLE', `services wait for each other in a cycle: ${steps}`, {
    where: listing(ring.map(({ row }) => `${row.at} (row ${row.id})`)),
    fix: 'let one of them start without the other: read that service with ctx.get() or in a nested ctx.inject()',
  })
}

export interface Provider {
  readonly id: string
  readonly state: 'failed' | 'waiting' | 'active'
}

/** What could provide a service that no row provides. */
export interface Offers {
  /** Rows that are disabled. */
  readonly disabled: readonly { readonly id: string; readonly name: string }[]
  readonly shipped: readonly ShippedPlugin[]
}

/** `pending: hooks waits for ctx.fs; no enabled row provides it`, for each service that is missed; `provided` are all others. */
export function explainWaiting(
  row: { readonly id: string; readonly at: string },
  waits: readonly string[],
  providersOf: (service: string) => readonly Provider[],
  provided: readonly string[],
  offers: Offers = { disabled: [], shipped: [] },
): HarnessError {
  const reasons: string[] = []
  const fixes: string[] = []
  for (const name of waits) {
    const [provider] = providersOf(name)
    const { problem, fix } = provider ? hindrance(provider) : nobody(name, provided, offers)
    reasons.push(`waits for ctx.${name}; ${problem}`)
    fixes.push(fix)
  }
  return new HarnessError('TREE_PENDING', `pending: ${row.id} ${reasons.join(', and ')}`, {
    where: `${row.at} (row ${row.id})`,
    fix: [...new Set(fixes)].join('; '),
  })
}

function nobody(service: string, provided: readonly string[], offers: Offers) {
  const meant = nearest(service, provided)
  const other = meant ? `, or inject ${meant}, if that is what you mean` : ''
  return { problem: 'no enabled row provides it', fix: `${wayToProvide(service, offers)}${other}` }
}

/** Which row to enable or to add so that the service is there. */
export function wayToProvide(service: string, { disabled, shipped }: Offers): string {
  const plugins = shippedProviders(service, shipped)
  const off = disabled.find(row => plugins.includes(row.name))
  if (off) return `enable the row ${off.id}, which provides ${service}`
  if (plugins.length) return `add a row with name: ${plugins.map(name => `"${name}"`).join(' or ')}`
  return `add or enable a row that provides ${service}`
}

function hindrance({ id, state }: Provider) {
  if (state === 'failed') return { problem: `the row ${id} would provide it, but failed`, fix: `make ${id} start` }
  if (state === 'waiting') {
    return { problem: `the row ${id} would provide it, but waits itself`, fix: `give ${id} what it waits for` }
  }
  return {
    problem: `the row ${id} provides it where this one cannot see it`,
    fix: 'an `isolate` stands between the two: put both into one group, or give both the same label',
  }
}
