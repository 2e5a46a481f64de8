/** Installs the module hook, once in a process and for good, and talks to it wherever it runs. */

import { realpathSync } from 'node:fs'
import module, { createRequire } from 'node:module'
import { dirname } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { MessageChannel } from 'node:worker_threads'
import { ModuleGraph } from './graph.ts'
import {
  type Edge,
  type HookCommand,
  type HookMessage,
  type HookOptions,
  hooksHere,
  isTracked,
  ModuleHook,
  type SyncHooks,
} from './hook.ts'
import type { ModuleVersions } from './versions.ts'

const { registerHooks } = module as { registerHooks?: (hooks: SyncHooks) => { deregister(): void } }
const here = fileURLToPath(import.meta.url)
const FROM_SOURCE = here.endsWith('.ts')
const stripsTypes = Boolean((process.features as { typescript?: unknown }).typescript)

/** Whether this process can import TypeScript as it is: by itself, or since it runs from source. */
export const readsTypeScript = (): boolean => stripsTypes || FROM_SOURCE

type Send = (command: HookCommand) => void | Promise<void>

export class ModuleTracking {
  readonly graph = new ModuleGraph()
  readonly installedAt = Date.now()
  /** Beginnings of the URLs of what the process itself runs on: there is one version of that. */
  readonly framework: readonly string[] = frameworkUrls()
  /** Called after an import of a file that was not known. */
  readonly listeners = new Set<() => void>()
  private readonly versions: ModuleVersions
  private send: Send = () => {}
  private register = () => {}

  private constructor(versions: ModuleVersions) {
    this.versions = versions
  }

  static async install(versions: ModuleVersions): Promise<ModuleTracking> {
    const made = new ModuleTracking(versions)
    const options = { fixed: made.framework }
    const record = (edge: Edge) => made.record(edge)
    // Where Node does not read TypeScript itself tsx does, by hooks on a thread of their own: ours join them there.
    if (registerHooks && stripsTypes) made.installHere(new ModuleHook(versions, options, record))
    else made.send = installThere(options, record)
    await made.flush()
    return made
  }

  /** Other hooks were registered meanwhile, which may not know what to do with a version: ours come before them. */
  goFirst(): void {
    this.register()
  }

  /** On this thread the hook shares the versions with us, and there is nothing to wait for. */
  private installHere(hook: ModuleHook): void {
    let registered: { deregister(): void } | undefined
    this.register = () => {
      registered?.deregister()
      registered = registerHooks!(hooksHere(hook))
    }
    this.register()
  }

  tracks(file: string): boolean {
    return isTracked(file, { fixed: this.framework })
  }

  /** What a reload imports from now on has new versions of `files`. */
  async begin(files: ReadonlySet<string>): Promise<void> {
    await this.command({ kind: 'begin', version: this.versions.next(), files: [...files] })
  }

  /** The reload under way is to import by another version, for something failed by this one. */
  async again(version: number): Promise<void> {
    if (this.versions.candidates.at(-1) === version)
      await this.command({ kind: 'again', version: this.versions.next() })
  }

  /** Ends a reload: what it imported is what runs, or it was refused and what ran before goes on. */
  async end(kind: 'commit' | 'discard'): Promise<void> {
    await this.flush()
    this.graph[kind](this.versions.candidates)
    await this.command({ kind })
  }

  /** Resolves when the graph has the edges of all imports that have ended. */
  async flush(): Promise<void> {
    await this.send({ kind: 'flush' })
  }

  private async command(command: HookCommand): Promise<void> {
    if (command.kind === 'begin') this.versions.begin(command.version, command.files)
    else if (command.kind === 'again') this.versions.again(command.version)
    else if (command.kind !== 'flush') this.versions[command.kind]()
    await this.send(command)
  }

  private record(edge: Edge): void {
    this.versions.saw(edge.child, edge.childVersion)
    const known = this.graph.has(edge.child)
    this.graph.record(edge)
    if (!known) for (const listener of this.listeners) listener()
  }
}

function installThere(options: HookOptions, record: (edge: Edge) => void): Send {
  const { port1, port2 } = new MessageChannel()
  const waiting: (() => void)[] = []
  port1.on('message', (message: HookMessage) => {
    if (message !== 'done') return record(message)
    waiting.shift()?.()
    if (!waiting.length) port1.unref()
  })
  port1.unref()
  const data = { port: port2, options }
  module.register(HOOK_FILE, import.meta.url, { data, transferList: [port2] })
  return command =>
    new Promise<void>(resolve => {
      waiting.push(resolve)
      port1.ref()
      port1.postMessage(command)
    })
}

/** A release has it as a file of its own, beside the one that is the place of all its modules. */
const HOOK_FILE = FROM_SOURCE ? './hook.ts' : './module-hook.mjs'

/** The kernel, the loader and what they stand on: in the workspace a folder for each, in a release one file. */
function frameworkUrls(): string[] {
  const { resolve } = createRequire(import.meta.url)
  const folders = [dirname(dirname(FROM_SOURCE ? dirname(here) : here))]
  for (const name of ['@cambium/core', '@cambium/store']) {
    try {
      folders.push(dirname(dirname(resolve(name))))
    } catch {
      // A release has them in its own folder.
    }
  }
  const program = process.argv[1] ? [realProgram(process.argv[1])] : []
  return [...folders.map(folder => `${pathToFileURL(folder).href}/`), ...program.map(file => pathToFileURL(file).href)]
}

function realProgram(path: string): string {
  try {
    return realpathSync(path)
  } catch {
    // `node -e`, or a program that has been moved since.
    return path
  }
}
