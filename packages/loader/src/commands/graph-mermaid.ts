/** Trees as a mermaid flowchart: rows are nodes, groups are subgraphs, and each service leads from who provides it to who injects it. */

import type { GraphedTree, GraphRow } from '../inspect/graph.ts'

const CLASSES = [
  'classDef waiting stroke:#c90,stroke-dasharray:4',
  'classDef failed stroke:#c00,stroke-width:2px',
  'classDef disabled stroke:#999,color:#999',
]

export function renderMermaid(trees: readonly GraphedTree[]): string {
  const lines = ['flowchart LR']
  trees.forEach((tree, index) => {
    const body = new TreeChart(tree.rows, `t${index}`).render()
    if (trees.length === 1) lines.push(...body)
    else lines.push(`subgraph t${index}[${quoted(tree.file)}]`, ...body, 'end')
  })
  return `${[...lines, ...CLASSES].join('\n')}\n`
}

class TreeChart {
  private readonly rows: readonly GraphRow[]
  /** Node of each row: ids may hold what mermaid does not take. */
  private readonly nodes: ReadonlyMap<string, string>
  private readonly prefix: string
  private readonly missing = new Map<string, string>()

  constructor(rows: readonly GraphRow[], prefix: string) {
    this.rows = rows
    this.prefix = prefix
    this.nodes = new Map(rows.map(({ id }, index) => [id, `${prefix}r${index}`]))
  }

  render(): string[] {
    const edges = this.rows.flatMap(row => this.edgesTo(row))
    const absent = [...this.missing].map(([service, node]) => `${node}([${quoted(`ctx.${service}`)}])`)
    return [...this.level(null), ...absent, ...edges]
  }

  private level(parent: string | null): string[] {
    return this.rows
      .filter(row => row.parent === parent)
      .flatMap(row => {
        const node = this.nodes.get(row.id)!
        const inner = row.kind === 'plugin' ? [] : this.level(row.id)
        if (inner.length) return [`subgraph ${node}[${quoted(row.id)}]`, ...inner, 'end']
        const known = row.state === 'failed' || row.state === 'waiting' || row.state === 'disabled'
        return `${node}[${quoted(row.label ?? row.id)}]${known ? `:::${row.state}` : ''}`
      })
  }

  private edgesTo({ id, injects, waits }: GraphRow): string[] {
    const to = this.nodes.get(id)!
    const given = injects.flatMap(({ service, from }) => {
      const node = from === null ? undefined : this.nodes.get(from)
      return node ? `${node} -- ${quoted(service)} --> ${to}` : []
    })
    return [...given, ...waits.map(service => `${this.absent(service)} -. ${quoted(service)} .-> ${to}`)]
  }

  private absent(service: string): string {
    const node = this.missing.get(service) ?? `${this.prefix}m${this.missing.size}`
    this.missing.set(service, node)
    return node
  }
}

/** Everything that means something to mermaid, or to the HTML that it makes, as a character code. */
function quoted(text: string): string {
  const safe = text.replace(/[^\p{L}\p{N} _./:@()+-]/gu, char => (/\s/.test(char) ? ' ' : `#${char.codePointAt(0)};`))
  return `"${safe || ' '}"`
}
