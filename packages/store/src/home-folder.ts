import { homedir } from 'node:os'
import { join, resolve } from 'node:path'

export type Environment = Readonly<Record<string, string | undefined>>

/** The harness's home, absolute: `CAMBIUM_HOME`, else `~/.cambium`. It need not exist: whoever writes there first ensures it. */
export function homeFolder(env: Environment = process.env): string {
  const named = env['CAMBIUM_HOME']?.trim()
  if (!named) return join(homedir(), '.cambium')
  // A value from an env file has met no shell that would have expanded it.
  return resolve(named === '~' || named.startsWith('~/') ? join(homedir(), named.slice(1)) : named)
}
