/** Keys and logins that people store once, for every start: `ctx.credentials` and `ctx.auth`. */

import { join, resolve } from 'node:path'
import {
  type Context,
  HarnessError,
  keepSecrets,
  nearest,
  redact,
  ScopedRegistry,
  Service,
  scopeOf,
} from '@cambium/core'
import Schema from 'schemastery'
import type { Auth, AuthIo, AuthProvider, AuthState, Credentials, KnownCredential } from './credentials/contract.ts'
import { CredentialFile } from './credentials/file.ts'
import { KnownSecrets } from './credentials/known-secrets.ts'
import type { Logins } from './credentials/logins.ts'
import { ofEnvironment } from './credentials/of-environment.ts'
import { homeFolder } from './home-folder.ts'

export type {
  Auth,
  AuthIo,
  AuthProvider,
  AuthState,
  Credentials,
  Grant,
  KnownCredential,
} from './credentials/contract.ts'

export const name = 'credentials'
export const provide = ['credentials', 'auth']

export interface Config {
  home?: string
}

export const Config: Schema<Config> = Schema.object({
  home: Schema.string().description('Where credentials.json is; the harness’s home by default'),
})

export function apply(ctx: Context, config: Config) {
  const file = new CredentialFile(join(resolve(config.home ?? homeFolder()), 'credentials.json'))
  const asked = new Set<string>()
  const secrets = new KnownSecrets(file, asked)
  keepSecrets(ctx, () => secrets.all())
  new CredentialService(ctx, file, asked)
  new AuthService(ctx, file, secrets)
}

/** Only the door: a service's own fields are read through a proxy, which a look-up should pay for once. */
class CredentialService extends Service implements Credentials {
  private readonly keys: Keys

  constructor(ctx: Context, file: CredentialFile, asked: Set<string>) {
    super(ctx, 'credentials')
    this.keys = new Keys(file, asked, problem => ctx.logger.warn(problem))
  }

  get(name: string): string | undefined {
    return this.keys.get(name)
  }

  list(): KnownCredential[] {
    return this.keys.list()
  }

  set(name: string, value: string): Promise<void> {
    return this.keys.set(name, value)
  }

  remove(name: string): Promise<boolean> {
    return this.keys.remove(name)
  }

  problem(): HarnessError | undefined {
    return this.keys.problem()
  }

  redact(text: string): string {
    return redact(text)
  }
}

class Keys {
  private readonly file: CredentialFile
  private readonly asked: Set<string>
  private readonly warn: (problem: HarnessError) => void
  private told = ''

  constructor(file: CredentialFile, asked: Set<string>, warn: (problem: HarnessError) => void) {
    this.file = file
    this.asked = asked
    this.warn = warn
  }

  get(name: string): string | undefined {
    this.asked.add(name)
    const value = ofEnvironment(name)
    if (value) return value
    const { content, problem } = this.file.read()
    if (problem && problem.message !== this.told) {
      this.told = problem.message
      this.warn(problem)
    }
    return content.keys.get(name)?.trim() || undefined
  }

  list(): KnownCredential[] {
    const { keys } = this.file.read().content
    const present = [...this.asked].filter(name => ofEnvironment(name))
    return [...new Set([...keys.keys(), ...present])].sort().map(name => {
      const value = ofEnvironment(name)
      const from = value ? 'environment' : 'file'
      return { name, from, stored: keys.has(name), hint: hintOf(value ?? keys.get(name)!.trim()) }
    })
  }

  async set(name: string, value: string): Promise<void> {
    const text = value.trim()
    const problem = problemOf(name, text)
    if (problem) throw new HarnessError('STORE_CREDENTIAL_INVALID', problem.what, { fix: problem.fix })
    await this.file.change(({ keys }) => keys.set(name, text))
  }

  remove(name: string): Promise<boolean> {
    return this.file.change(({ keys }) => keys.delete(name))
  }

  problem(): HarnessError | undefined {
    return this.file.read().problem
  }
}

/** So much that one tells two keys apart, so little that it is of no use. */
function hintOf(value: string): string {
  return value.length >= 16 ? value.slice(-4) : value.length >= 8 ? value.slice(-2) : ''
}

