/** Puts files back to states that were kept: everything is checked first, then done, and what was not done is told. */

import { readdirSync } from 'node:fs'
import { dirname, isAbsolute, join, sep } from 'node:path'
import { errorMessage } from '@cambium/core'
import { type FileState, NONE, sameState } from './file-state.ts'
import { isReached, linkTarget, look, lookUp, type Read, sameFacts } from './look.ts'
import type { ObjectStore } from './objects.ts'
import { pathText, toPath } from './path-text.ts'
import { makeFolder, makeLink, removeFile, removeFolder, setMode, writeFile } from './place-file.ts'

export interface PutBackTarget {
  /** From the root of the history, or absolute. */
  readonly path: string
  readonly target: FileState
  /** What it is if nobody else has changed it; left out where that is not known. */
  readonly known?: FileState
}

export interface PutBackOptions {
  readonly dryRun?: boolean
  /** Also what somebody else has changed since. */
  readonly force?: boolean
  /** Stops between two files; the report tells which were not reached. */
  readonly signal?: AbortSignal
  /** Awaited before the first change, with what is about to be changed and how it is now. Throwing prevents it all. */
  readonly before?: (files: readonly PathState[]) => Promise<void>
}

export interface PathState {
  readonly path: string
  readonly state: FileState
}

export interface PutBackReport {
  /** Written, linked, or given their mode back. */
  readonly restored: string[]
  readonly removed: string[]
  /** Left alone, and why. */
  readonly conflicts: { path: string; why: string }[]
  /** What they were is not kept; the reasons are in the same order. */
  readonly unknown: string[]
  readonly reasons: string[]
  /** What was touched, as it is now. */
  readonly after: PathState[]
}

export interface PutBackPlace {
  readonly root: string
  readonly objects: ObjectStore
  readonly maxFileBytes: number
  lock<T>(path: string, work: () => Promise<T>): Promise<T>
}

interface Action {
  readonly path: string
  readonly full: string
  readonly target: FileState
  readonly present: Read
}

export async function putBack(
  place: PutBackPlace,
  targets: readonly PutBackTarget[],
  options: PutBackOptions = {},
): Promise<PutBackReport> {
  const report: PutBackReport = { restored: [], removed: [], conflicts: [], unknown: [], reasons: [], after: [] }
  const actions = await check(place, targets, options, report)
  const told = (action: Action) => (isGone(action.target) ? report.removed : report.restored).push(action.path)
  if (options.dryRun) {
    actions.forEach(told)
    return sorted(report)
  }
  if (!actions.length) return report
  for (const { full, present } of actions) {
    const { bytes, state } = look(full, place.maxFileBytes)
    // What cannot be kept is missing when somebody wants this undone, and told then.
    if (bytes && sameState(state, present.state)) await place.objects.put(bytes).catch(() => {})
  }
  await options.before?.(actions.map(({ path, present }) => ({ path, state: present.state })))
  for (const [action, work] of inOrder(actions)) {
    if (options.signal?.aborted) {
      report.conflicts.push({ path: action.path, why: 'it was not reached: cancelled' })
      continue
    }
    try {
      // A lock is on what a link leads to, which is not what is replaced.
      if (action.present.state.kind === 'link') await work(place, action)
      else await place.lock(action.full, () => work(place, action))
      told(action)
    } catch (error) {
      report.conflicts.push({ path: action.path, why: `it could not be put back: ${errorMessage(error)}` })
    }
    report.after.push({ path: action.path, state: look(action.full, place.maxFileBytes).state })
  }
  return sorted(report)
}

const isGone = (state: FileState) => state.kind === 'none'

function sorted(report: PutBackReport): PutBackReport {
  report.restored.sort()
  report.removed.sort()
  return report
}

async function check(
  place: PutBackPlace,
  targets: readonly PutBackTarget[],
  { force }: PutBackOptions,
  report: PutBackReport,
): Promise<Action[]> {
  const refuse = (path: string, why: string) => void report.conflicts.push({ path, why })
  const planned = new Map<string, Action>()
  const spellings = new Map<string, Action>()
  for (const { path, target, known } of targets) {
    const full = isAbsolute(path) ? path : join(place.root, path)
    const present = isReached(isAbsolute(path) ? sep : place.root, full) ? whatIs(full, place) : { state: NONE }
    if (sameState(present.state, target)) continue
    const missing = target.kind === 'file' && !(await place.objects.get(target.hash))
    if (target.kind === 'unknown' || missing) {
      report.unknown.push(path)
      report.reasons.push(target.kind === 'unknown' ? target.why : 'its content is not kept any more')
    } else if (known && !force && !sameState(present.state, known)) {
      refuse(path, changeSince(known, present.state))
    } else if (isTwin(spellings.get(full.toLowerCase()), present)) {
      refuse(path, 'this file system takes its name for that of another file')
    } else {
      const action = { path, full, target, present }
      planned.set(full, action)
      spellings.set(full.toLowerCase(), action)
    }
  }
  // A refusal may be what another one relied on.
  for (let refused = true; refused; ) {
    refused = false
    for (const action of planned.values()) {
      const why = obstacle(place.root, action, planned)
      if (!why) continue
      planned.delete(action.full)
      // A folder that others use by now is no loss.
      if (why !== IN_USE) refuse(action.path, why)
      refused = true
    }
  }
  return [...planned.values()]
}

