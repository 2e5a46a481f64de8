/** Which types of events there are beside the core's, and whether an event is what its type promises. */

import { type Context, errorMessage, HarnessError, ScopedRegistry, type ScopeKey } from '@cambium/core'
import { isCoreType, problemOf } from './core-types.ts'
import type { SessionEvent, SessionId } from './event.ts'
import type { EventDefinition } from './service.ts'

/** Problems that are told one by one. */
const NAMED = 10

export class EventTypes {
  private readonly types = new ScopedRegistry<EventDefinition>({
    noun: 'event type',
    duplicateCode: 'SESSION_EVENT_DUPLICATE',
  })

  /** @throws `SESSION_EVENT_NAME`, `SESSION_EVENT_DUPLICATE` */
  register(ctx: Context, type: string, definition: EventDefinition): () => void {
    if (isCoreType(type) || !/^[a-z][\w-]*(\/[\w.-]+)+$/i.test(type)) {
      throw new HarnessError('SESSION_EVENT_NAME', `"${type}" cannot be defined as an event type`, {
        where: ctx.fiber.name,
        fix: isCoreType(type) ? 'core types are defined already' : 'name it owner/verb: todo/write',
      })
    }
    return this.types.register(ctx, type, definition)
  }

  /** What has to be logged with the event. @throws `SESSION_EVENT_UNKNOWN`, `SESSION_EVENT_INVALID` */
  check(type: string, data: unknown, id: SessionId, scope: ScopeKey | undefined): { ignorable?: false } {
    const definition = this.types.get(type, scope)
    if (!definition && !isCoreType(type)) {
      throw new HarnessError('SESSION_EVENT_UNKNOWN', `no plugin has defined the event type "${type}"`, {
        where: `session ${id}`,
        fix: `call ctx.sessions.defineEvent('${type}') in the plugin that owns it`,
      })
    }
    const problem = problemOf(type, data) ?? (definition && schemaProblem(definition, data))
    if (problem) {
      throw new HarnessError('SESSION_EVENT_INVALID', `${type} was not logged: ${problem}`, { where: `session ${id}` })
    }
    return definition?.ignorable === false ? { ignorable: false } : {}
  }

  /** What a stored log says that nobody here understands, where it matters. `judged` has the problems of core types. */
  unreadable(events: readonly SessionEvent[], judged: ReadonlyMap<SessionEvent, string>): string[] {
    const unknown = new Set<string>()
    const broken: string[] = []
    const definitions = this.types.entries()
    for (const event of events) {
      const { type, data, seq, ignorable } = event
      const definition = definitions.get(type)
      if (!definition && ignorable === false && !isCoreType(type)) unknown.add(type)
      const problem = judged.get(event) ?? (definition && schemaProblem(definition, data))
      if (problem) broken.push(`event ${seq} (${type}) is left out: ${problem}`)
    }
    return [
      ...[...unknown].map(type => `events of type ${type} need a plugin that is not mounted and are left out`),
      ...broken.slice(0, NAMED),
      ...(broken.length > NAMED ? [`${broken.length - NAMED} more events are left out`] : []),
    ]
  }
}

function schemaProblem({ schema }: EventDefinition, data: unknown): string | undefined {
  if (!schema) return undefined
  try {
    const result = schema['~standard'].validate(data) as
      | { issues?: readonly { message: string }[] }
      | PromiseLike<never>
    if ('then' in result) return 'its schema validates asynchronously, which an append cannot wait for'
    return result.issues?.length ? result.issues.map(issue => issue.message).join('; ') : undefined
  } catch (error) {
    return errorMessage(error)
  }
}
