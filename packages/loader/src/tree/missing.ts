/** Which rows could never start for want of a service, told before any plugin runs. */

import { HarnessError } from '@cambium/core'
import type { Row } from '../file/row.ts'
import { listing } from '../listing.ts'
import { explainWaiting, type Offers, type Provider, realmsOf, type ServiceUse, wayToProvide } from './services.ts'

/** An enabled row, as far as it is known without running it. A group needs and provides nothing. */
export interface KnownRow {
  readonly row: Row
  readonly needs: readonly string[]
  /** Undefined when nobody can tell: its plugin does not declare what it provides, or could not be loaded. */
  readonly provides: readonly string[] | undefined
  /** A mistake of the row was found already; it stands for what follows from it. */
  readonly failed: boolean
}

export interface Wants {
  readonly mistakes: readonly HarnessError[]
  readonly warnings: readonly HarnessError[]
}

interface Node extends ServiceUse {
  readonly known: KnownRow
  readonly named: (service: string) => string
}

/** `rows` in the order of the file; `builtin` tells whether a tree has the service without any row. */
export function findMissing(rows: readonly KnownRow[], builtin: (service: string) => boolean, offers: Offers): Wants {
  const realms = realmsOf(rows.map(({ row }) => row))
  const nodes = rows.map((known): Node => {
    const named = realms.get(known.row.id)!
    const { id, at } = known.row
    return { known, named, id, at, needs: known.needs.map(named), provides: (known.provides ?? []).map(named) }
  })
  return new Wiring(nodes, builtin, offers).judge()
}

class Wiring {
  private readonly nodes: readonly Node[]
  private readonly builtin: (service: string) => boolean
  private readonly offers: Offers
  private readonly providers = new Map<string, Node[]>()
  private readonly unclear: readonly Node[]
  /** Rows that nothing keeps from starting, as far as one can tell. */
  private readonly starts = new Set<Node>()

  constructor(nodes: readonly Node[], builtin: (service: string) => boolean, offers: Offers) {
    this.nodes = nodes
    this.builtin = builtin
    this.offers = offers
    for (const node of nodes) {
      for (const name of node.provides) this.providers.set(name, [...this.providersOf(name), node])
    }
    this.unclear = nodes.filter(({ known }) => known.provides === undefined)
  }

  judge(): Wants {
    this.start()
    const mistakes: HarnessError[] = []
    const warnings = [...this.doubled(), ...this.guesses()]
    for (const node of this.nodes) {
      if (this.starts.has(node)) continue
      const own = node.needs.filter(name => !this.given(node, name) && this.isCause(node, name))
      if (!own.length) continue
      ;(node.known.row.required ? mistakes : warnings).push(this.explain(node, own))
    }
    return { mistakes, warnings }
  }

  /** Whoever can start does, and is followed by those that only waited for it. */
  private start(): void {
    const waiting = new Map<string, Node[]>()
    // What no row says that it provides may come from any row that says nothing.
    const hopeful: Node[] = []
    for (const node of this.nodes) {
      for (const name of node.needs) waiting.set(name, [...(waiting.get(name) ?? []), node])
      if (node.needs.some(name => !this.builtin(name) && !this.providers.has(name))) hopeful.push(node)
    }
    const queue = [...this.nodes]
    for (let node = queue.pop(); node; node = queue.pop()) {
      const own = node
      if (this.starts.has(own) || !own.needs.every(name => this.given(own, name))) continue
      this.starts.add(own)
      queue.push(...own.provides.flatMap(name => waiting.get(name) ?? []))
      if (own.known.provides === undefined) queue.push(...hopeful.filter(other => !this.starts.has(other)))
    }
  }

  private providersOf(name: string): Node[] {
    return this.providers.get(name) ?? []
  }

  private given(node: Node, name: string): boolean {
    return (
      this.builtin(name) ||
      this.providersOf(name).some(other => other.known.failed || this.starts.has(other)) ||
      this.maybe(name).some(other => other !== node)
    )
  }

  /** Rows that may provide the service, though they do not say so. */
  private maybe(name: string): Node[] {
    const service = plain(name)
    return this.unclear.filter(node => (node.known.failed || this.starts.has(node)) && node.named(service) === name)
  }

  /** Whether that need is to be told: what only follows from another mistake is not. */
  private isCause(node: Node, name: string): boolean {
    const providers = this.providersOf(name)
    return !providers.length || (node.known.row.required && providers.every(({ known }) => !known.row.required))
  }

  private explain({ known: { row } }: Node, names: readonly string[]): HarnessError {
    const hindered = (service: string): Provider[] => {
      const wanted = names.find(name => plain(name) === service)!
      const all = this.nodes.filter(({ known }) => known.provides?.includes(service))
      return all.map(node => ({ id: node.id, state: this.providersOf(wanted).includes(node) ? 'waiting' : 'active' }))
    }
    const provided = this.nodes.flatMap(({ known }) => known.provides ?? [])
    return explainWaiting(row, names.map(plain), hindered, provided, this.offers)
  }

  /** One warning for each service that is there only if a row provides more than it says. */
  private guesses(): HarnessError[] {
    const wanted = new Map<string, Node[]>()
    for (const node of this.nodes) {
      for (const name of node.needs) {
        if (!this.builtin(name) && !this.providersOf(name).length) wanted.set(name, [...(wanted.get(name) ?? []), node])
      }
    }
    return [...wanted].flatMap(([name, waiting]) => {
      const hopes = this.maybe(name).filter(node => !waiting.includes(node))
      // A row that could not be loaded has its own mistake, which stands for this too.
      if (!hopes.length || hopes.some(({ known }) => known.failed)) return []
      const service = plain(name)
      const who = `${listing(waiting.map(({ id }) => id))} ${waiting.length > 1 ? 'wait' : 'waits'} for it`
      const rows = listing(hopes.map(({ id, known }) => `${id} (${known.row.name})`))
      return new HarnessError(
        'TREE_PROVIDER_UNKNOWN',
        `ctx.${service} may be missing: ${who}, and no row says that it provides it; only ${rows} might`,
        {
          where: listing(waiting.map(({ id, at }) => `${at} (row ${id})`)),
          fix: `export const provide = ['${service}'] from the plugin that provides it, or ${wayToProvide(service, this.offers)}`,
        },
      )
    })
  }

  /** The second of two providers could not start, if it really provides what it says. */
  private doubled(): HarnessError[] {
    return [...this.providers].flatMap(([name, [first, second]]) => {
      if (!second || !first) return []
      return new HarnessError('TREE_PROVIDER_DOUBLE', `${first.id} and ${second.id} both provide ctx.${plain(name)}`, {
        where: `${second.at} (row ${second.id})`,
        fix: `disable one of the two, or give one a realm of its own with \`isolate: { ${plain(name)}: true }\``,
      })
    })
  }
}

const plain = (name: string) => name.split('@', 1)[0]!
