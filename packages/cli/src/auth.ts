/** Stores, lists and removes keys, and logs in and out, in the tree that it stands in: the heart of `cambium auth`. */

import type { Context } from '@cambium/core'
import type {} from '@cambium/llm'
import type {} from '@cambium/loader'
import type { AuthIo } from '@cambium/store/credentials'
import Schema from 'schemastery'
import { listingOf, renderListing } from './auth/listing.ts'
import { namesOf, unknownName } from './auth/names.ts'
import { doubtsAbout, readValue } from './auth/value.ts'
import { VERBS, type Verb } from './auth/verbs.ts'
import { EXIT, exitCodeOfSignal } from './exit-code.ts'
import { describeFailure, exitCodeOf, toFailure } from './failure.ts'
import { usageError } from './flags.ts'
import { escapeControls, jsonText } from './printable.ts'
import { processSurface, type Surface } from './surface.ts'

export const name = 'cambium-auth'
export const inject = ['llm', 'credentials', 'auth']

export interface Config {
  verb: Verb
  what: string
  json: boolean
}
export const Config: Schema<Config> = Schema.object({
  verb: Schema.union([...VERBS])
    .default('list')
    .description('What is done'),
  what: Schema.string().default('').description('The provider, or the name of the key'),
  json: Schema.boolean().default(false).description('The list as one JSON object'),
})

export function apply(ctx: Context, config: Config) {
  ctx.app.main(signal => new AuthRun(ctx, config, signal).run())
}

class AuthRun {
  private readonly ctx: Context
  private readonly config: Config
  private readonly surface: Surface
  private readonly ended: AbortSignal

  constructor(ctx: Context, config: Config, ended: AbortSignal) {
    this.ctx = ctx
    this.config = config
    this.surface = ctx.get('surface') ?? processSurface()
    this.ended = ended
  }

  async run(): Promise<number> {
    try {
      return await this[this.config.verb]()
    } catch (error) {
      const failure = toFailure(error)
      this.surface.notes.print(describeFailure(failure))
      return exitCodeOf(failure)
    }
  }

  private async set(): Promise<number> {
    const { ctx, config, surface, ended } = this
    // Before anybody types: what cannot be stored need not be asked for.
    const problem = ctx.credentials.problem()
    if (problem) throw problem
    const { names, users } = namesOf(config.what, ctx.llm.list())
    const [key] = names
    const value = await readValue(key, surface, ended)
    if (value === undefined) return this.givenUp('nothing was stored')
    await ctx.credentials.set(key, value)
    for (const doubt of doubtsAbout(value)) this.warn(`the key ${doubt}`)
    if (!users.length) this.warn(`no provider here looks for ${key}`)
    const [now] = ctx.credentials.list().filter(known => known.name === key)
    if (now?.from === 'environment') {
      this.warn(`${key} is set in the environment too, and that one counts: unset it for the stored one`)
    }
    const other = names.slice(1).find(also => ctx.credentials.get(also) !== undefined)
    if (other) this.warn(`${other} is there too; of the two ${key} counts`)
    this.say(`stored ${key}${users.length ? ` for ${users.join(', ')}` : ''}`)
    return EXIT.done
  }

  private async list(): Promise<number> {
    const { ctx, config, surface } = this
    const listing = listingOf(ctx)
    const problem = ctx.credentials.problem()
    const failure = problem && toFailure(problem)
    const text = config.json
      ? jsonText({ ...listing, ...(failure ? { problem: failure } : {}) }, 2)
      : renderListing(listing)
    // The log has told a person already.
    surface.stdout.write(text)
    return failure ? EXIT.failed : EXIT.done
  }

  private async remove(): Promise<number> {
    const { ctx, config } = this
    const { names, provider } = namesOf(config.what, ctx.llm.list())
    const removed: string[] = []
    for (const key of names) if (await ctx.credentials.remove(key)) removed.push(key)
    for (const key of removed) this.say(`removed ${key}`)
    if (!removed.length) this.fail(`no key is stored for ${config.what}`)
    const left = names.filter(key => ctx.credentials.get(key) !== undefined)
    for (const key of left) this.warn(`${key} is still set in the environment`)
    if (provider && ctx.auth.loggedIn(provider)) {
      this.warn(`a login to ${provider} is still there: cambium auth logout ${provider}`)
    }
    return removed.length ? EXIT.done : EXIT.failed
  }

  private async login(): Promise<number> {
    const { ctx, surface, ended } = this
    const id = this.loginId()
    const stop = new AbortController()
    const signal = AbortSignal.any([ended, stop.signal])
    const io: AuthIo = {
      say: text => surface.notes.print(escapeControls(text)),
      ask: async (question, { hidden = false } = {}) => {
        const keyboard = surface.input?.keyboard
        if (!keyboard) throw usageError(`the login to ${id} has to ask something, and there is nobody`)
        const shown = `${escapeControls(question.trimEnd())} `
        if (!hidden) return (await import('./ask.ts')).ask(keyboard, surface.notes, shown)
        const typed = await (await import('./ask-hidden.ts')).askHidden(keyboard, surface.notes, shown, signal)
        if (typed === undefined) stop.abort()
        return typed ?? ''
      },
      signal,
    }
    try {
      await ctx.auth.login(id, io)
    } catch (error) {
      if (stop.signal.aborted) return this.givenUp('nobody was logged in')
      throw error
    }
    this.say(`logged in to ${id}`)
    return EXIT.done
  }

  private async logout(): Promise<number> {
    const { ctx } = this
    const id = this.loginId()
    const state = ctx.auth.list().find(known => known.id === id)
    if (!state?.loggedIn) {
      this.fail(`nobody is logged in to ${id}`)
      return EXIT.failed
    }
    await ctx.auth.logout(id)
    this.say(`logged out of ${id}`)
    return EXIT.done
  }

  /** A provider that there is in any way, so that a key in its place is not repeated. */
  private loginId(): string {
    const { ctx, config } = this
    const known = [...ctx.auth.list().map(({ id }) => id), ...ctx.llm.list().map(({ provider }) => provider)]
    const id = known.find(one => one.toLowerCase() === config.what.toLowerCase())
    if (id === undefined) throw unknownName(config.what, known)
    return id
  }

  private givenUp(what: string): number {
    this.fail(what)
    return exitCodeOfSignal(this.ended.reason)
  }

  private say(text: string): void {
    this.surface.stdout.write(`${text}\n`)
  }

  private warn(text: string): void {
    this.surface.notes.print(`warning: ${text}`)
  }

  private fail(text: string): void {
    this.surface.notes.print(`cambium: ${text}`)
  }
}
