/** `cambium trust`: what a project's layer would do, and from then on doing it. */

import { existsSync, realpathSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { HarnessError } from '@cambium/core'
import { homeFolder, PROJECT_FOLDER, projectFolder } from '@cambium/store'
import { TrustStore } from '@cambium/store/trust'
import { EXIT } from './exit-code.ts'
import { describeFlags, type FlagTable, readFlags, usageError } from './flags.ts'
import type { Host } from './host.ts'
import { TreeView } from './layers/show-tree.ts'
import { describePlan, planOf, planReport } from './layers/trust-plan.ts'
import { escapeControls, jsonText, plural } from './printable.ts'

const FLAGS: FlagTable = {
  yes: { short: 'y', help: 'do not ask: the files have been read' },
  list: { help: 'the folders that are trusted' },
  revoke: { help: 'trust the folder no longer' },
  json: { help: 'one JSON object' },
  help: { short: 'h', help: 'this text' },
}

export function help(): string {
  return `usage: cambium trust [flags] [folder]

A project can bring a layer for the tree along: ${PROJECT_FOLDER}/cordis.patch.yml. It can add code that runs as
you, and send what you say elsewhere, so it is applied only once you have trusted it. This shows what it
would do, asks, and remembers the content of every file that counts. When one of them changes, the layer
is not applied until you look again.

${describeFlags(FLAGS)}

Without a terminal nobody can be asked: --yes then says that you know what you do.
`
}

/** Resolves with the exit code. @throws `CLI_USAGE`, `CLI_NO_PROJECT`, and the mistakes of the layer */
export async function run(argv: readonly string[], host: Host): Promise<number> {
  const { flags, words } = readFlags(argv, FLAGS)
  if (words.length > 1) throw usageError('trust takes one folder')
  if (flags.has('list') && flags.has('revoke')) throw usageError('--list and --revoke exclude each other')
  if (flags.has('list') && words.length) throw usageError('--list takes no folder')
  const store = new TrustStore(homeFolder(host.env))
  const json = flags.has('json')
  if (flags.has('list')) return list(store, json, host)
  const named = resolve(host.cwd, words[0] ?? '.')
  if (flags.has('revoke')) return revoke(store, named, json, host)
  return trust(store, named, { json, sure: flags.has('yes') }, host)
}

interface TrustFlags {
  readonly json: boolean
  readonly sure: boolean
}

async function trust(store: TrustStore, named: string, { json, sure }: TrustFlags, host: Host): Promise<number> {
  const folder = projectFolder(named, host.env)
  if (folder === undefined) throw noProject(named)
  const plan = await planOf(realpathSync(folder), store, host.env)
  if (!plan) throw noProject(named)
  const files = plan.files.map(({ real }) => real)
  const say = (text: string) => host.stdout.write(text)
  const view = new TreeView({ env: host.env, cwd: host.cwd })
  if (!json) say(describePlan(plan, view))
  if (plan.state === 'trusted') {
    say(json ? planReport(plan, true) : '\nIt is trusted: nothing has changed.\n')
    return EXIT.done
  }
  if (!sure) {
    if (json || !host.keyboard) {
      if (json) say(planReport(plan, false))
      throw usageError('nobody can be asked whether to trust this', 'add --yes once you have read the files')
    }
    const { ask } = await import('./ask.ts')
    const answer = await ask(host.keyboard, host.stderr, `\nTrust ${plural(files.length, 'file')}? [y/N] `)
    if (!/^y(es)?$/i.test(answer.trim())) {
      host.stderr.write('cambium: nothing was trusted\n')
      return EXIT.failed
    }
  }
  store.trust(plan.folder, files)
  const now = await planOf(plan.folder, store, host.env)
  if (now?.digest !== plan.digest) {
    store.revoke(plan.folder)
    throw new HarnessError('CLI_TRUST_RACE', 'a file changed while it was shown: nothing was trusted', {
      where: plan.folder,
      fix: 'look at it again',
    })
  }
  say(json ? planReport(plan, true) : `\nTrusted, until one of these files changes: ${escapeControls(plan.folder)}\n`)
  return EXIT.done
}

function list(store: TrustStore, json: boolean, host: Host): number {
  const folders = store.list().map(({ folder, since, files }) => {
    const state = existsSync(folder) ? store.check(folder, files) : 'gone'
    return { folder, since: new Date(since).toISOString(), state, files }
  })
  if (json) host.stdout.write(jsonText({ folders }, 2))
  else if (!folders.length) host.stderr.write('cambium: no folder is trusted\n')
  const view = new TreeView({ env: host.env, cwd: host.cwd })
  if (json) return EXIT.done
  for (const { folder, since, state, files } of folders) {
    const what = state === 'trusted' ? '' : `  ${state}`
    host.stdout.write(`${since.slice(0, 10)}  ${view.path(folder)}  (${plural(files.length, 'file')})${what}\n`)
  }
  return EXIT.done
}

function revoke(store: TrustStore, named: string, json: boolean, host: Host): number {
  const folder = projectFolder(named, host.env) ?? named
  const was = store.revoke(folder)
  const text = was ? 'is trusted no longer' : 'was not trusted'
  host.stdout.write(json ? jsonText({ folder, revoked: was }, 2) : `${escapeControls(folder)} ${text}\n`)
  return EXIT.done
}

function noProject(folder: string) {
  return new HarnessError('CLI_NO_PROJECT', `there is no ${PROJECT_FOLDER}/cordis.patch.yml at or above ${folder}`, {
    fix: `nothing needs trust there; a project's layer stands in ${join('<project>', PROJECT_FOLDER)}`,
  })
}
