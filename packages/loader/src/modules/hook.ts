/**
 * Module hooks that tell who imported whom, and lead imports to the version of a file that they are to get. They run on
 * the main thread, or on the one that Node has for hooks: then this file is all that is loaded there.
 */

import module, {
  type LoadFnOutput,
  type LoadHookContext,
  type ResolveFnOutput,
  type ResolveHookContext,
} from 'node:module'
import type { MessagePort } from 'node:worker_threads'
import { fileUrlOf, versionOf, withoutVersion, withVersion } from './url.ts'
import { ModuleVersions } from './versions.ts'

/** `child` was looked for by `parent`, and perhaps not found. Both are URLs of files, without versions. */
export interface Edge {
  readonly parent: string | undefined
  readonly parentVersion: number
  readonly child: string
  readonly childVersion: number
  /** When, in milliseconds since 1970. */
  readonly at: number
}

export type HookCommand =
  | { readonly kind: 'begin'; readonly version: number; readonly files: readonly string[] }
  | { readonly kind: 'again'; readonly version: number }
  | { readonly kind: 'commit' | 'discard' | 'flush' }

/** What is told from the hooks' thread: edges, and that a command has been followed. */
export type HookMessage = Edge | 'done'

export interface HookOptions {
  /** Beginnings of URLs whose files are never given a version. */
  readonly fixed: readonly string[]
}

export class ModuleHook {
  private readonly versions: ModuleVersions
  private readonly options: HookOptions
  private readonly tell: (edge: Edge) => void

  constructor(versions: ModuleVersions, options: HookOptions, tell: (edge: Edge) => void) {
    this.versions = versions
    this.options = options
    this.tell = tell
  }

  obey(command: HookCommand): void {
    if (command.kind === 'begin') this.versions.begin(command.version, command.files)
    else if (command.kind === 'again') this.versions.again(command.version)
    else if (command.kind !== 'flush') this.versions[command.kind]()
  }

  resolved({ specifier, parent, required }: Request, result: ResolveFnOutput): ResolveFnOutput {
    const file = fileUrlOf(result.url)
    if (!isTracked(file, this.options)) return result
    const asked = versionOf(specifier)
    // `require` keeps modules by path, whatever their URL.
    const chosen = required ? 0 : this.versions.choose(file, versionOf(parent ?? ''))
    const version = asked ? this.versions.saw(file, asked) : chosen
    this.record(file, version, parent)
    return { ...result, url: withVersion(result.url, version) }
  }

  /**
   * A file that is not there is waited for like one that is. Who was loaded before it went gets what it had: a plugin
   * that is brought back starts again, and may import it again then.
   */
  missed({ specifier, parent }: Request): ResolveFnOutput | undefined {
    if (!parent?.startsWith('file:') || !/^(\.{1,2}\/|file:)/.test(specifier)) return undefined
    const file = fileUrlOf(new URL(specifier, parent).href)
    if (!isTracked(file, this.options)) return undefined
    const version = this.versions.had(file, versionOf(parent))
    this.record(file, version ?? versionOf(parent), parent)
    return version === undefined ? undefined : { url: withVersion(file, version), shortCircuit: true }
  }

  private record(child: string, childVersion: number, parentUrl = ''): void {
    const parent = fileUrlOf(parentUrl)
    this.tell({
      parent: isTracked(parent, this.options) ? parent : undefined,
      parentVersion: versionOf(parentUrl),
      child,
      childVersion,
      at: Date.now(),
    })
  }
}

export function isTracked(file: string, { fixed }: HookOptions): boolean {
  return file.startsWith('file:') && !file.includes('/node_modules/') && !fixed.some(start => file.startsWith(start))
}

/** What hooks behind this one are asked: they know nothing of versions. */
const plainContext = (context: ResolveHookContext): ResolveHookContext =>
  context.parentURL ? { ...context, parentURL: withoutVersion(context.parentURL) } : context

interface Request {
  readonly specifier: string
  readonly parent: string | undefined
  readonly required: boolean
}

/** Read before hooks behind this one are asked: Node writes what they are asked into the same context. */
function requestOf(specifier: string, { parentURL: parent, conditions = [] }: ResolveHookContext): Request {
  return { specifier, parent, required: conditions.includes('require') && !conditions.includes('import') }
}

/** Stacks then name the file as it is. What was compiled says by its source map where it comes from. */
function named(url: string, result: LoadFnOutput): LoadFnOutput {
  const { format, source } = result
  if (!versionOf(url) || source === undefined || source === null) return result
  if (format !== 'module' && (format as string) !== 'module-typescript') return result
  const text = typeof source === 'string' ? source : new TextDecoder().decode(source)
  if (/^\/\/# source(MappingURL|URL)=/m.test(text)) return result
  const code = format === 'module' ? text : stripTypes(text)
  if (code === undefined) return result
  return { ...result, format: 'module', source: `${code}\n//# sourceURL=${withoutVersion(url)}\n` }
}

/** As Node does it, which would give the text a name of its own; undefined for what Node is to complain of by itself. */
function stripTypes(text: string): string | undefined {
  const { stripTypeScriptTypes } = module as { stripTypeScriptTypes?: (text: string) => string }
  const { emitWarning } = process
  // It warns that it is experimental, to people who have not asked for it.
  process.emitWarning = () => {}
  try {
    return stripTypeScriptTypes?.(text)
  } catch {
    return undefined
  } finally {
    process.emitWarning = emitWarning
  }
}

type Next<C, R> = (target: string, context: C) => R

export interface SyncHooks {
  resolve(
    specifier: string,
    context: ResolveHookContext,
    next: Next<ResolveHookContext, ResolveFnOutput>,
  ): ResolveFnOutput
  load(url: string, context: LoadHookContext, next: Next<LoadHookContext, LoadFnOutput>): LoadFnOutput
}

/** Hooks that run on the thread which imports. */
export function hooksHere(hook: ModuleHook): SyncHooks {
  return {
    resolve(specifier, context, next) {
      const request = requestOf(specifier, context)
      let result: ResolveFnOutput
      try {
        result = next(withoutVersion(specifier), plainContext(context))
      } catch (error) {
        const former = hook.missed(request)
        if (former) return former
        throw error
      }
      return hook.resolved(request, result)
    },
    load: (url, context, next) => named(url, next(url, context)),
  }
}

let hook: ModuleHook

/** Called on the hooks' thread. */
export function initialize({ port, options }: { port: MessagePort; options: HookOptions }): void {
  hook = new ModuleHook(new ModuleVersions(), options, edge => port.postMessage(edge))
  port.on('message', (command: HookCommand) => {
    hook.obey(command)
    port.postMessage('done')
  })
  port.unref()
}

export async function resolve(
  specifier: string,
  context: ResolveHookContext,
  next: Next<ResolveHookContext, ResolveFnOutput | Promise<ResolveFnOutput>>,
): Promise<ResolveFnOutput> {
  const request = requestOf(specifier, context)
  let result: ResolveFnOutput
  try {
    result = await next(withoutVersion(specifier), plainContext(context))
  } catch (error) {
    const former = hook.missed(request)
    if (former) return former
    throw error
  }
  return hook.resolved(request, result)
}

export async function load(
  url: string,
  context: LoadHookContext,
  next: Next<LoadHookContext, LoadFnOutput | Promise<LoadFnOutput>>,
): Promise<LoadFnOutput> {
  return named(url, await next(url, context))
}
