/** Both documents, the namespaces that plugins define, and every way in which one of them changes. */

import { existsSync, mkdirSync, realpathSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import { HarnessError, isHarnessError } from '@cambium/core'
import { ensureFolder } from '../ensure-folder.ts'
import { lockedSoon } from '../locked.ts'
import { PROJECT_FOLDER, projectFolder } from '../project-folder.ts'
import { replaceFile } from '../replace-file.ts'
import { TrustStore } from '../trust.ts'
import { type FileWatch, watchFiles } from '../watch-files.ts'
import { editYaml, type YamlEdit } from '../yaml/edit.ts'
import { documentOf, type Layer, readDocument, type SettingsDocument } from './document.ts'
import type { Namespace, SettingsState } from './namespace.ts'

export interface SettingsHooks {
  readonly changed: (space: Namespace, next: unknown, previous: unknown) => void
  /** What was left out, or kept from counting; each thing once. */
  readonly refused: (error: HarnessError) => void
}

export class SettingsStore {
  readonly namespaces = new Map<string, Namespace>()
  private readonly hooks: SettingsHooks
  private readonly userFile: string
  /** The project's folder, or the one that would be. */
  private readonly folder: string
  private readonly projectFile: string | undefined
  private readonly trust: TrustStore
  private readonly watch: FileWatch
  private readonly told = new Set<string>()
  private current: SettingsState

  /** @throws when the user's document is broken; a broken project document is left out with a notice */
  constructor({ home, cwd }: { home: string; cwd: string }, hooks: SettingsHooks) {
    this.hooks = hooks
    this.userFile = join(home, 'settings.yml')
    const found = projectFolder(cwd, { CAMBIUM_HOME: home })
    this.folder = found ?? cwd
    const own = join(this.folder, PROJECT_FOLDER)
    // In a user's home folder what has that name is the harness's own.
    const taken = !found && (own === home || existsSync(own))
    this.projectFile = taken ? undefined : join(own, 'settings.yml')
    this.trust = new TrustStore(home)
    this.watch = watchFiles(() => this.reload(), { warn: error => this.refuse(error) })
    // Watched first, read then: nothing that is written in between is missed.
    this.watch.update([this.userFile, this.trust.file, ...(this.projectFile ? [this.projectFile] : [])])
    try {
      const user = readDocument('user', this.userFile)
      this.current = { user, project: undefined, trusted: false }
    } catch (error) {
      this.watch.close()
      throw error
    }
    const project = this.tryRead('project', this.projectFile)
    if (project) this.current = { ...this.current, project, trusted: this.isTrusted(project) }
  }

  get state(): SettingsState {
    return this.current
  }

  close() {
    this.watch.close()
    this.namespaces.clear()
  }

  /** Gives a new namespace its value. @throws the mistakes of the user's document */
  admit(space: Namespace) {
    const { value, user, project, ignored } = space.evaluate(this.current)
    throwAll(user)
    for (const error of [...project, ...(ignored ? [ignored] : [])]) this.refuse(error)
    space.value = value
    this.namespaces.set(space.name, space)
  }

  /**
   * Changes a document on the disk, as it is there now, and what counts. Nothing is written when the result is not good.
   * @throws the mistakes, `STORE_EDIT_UNSAFE`, `STORE_LOCKED`, or as `diskError`
   */
  async edit(space: Namespace, layer: Layer, edit: YamlEdit): Promise<void> {
    const file = layer === 'user' ? this.userFile : this.allowedFile(space)
    if (layer === 'user') ensureFolder(dirname(file))
    else mkdirSync(dirname(file), { recursive: true })
    const changed = await lockedSoon(file, () => {
      const before = readDocument(layer, file)
      const text = editYaml(before.text, [edit], { label: before.label })
      if (text === before.text) return undefined
      const after = documentOf(layer, file, Buffer.from(text))
      const trusted = layer === 'project' ? this.isTrusted(before) : this.current.trusted
      const next = { ...this.current, [layer]: after, trusted }
      throwAll(this.evaluated(next).flatMap(([, evaluation]) => evaluation[layer]))
      replaceFile(file, text, layer === 'project' ? { mode: 0o644 } : {})
      if (layer === 'project') {
        this.trust.renew(this.folder, trustFile(before), trustFile(after))
      }
      return next
    })
    if (changed)
      this.commit({
        ...this.current,
        [layer]: changed[layer],
        ...(layer === 'project' ? { trusted: changed.trusted } : {}),
      })
  }

  /** @throws when a project has no say in this, or not yet */
  private allowedFile(space: Namespace): string {
    const file = this.projectFile
    if (!file) {
      throw new HarnessError('STORE_NO_PROJECT', 'there is no project here to keep settings in', {
        where: this.folder,
        fix: 'start in the folder of a project, or set it for yourself',
      })
    }
    const document = this.tryRead('project', file) ?? documentOf('project', file, undefined)
    if (space.policy === 'never') {
      throw new HarnessError('STORE_SETTINGS_NOT_FOR_PROJECTS', `${space.name}: a project cannot set this`, {
        where: document.label,
        fix: 'set it for yourself, in the user layer',
      })
    }
    if (space.policy === 'trusted' && !this.isTrusted(document)) {
      throw new HarnessError(
        'STORE_SETTINGS_UNTRUSTED',
        `${space.name}: the project is not trusted, so it would have no effect`,
        {
          where: document.label,
          fix: 'trust the project with `cambium trust`, or set it for yourself',
        },
      )
    }
    return file
  }

  /** Takes what is on the disk now, as far as it is good. */
  private reload() {
    const user = this.tryRead('user', this.userFile) ?? this.current.user
    const project = this.tryRead('project', this.projectFile) ?? this.current.project
    let next = this.current
    for (const document of [user, project]) {
      if (!document) continue
      const candidate = {
        ...next,
        [document.layer]: document,
        ...(document.layer === 'project' ? { trusted: this.isTrusted(document) } : {}),
      }
      const mistakes = this.evaluated(candidate).flatMap(([, evaluation]) => evaluation[document.layer])
      // The last good document stays as a whole: half of an edit is nobody's intention.
      if (mistakes.length && document !== next[document.layer]) for (const mistake of mistakes) this.refuse(mistake)
      else next = candidate
    }
    this.commit(next)
  }

  private commit(next: SettingsState) {
    const { user, project, trusted } = this.current
    // What was left out before may be left out for a new reason.
    if (next.user !== user || next.project !== project || next.trusted !== trusted) this.told.clear()
    this.current = next
    const changes = this.evaluated(next).flatMap(([space, { value, ignored, project, user }]) => {
      for (const error of [...user, ...project, ...(ignored ? [ignored] : [])]) this.refuse(error)
      if (user.length || isDeepStrictEqual(value, space.value)) return []
      const previous = space.value
      space.value = value
      return [{ space, previous }]
    })
    // All have their values before anybody is told of one.
    for (const { space, previous } of changes) this.hooks.changed(space, space.value, previous)
  }

  private evaluated(state: SettingsState) {
    return [...this.namespaces.values()].map(space => [space, space.evaluate(state)] as const)
  }

  private tryRead(layer: Layer, file: string | undefined): SettingsDocument | undefined {
    if (!file) return undefined
    try {
      const document = readDocument(layer, file)
      const known = this.current?.[layer]
      return known && document.text === known.text && !document.content === !known.content ? known : document
    } catch (error) {
      this.refuse(error)
      return undefined
    }
  }

  private isTrusted(project: SettingsDocument): boolean {
    try {
      // A file that is not there says nothing that one could distrust.
      const files = project.content ? [trustFile(project)] : []
      return this.trust.check(this.folder, files) === 'trusted'
    } catch (error) {
      this.refuse(error)
      return false
    }
  }

  private refuse(error: unknown) {
    if (!isHarnessError(error)) throw error
    // Documents are read at every change, and say what they said.
    if (this.told.has(error.message)) return
    if (this.told.size > MAX_TOLD) this.told.clear()
    this.told.add(error.message)
    this.hooks.refused(error)
  }
}

const MAX_TOLD = 1000

/** A link is known by what it leads to: leading it elsewhere is a change. */
function trustFile({ file, content }: SettingsDocument) {
  return { path: existsSync(file) ? realpathSync(file) : file, content }
}

function throwAll(mistakes: readonly HarnessError[]) {
  const [first, ...rest] = mistakes
  if (!first) return
  if (!rest.length) throw first
  const list = mistakes.map(({ problem, where, fix }) => `  ${where}: ${problem}${fix ? ` (${fix})` : ''}`)
  throw new HarnessError('STORE_SETTINGS_INVALID', `${mistakes.length} settings are wrong\n${list.join('\n')}`, {
    where: first.where,
    cause: new AggregateError(mistakes),
  })
}
