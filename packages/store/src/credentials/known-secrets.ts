/** Every secret that this process has come to know, so that it can be kept out of what is shown. */

import type { JsonValue } from '@cambium/core'
import type { CredentialFile, Reading } from './file.ts'
import { ofEnvironment } from './of-environment.ts'

/** Variables of the environment that hold a secret, asked for or not; `SSH_AUTH_SOCK` and `PASS_DIR` do not. */
const SECRET_NAME = /_(?:API_?KEY|ACCESS_KEY|SECRET|SECRET_KEY|TOKEN|PASSWORD)$/i
const PATH_OR_ADDRESS = /^[/~.]|:\/\//
const MAX_KNOWN = 1_000

export class KnownSecrets {
  private readonly file: CredentialFile
  /** Names that were asked for. */
  private readonly names: ReadonlySet<string>
  private readonly known = new Set<string>()
  private list: readonly string[] = []
  private seen: Reading | undefined
  private variables: readonly string[] | undefined

  constructor(file: CredentialFile, names: ReadonlySet<string>) {
    this.file = file
    this.names = names
  }

  /** Former ones stay: what was removed a moment ago may still be in somebody's output. Never throws. */
  all(): readonly string[] {
    const reading = this.file.read()
    if (reading !== this.seen) {
      this.seen = reading
      for (const value of reading.held.keys.values()) this.add(value)
      for (const { data } of reading.held.grants.values()) this.addGrant(data)
    }
    this.variables ??= Object.keys(process.env).filter(name => SECRET_NAME.test(name))
    for (const names of [this.names, this.variables]) {
      for (const name of names) {
        const value = ofEnvironment(name)
        if (value && (this.names.has(name) || !PATH_OR_ADDRESS.test(value))) this.add(value)
      }
    }
    if (this.list.length !== this.known.size) this.list = [...this.known]
    return this.list
  }

  add(value: string): void {
    const text = value.trim()
    if (this.known.has(text)) return
    // Tokens of a process that runs for months: the oldest ones are void.
    if (this.known.size === MAX_KNOWN) {
      for (const oldest of this.known) {
        this.known.delete(oldest)
        break
      }
      this.list = []
    }
    this.known.add(text)
  }

  /** Not the address, the account or the scopes that come along with its tokens. */
  addGrant(data: JsonValue | undefined): void {
    if (typeof data === 'string') {
      if (data.length >= 16 && !/[\s@]|:\/\//.test(data)) this.add(data)
    } else if (typeof data === 'object' && data !== null) {
      for (const item of Object.values(data)) this.addGrant(item)
    }
  }

  /** The token of `authorization: Bearer …`, and what else headers of such names carry. */
  addHeaders(headers: Readonly<Record<string, string>>): void {
    for (const [name, value] of Object.entries(headers)) {
      if (/auth|key|token|secret|cookie/i.test(name)) this.add(value.replace(/^[A-Za-z]+\s+/, ''))
    }
  }
}
