/** Where bare specifiers are looked up when the tree's own folder does not have them. */

/** Answers a bare specifier with a URL, or undefined when the installation does not have it. */
export type InstallationResolver = (specifier: string) => string | undefined | Promise<string | undefined>

let current: InstallationResolver = workspace

/** Replaces the lookup, as a released bundle does; returns the undo. */
export function setInstallation(resolve: InstallationResolver): () => void {
  const before = current
  current = resolve
  return () => {
    current = before
  }
}

export const resolveInstalled: InstallationResolver = specifier => current(specifier)

/** Run from source, the installation is the workspace that this package lies in. */
async function workspace(specifier: string): Promise<string | undefined> {
  const { resolve } = await import('import-meta-resolve')
  try {
    return resolve(specifier, new URL('../../../package.json', import.meta.url).href)
  } catch {
    return undefined
  }
}
