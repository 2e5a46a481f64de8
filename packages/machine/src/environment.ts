/** The environment of a child: the harness's own without its credentials, made safe for a program nobody watches. */

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

/** `own` is the harness's environment, `extra` the caller's, which wins and is not filtered. */
export function childEnvironment(
  own: NodeJS.ProcessEnv,
  policy: EnvironmentPolicy,
  cwd: string,
  extra: Readonly<Record<string, string | undefined>> = {},
): Record<string, string> {
  const env: Record<string, string> = {}
  for (const [name, value] of Object.entries(own)) {
    if (value !== undefined && !TAKEN.has(name) && (!isPrivate(name) || isPassed(name, policy.pass))) env[name] = value
  }
  Object.assign(env, UNATTENDED, policy.set)
  env['PWD'] = cwd
  for (const [name, value] of Object.entries(extra)) {
    if (value === undefined) delete env[name]
    else env[name] = value
  }
  return env
}

function isPrivate(name: string): boolean {
  return OWN.test(name) || (CREDENTIAL.test(name) && !KEPT.has(name))
}

function isPassed(name: string, pass: readonly string[]): boolean {
  return pass.some(entry => (entry.endsWith('*') ? name.startsWith(entry.slice(0, -1)) : name === entry))
}
