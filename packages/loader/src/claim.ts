/** What a process has once and several trees may want: its streams, its signals, a port. */

import { HarnessError } from '@cambium/core'

export interface Owner {
  /** The tree, as the user named it. */
  readonly tree: string
  /** The row or plugin in it. */
  readonly name: string
  /** `cordis.yml:12:3`, when a row is known. */
  readonly at: string | undefined
}

const kClaims = Symbol.for('cambium.claims')

/** One table for the process, also when it holds two copies of this package. */
const shared = globalThis as { [kClaims]?: Map<string, Owner> }
shared[kClaims] ??= new Map()
const claims = shared[kClaims]

/** Takes `resource` (`stdin`, `stdout`, `signals`, `port:8080`); returns the undo. @throws `TREE_CLAIM_TAKEN` when another has it. */
export function claim(resource: string, owner: Owner): () => void {
  const holder = claims.get(resource)
  if (holder) {
    throw new HarnessError('TREE_CLAIM_TAKEN', `${resource} is already taken by ${name(holder)}`, {
      where: name(owner),
      fix:
        holder.tree === owner.tree
          ? 'disable one of the two rows'
          : `start ${owner.tree} and ${holder.tree} in two processes, or disable one of the rows`,
    })
  }
  claims.set(resource, owner)
  return () => {
    if (claims.get(resource) === owner) claims.delete(resource)
  }
}

function name({ tree, name, at }: Owner): string {
  return at ? `${name} (${at})` : `${name} of ${tree}`
}
