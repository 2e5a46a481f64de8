/** `ctx.recovery`: what becomes of a request that failed, whoever made it. */

import { type Context, Service } from '@cambium/core'
import type { LlmCallConfig, LlmFailure, Route } from '../stream.ts'
import { type Fallback, routeName } from './fallback.ts'
import { RETRY_POLICY, RetryCourse, type RetryPolicy } from './policy.ts'

/** What follows a failed attempt. */
export type Recourse =
  | { readonly kind: 'again'; readonly attempt: number; readonly delayMs: number }
  | { readonly kind: 'fallback'; readonly to: Route; readonly restMs: number }
  | { readonly kind: 'give-up' }

export interface RecoveryService {
  readonly policy: RetryPolicy
  /** The attempts of one request; ask it after each that failed. */
  course(policy?: RetryPolicy): RequestCourse
  /** The route that takes the place of one that is down, and why; undefined for a route that may be used. */
  instead(route: Route): { readonly to: Route; readonly failure: LlmFailure; readonly restMs: number } | undefined
  /** The same request for another route. */
  standIn(config: LlmCallConfig, to: Route): LlmCallConfig
  /** A route that was left alone may be used again: somebody chose it. */
  forgive(route: Route): void
}

declare module 'cordis' {
  interface Context {
    /** What becomes of requests that failed: how they are tried again, and which routes stand in for those that are down. */
    recovery: RecoveryService
  }
}

export class Recovery extends Service implements RecoveryService {
  readonly policy: RetryPolicy
  private readonly fallback: Fallback

  constructor(ctx: Context, policy: RetryPolicy, fallback: Fallback) {
    super(ctx, 'recovery')
    this.policy = policy
    this.fallback = fallback
  }

  course(policy = this.policy): RequestCourse {
    return new RequestCourse(policy, this.fallback)
  }

  instead(route: Route) {
    const down = this.fallback.down(route)
    const to = down && this.fallback.after(route, down.failure)
    return to && { to, ...down }
  }

  standIn(config: LlmCallConfig, to: Route): LlmCallConfig {
    return this.fallback.standIn(config, to)
  }

  forgive(route: Route): void {
    this.fallback.clear(route)
  }
}

/** What a person has read is taken back once, not again and again. */
const VISIBLE_RETRIES = 1

/** The attempts of one request, over all the routes that it was tried on. */
export class RequestCourse {
  readonly policy: RetryPolicy
  private readonly fallback: Fallback | undefined
  private readonly courses = new Map<string, RetryCourse>()
  private readonly givenUp = new Set<string>()
  private last: { readonly route: Route; readonly failure: LlmFailure } | undefined
  private takenBack = 0

  constructor(policy: RetryPolicy = RETRY_POLICY, fallback?: Fallback) {
    this.policy = policy
    this.fallback = fallback
  }

  /** Attempts that failed so far. */
  get attempts(): number {
    let sum = 0
    for (const { attempts } of this.courses.values()) sum += attempts
    return sum
  }

  /** Counts an attempt that failed `agoMs` before now and that somebody else has dealt with; in their order. */
  recall(route: Route, failure: LlmFailure, agoMs: number): void {
    const { last } = this
    if (last && routeName(last.route) !== routeName(route)) this.leave(last.route, last.failure)
    this.last = { route, failure }
    this.on(route).recall(failure.code, agoMs)
  }

  /** `visible`: the attempt had shown something to a person, which another one takes back. */
  after(route: Route, failure: LlmFailure, { visible = false } = {}): Recourse {
    const name = routeName(route)
    // Somebody insists on a route that was given up.
    if (this.givenUp.has(name)) return { kind: 'give-up' }
    const course = this.on(route)
    const delayMs = course.next(failure)
    if (delayMs !== undefined && !(visible && this.takenBack >= VISIBLE_RETRIES)) {
      if (visible) this.takenBack++
      return { kind: 'again', attempt: course.attempts + 1, delayMs }
    }
    const to = this.fallback?.after(route, failure, this.givenUp)
    if (!to) return { kind: 'give-up' }
    this.leave(route, failure)
    return { kind: 'fallback', to, restMs: this.fallback?.down(route)?.restMs ?? 0 }
  }

  private leave(route: Route, failure: LlmFailure): void {
    this.givenUp.add(routeName(route))
    this.fallback?.mark(route, failure)
  }

  private on(route: Route): RetryCourse {
    const name = routeName(route)
    let course = this.courses.get(name)
    if (!course) {
      course = new RetryCourse(this.policy)
      this.courses.set(name, course)
    }
    return course
  }
}