function changeSince(known: FileState, present: FileState): string {
  if (present.kind === 'none') return 'it was removed by somebody else since'
  if (known.kind === 'none') return 'it was made by somebody else since'
  if (known.kind === 'file' && present.kind === 'file' && known.hash === present.hash) {
    return 'its mode was changed by somebody else since'
  }
  return 'it was changed by somebody else since'
}

/** Contents are read again when they are needed: a plan may be of thousands. */
function whatIs(full: string, { maxFileBytes }: PutBackPlace): Read {
  const { state, facts } = look(full, maxFileBytes)
  return { state, ...(facts ? { facts } : {}) }
}

/** Two spellings, one file: where case does not count. */
function isTwin(other: Action | undefined, { facts }: Read): boolean {
  return facts?.kind === 'file' && facts.nlink === 1 && other?.present.facts?.ino === facts.ino
}

const IN_USE = 'it holds something else'

function obstacle(root: string, { path, full, target, present }: Action, planned: ReadonlyMap<string, Action>) {
  if (present.state.kind === 'folder' && target.kind !== 'folder' && !isEmptied(full, planned)) {
    return isGone(target) ? IN_USE : 'it is a folder now, with something else in it'
  }
  const base = isAbsolute(path) ? sep : root
  for (let at = dirname(full); at.length > base.length; at = dirname(at)) {
    const above = lookUp(at)
    if (!above || above.kind === 'folder') continue
    const action = planned.get(at)
    if (action?.target.kind === 'folder') continue
    return above.kind === 'link'
      ? `it would be reached through a link, ${at} → ${linkTarget(at)}`
      : `${at} is no folder any more`
  }
  return undefined
}

/** Whether nothing stays in a folder. */
function isEmptied(folder: string, planned: ReadonlyMap<string, Action>): boolean {
  return readdirSync(toPath(folder), { encoding: 'buffer' }).every(name => {
    const action = planned.get(join(folder, pathText(name)))
    return action && isGone(action.target)
  })
}

type Work = (place: PutBackPlace, action: Action) => Promise<void>

/** What is in the way goes first, from the inside out; then folders from the outside in; then files; modes of folders last. */
function inOrder(actions: readonly Action[]): [Action, Work][] {
  const deepFirst = [...actions].sort((a, b) => depth(b.full) - depth(a.full))
  const isFile = ({ present: { facts } }: Action) => !!facts && facts.kind !== 'folder'
  const toFolder = ({ target }: Action) => target.kind === 'folder'
  const toFile = ({ target }: Action) => target.kind === 'file' || target.kind === 'link'
  const wasFolder = ({ present }: Action) => present.state.kind === 'folder'
  const steps: [Action, Work][] = []
  for (const action of deepFirst) if (isGone(action.target) && isFile(action)) steps.push([action, remove])
  const mixed = deepFirst.filter(action => wasFolder(action) && !toFolder(action))
  for (const action of mixed) if (isGone(action.target)) steps.push([action, async (_, { full }) => removeFolder(full)])
  for (const action of [...deepFirst].reverse())
    if (toFolder(action) && !wasFolder(action)) steps.push([action, makePlace])
  // What becomes a file of its own goes ahead of what is written in place, under all its names.
  const files = [...deepFirst].reverse().filter(toFile)
  const inPlace = ({ target }: Action) => Number(target.kind === 'file' && target.inode !== undefined)
  for (const action of files.sort((a, b) => inPlace(a) - inPlace(b))) steps.push([action, write])
  for (const action of deepFirst) if (toFolder(action) && wasFolder(action)) steps.push([action, setFolderMode])
  return steps
}

const depth = (path: string) => path.split(sep).length

const remove: Work = async (place, { full, present }) => {
  unchanged(place, full, present)
  removeFile(full)
}

const makePlace: Work = async (place, { full, present, target }) => {
  unchanged(place, full, present)
  if (present.facts) removeFile(full)
  makeFolder(full)
  if (target.kind === 'folder') setMode(full, target.mode)
}

const setFolderMode: Work = async (_, { full, target }) => {
  if (target.kind === 'folder') setMode(full, target.mode)
}

const write: Work = async (place, { full, present, target }) => {
  // Another name of the file was written before.
  if (target.kind === 'file' && target.inode && sameState(look(full, place.maxFileBytes).state, target)) return
  unchanged(place, full, present)
  if (present.facts?.kind === 'folder') removeFolder(full)
  makeFolder(dirname(full))
  if (target.kind === 'link') return makeLink(full, target.target)
  if (target.kind !== 'file') return
  const bytes = await place.objects.get(target.hash)
  if (!bytes) throw new Error('its content is gone')
  writeFile(full, bytes, target.mode, target.inode)
}

/** Nobody came between checking and doing. Facts change also with what is done in a folder, or to another name of a file. */
function unchanged(place: PutBackPlace, full: string, { facts, state }: Read): void {
  const now = lookUp(full)
  if (now?.kind === 'folder' && facts?.kind === 'folder') return
  if (now && facts ? sameFacts(now, facts) : now === facts) return
  if (!sameState(look(full, place.maxFileBytes).state, state)) throw new Error('somebody else is changing it')
}
