/** The environment of a child: the harness's own without its credentials, made safe for a program nobody watches. */

import { redact } from '@cambium/core'

/** Names that look like a credential. `TOKENIZERS_…`, `KEYBOARD…` and `GIT_AUTHOR_…` do not. */
const CREDENTIAL =
  /KEY(?!BOARD|MAP|TIMEOUT)|SECRET|TOKEN(?!IZ)|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL|COOKIE|AUTHORIZATION|(?:^|_)(?:AUTH|PAT|PASS|PWD|DSN)(?:_|$)/i

/** A path to the user's key agent, without which `git push` fails; the folder one is in. */
const KEPT = new Set(['SSH_AUTH_SOCK', 'PWD', 'OLDPWD'])

const OWN = /^CAMBIUM_/i

/** Would wait for a person, or colour what nobody sees. */
const TAKEN = new Set(['GIT_ASKPASS', 'SSH_ASKPASS', 'FORCE_COLOR', 'CLICOLOR_FORCE'])

const UNATTENDED = {
  TERM: 'dumb',
  NO_COLOR: '1',
  PAGER: 'cat',
  MANPAGER: 'cat',
  GIT_PAGER: 'cat',
  EDITOR: 'true',
  VISUAL: 'true',
  GIT_EDITOR: 'true',
  GIT_SEQUENCE_EDITOR: 'true',
  GIT_TERMINAL_PROMPT: '0',
  GCM_INTERACTIVE: 'never',
  SSH_ASKPASS_REQUIRE: 'never',
  DEBIAN_FRONTEND: 'noninteractive',
} as const

export interface EnvironmentPolicy {
  /** Names passed on although they look like a credential; a trailing `*` stands for any rest. */
  readonly pass: readonly string[]
  /** Set for every child. */
  readonly set: Readonly<Record<string, string>>
}

/** Gives each child its environment; `extra` is the caller's, wins, and is not filtered. */
export function createEnvironment(
  policy: EnvironmentPolicy,
): (cwd: string, extra?: Readonly<Record<string, string | undefined>>) => Record<string, string> {
  // Values change, names hardly do: each is judged once.
  const judged = new Map<string, boolean>()
  const isPassed = (name: string) => {
    const known = judged.get(name)
    if (known !== undefined) return known
    const passed = !TAKEN.has(name) && (!isPrivate(name) || isListed(name, policy.pass))
    judged.set(name, passed)
    return passed
  }
  return (cwd, extra = {}) => {
    const env: Record<string, string> = {}
    for (const [name, value] of Object.entries(process.env)) {
      if (value !== undefined && isPassed(name)) env[name] = value
    }
    for (const name of secretive(env)) if (!isListed(name, policy.pass)) delete env[name]
    Object.assign(env, UNATTENDED, policy.set)
    env['PWD'] = cwd
    for (const [name, value] of Object.entries(extra)) {
      if (value === undefined) delete env[name]
      else env[name] = value
    }
    return env
  }
}

/** Names that say nothing, of variables whose value holds a known secret all the same. */
function secretive(env: Readonly<Record<string, string>>): string[] {
  const all = Object.values(env).join('\n')
  if (redact(all) === all) return []
  return Object.keys(env).filter(name => redact(env[name]!) !== env[name])
}

function isPrivate(name: string): boolean {
  return OWN.test(name) || (CREDENTIAL.test(name) && !KEPT.has(name))
}

function isListed(name: string, pass: readonly string[]): boolean {
  return pass.some(entry => (entry.endsWith('*') ? name.startsWith(entry.slice(0, -1)) : name === entry))
}
