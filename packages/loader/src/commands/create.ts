/** `cordis create` */

import { isAbsolute, relative, resolve } from 'node:path'
import { HarnessError, isHarnessError, nearest, workingFolder } from '@cambium/core'
import type { Command } from 'commander'
import { installation } from '../modules/installation.ts'
import { type Scaffolded, type ScaffoldKind, writeScaffold } from './scaffold.ts'
import type { Invocation } from './subcommand.ts'

const KINDS: Readonly<Record<ScaffoldKind, { readonly what: string; readonly next: readonly [string, string][] }>> = {
  plugin: {
    what: 'a plugin with a tool, a setting and a test',
    next: [
      ['node --test', 'runs its test'],
      ['cordis check', 'says what is wrong with its tree'],
      ['cordis start --watch', 'mounts it, and reloads it at each save'],
      ['cambium run --patch patch.yml "greet Ada"', 'gives its tool to an agent'],
    ],
  },
  app: {
    what: 'an agent of your own, which runs without a key',
    next: [
      ['cordis start', 'runs it'],
      ['cordis graph', 'shows what it is made of'],
      ['cordis create plugin my-tool', 'makes a plugin for it'],
    ],
  },
}

export function define(command: Command, invocation: Invocation): void {
  command
    .argument('<kind>', 'plugin or app')
    .argument('<name>', 'lower-case words with dashes')
    .argument('[folder]', 'where it goes; ./<name> by default')
    .action((kind: string, name: string, folder: string | undefined) => {
      try {
        create(kindOf(kind), name, folder ?? name)
        invocation.code = 0
      } catch (error) {
        if (!isHarnessError(error) || error.code !== 'SCAFFOLD_NAME') throw error
        process.stderr.write(`cordis: ${error.message}\n`)
        invocation.code = 2
      }
    })
}

function kindOf(kind: string): ScaffoldKind {
  if (Object.hasOwn(KINDS, kind)) return kind as ScaffoldKind
  const meant = nearest(kind, Object.keys(KINDS))
  throw new HarnessError('SCAFFOLD_NAME', `there is no "${kind}" to create`, {
    where: 'the command line',
    fix: meant
      ? `did you mean cordis create ${meant}?`
      : 'write cordis create plugin <name>, or cordis create app <name>',
  })
}

function create(kind: ScaffoldKind, name: string, folder: string) {
  const source = installation().scaffold
  if (!source)
    throw new HarnessError('SCAFFOLD_FOLDER', 'this installation has no templates', { fix: 'install cambium' })
  const cwd = workingFolder()
  const target = resolve(cwd, folder)
  const { files, unlinked } = writeScaffold({ kind, name, folder: target }, source)
  process.stdout.write(told(kind, pathTo(target, cwd), files))
  if (unlinked)
    process.stderr.write(`cordis: it could not be linked to the installation (${unlinked}): npm link cambium\n`)
}

/** As the person would type it. */
function pathTo(target: string, cwd: string): string {
  const path = relative(cwd, target)
  if (!path) return '.'
  return path.startsWith('..') || isAbsolute(path) ? target : path
}

function told(kind: ScaffoldKind, path: string, files: Scaffolded['files']): string {
  const { what, next } = KINDS[kind]
  const width = Math.max(...next.map(([line]) => line.length))
  const folder = /^[\w./-]+$/.test(path) ? path : JSON.stringify(path)
  const steps = next.map(([line, does]) => `  ${line.padEnd(width)}  # ${does}`)
  const enter = path === '.' ? [] : [`  cd ${folder}`]
  return `${path}: ${what}\n  ${files.join(', ')}\n\n${[...enter, ...steps].join('\n')}\n`
}