const MAX_VALUE_CHARS = 16 * 1024

function problemOf(name: string, value: string): { what: string; fix: string } | undefined {
  if (!/^[A-Za-z_]\w{0,199}$/.test(name)) {
    return {
      what: `${JSON.stringify(name.slice(0, 60))} is no name of a key`,
      fix: 'write it as an environment variable: OPENAI_API_KEY',
    }
  }
  if (!value)
    return { what: `the value of ${name} is empty`, fix: `to have none, remove it: cambium auth remove ${name}` }
  if (value.length > MAX_VALUE_CHARS)
    return { what: `the value of ${name} is too long for a key`, fix: 'give the key alone' }
  if (/\p{Cc}/u.test(value)) {
    return { what: `the value of ${name} has several lines, or characters that no key has`, fix: 'give the key alone' }
  }
  return undefined
}

// Logins ----------------------------------------------------------------------------------------------------------

class AuthService extends Service implements Auth {
  private readonly file: CredentialFile
  private readonly providers = new ScopedRegistry<AuthProvider>({ noun: 'login', duplicateCode: 'AUTH_DUPLICATE' })
  private readonly logins: () => Promise<Logins>

  constructor(ctx: Context, file: CredentialFile, secrets: KnownSecrets) {
    super(ctx, 'auth')
    this.file = file
    let logins: Promise<Logins> | undefined
    // Most starts use keys.
    const load = async () => {
      const { Logins } = await import('./credentials/logins.ts')
      return new Logins({ file, secrets, warn: text => ctx.logger.warn(text) })
    }
    this.logins = () => {
      logins ??= load()
      return logins
    }
    ctx.effect(() => async () => (await logins)?.settled(), 'renewals of logins')
  }

  register(provider: AuthProvider): () => void {
    const { ctx, providers } = this
    const { id, login, headers } = provider
    if (!/^[A-Za-z0-9][\w.-]{0,99}$/.test(id) || typeof login !== 'function' || typeof headers !== 'function') {
      throw new HarnessError('AUTH_PROVIDER_INVALID', 'a login needs an id, login() and headers()', {
        where: ctx.fiber.name,
        fix: 'take the id of the llm provider that it lets into',
      })
    }
    return providers.register(ctx, id, provider)
  }

  list(): AuthState[] {
    const { grants } = this.file.read().content
    const offers = this.providers.entries(scopeOf(this.ctx))
    return [...new Set([...offers.keys(), ...[...grants.keys()].sort()])].map(id => {
      const label = offers.get(id)?.label
      const grant = grants.get(id)
      return {
        id,
        ...(label === undefined ? {} : { label }),
        offered: offers.has(id),
        loggedIn: grant !== undefined,
        ...(grant?.expiresAt === undefined ? {} : { expiresAt: grant.expiresAt }),
      }
    })
  }

  async login(id: string, io: AuthIo): Promise<void> {
    const provider = this.offer(id)
    if (!provider) throw unknown(id, [...this.providers.entries(scopeOf(this.ctx)).keys()])
    await (await this.logins()).login(provider, io)
  }

  async logout(id: string): Promise<void> {
    const provider = this.offer(id)
    await (await this.logins()).logout(id, provider)
  }

  loggedIn(id: string): boolean {
    return this.offer(id) !== undefined && this.file.read().content.grants.has(id)
  }

  async headers(
    id: string,
    options: { readonly fresh: boolean; readonly signal?: AbortSignal | undefined },
  ): Promise<Record<string, string> | undefined> {
    const provider = this.offer(id)
    return provider && (await this.logins()).headers(provider, options)
  }

  private offer(id: string): AuthProvider | undefined {
    return this.providers.get(id, scopeOf(this.ctx))
  }
}

function unknown(id: string, known: readonly string[]) {
  const near = nearest(id, known)
  const others = known.length ? `there is one for ${known.join(', ')}` : `store its key with: cambium auth set ${id}`
  return new HarnessError('AUTH_UNKNOWN', `no plugin offers a login to ${id}`, {
    fix: near ? `did you mean ${near}?` : others,
  })
}
