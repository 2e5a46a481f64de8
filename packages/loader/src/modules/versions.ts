/**
 * Which version of a file an import gets. Those of a reload are candidates until it has succeeded: whoever belongs to it
 * gets them, and what runs meanwhile goes on to get the versions that it has.
 */

export class ModuleVersions {
  private readonly current = new Map<string, number>()
  private readonly known = new Set<string>()
  private candidate: { readonly versions: number[]; readonly files: Set<string> } | undefined
  private last = 0

  /** A version that nothing has. */
  next(): number {
    return ++this.last
  }

  /** The versions that a reload under way has imported by; the last one counts. */
  get candidates(): readonly number[] {
    return this.candidate?.versions ?? []
  }

  /** The files that a reload under way imports anew; those that changed come first. */
  get reloading(): readonly string[] {
    return [...(this.candidate?.files ?? [])]
  }

  begin(version: number, files: Iterable<string>): void {
    this.candidate = { versions: [version], files: new Set(files) }
  }

  /** The candidate is tried once more, by another version. */
  again(version: number): void {
    this.candidate?.versions.push(version)
  }

  /** From now on everybody gets the candidate's versions. */
  commit(): void {
    const version = this.candidates.at(-1)
    for (const file of this.candidate?.files ?? []) this.current.set(file, version!)
    this.candidate = undefined
  }

  discard(): void {
    this.candidate = undefined
  }

  /** The version that an importer gets which itself has the version `importer`. */
  choose(file: string, importer: number): number {
    if (this.candidates.includes(importer)) {
      const { files } = this.candidate!
      // A file that nobody else uses may itself import what changed.
      if (files.has(file) || !this.known.has(file)) return this.saw(file, importer)
    }
    return this.saw(file, this.current.get(file) ?? 0)
  }

  /** What an importer of the version `importer` had of a file; undefined when nothing, or when it is to have another. */
  had(file: string, importer: number): number | undefined {
    if (!this.known.has(file) || this.candidates.includes(importer)) return undefined
    return this.current.get(file) ?? 0
  }

  /** Somebody imports this version. */
  saw(file: string, version: number): number {
    this.known.add(file)
    if (this.candidates.includes(version)) this.candidate!.files.add(file)
    else if (version > (this.current.get(file) ?? 0)) this.current.set(file, version)
    return version
  }
}
