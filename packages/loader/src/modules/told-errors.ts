/**
 * What imports and starts failed with, which is told by whoever wanted them. Node rejects a promise of its own with it as
 * well, that nobody can handle, when CommonJS throws while a second ES module imports it.
 */

const told = new WeakSet<object>()

export function tellsOf(error: unknown): void {
  if (typeof error === 'object' && error !== null) told.add(error)
}

/** Resolves when all that has come to an end by now is known. */
export async function isTold(reason: unknown): Promise<boolean> {
  await new Promise(setImmediate)
  return typeof reason === 'object' && reason !== null && told.has(reason)
}
