/** Keeps what files were before an agent's tools change them, turn by turn, so that a rewind can bring them back. */

import { AsyncLocalStorage } from 'node:async_hooks'
import { dirname, join } from 'node:path'
import type {} from '@cambium/agent'
import { type Context, errorMessage, Service } from '@cambium/core'
import type { FileHistory } from '@cambium/machine/checkpoint'
import { type Session, type SessionHeader, type StoredSession, turnsOf } from '@cambium/session'
import { homeFolder } from '@cambium/store'
import type { ToolExecution } from '@cambium/tools'
import Schema from 'schemastery'
import { KEPT, LEFT, WATCHED } from './checkpoint/events.ts'
import { journalOf, readJournal } from './checkpoint/journal.ts'
import { contentsOf } from './checkpoint/past.ts'
import { type FileCall, Recorder, turnOpen } from './checkpoint/recorder.ts'
import { type RestoreOptions, type RestoreReport, restore } from './checkpoint/restore.ts'
import { count } from './wording.ts'

export type { RestoreOptions, RestoreReport } from './checkpoint/restore.ts'

export const name = 'toolbox-checkpoint'
export const inject = ['sessions', 'tools', 'snapshots']
export const provide = ['checkpoints']

export interface Config {
  exactTools: string[]
}

export const Config: Schema<Config> = Schema.object({
  exactTools: Schema.array(Schema.string())
    .default(['write', 'edit', 'apply_patch'])
    .description(
      'Tools that change files through ctx.fs alone, which tells what they touch; before every other one that may change something the whole folder is looked at',
    ),
})

export interface Checkpoints {
  /**
   * Puts the files back to what they were when event `seq` was the last one of that log; -1 is before all. What somebody
   * else has changed since is left alone and told, unless `force`. What the files are until then is kept: logged by the
   * session where it is open here, else beside it, so that restoring to the log's last event (or to the one before this)
   * undoes it. Never throws once it has begun: the report tells what was not done, and doing it again finishes.
   * @throws `CHECKPOINT_TURN_OPEN`, `CHECKPOINT_SEQ_INVALID`
   */
  restore(source: Session | StoredSession, seq: number, options?: RestoreOptions): Promise<RestoreReport>
}

declare module 'cordis' {
  interface Context {
    /** What files were before each turn, and the way back to it. */
    checkpoints: Checkpoints
  }
}

/** Of the module and not of the plugin: a call goes on through a reload, and the listener after it must know it. */
const calls = new AsyncLocalStorage<FileCall>()

export function apply(ctx: Context, config: Config) {
  const { sessions } = ctx
  for (const type of [KEPT, LEFT, WATCHED] as const) sessions.defineEvent(type)
  const service = new CheckpointService(ctx)
  const exact = new Set(config.exactTools)

  ctx.on('tools/execute', async (exec, next) => {
    const call = callOf(service, exec)
    if (!call) return next()
    const { recorder } = call
    const { tool } = exec
    try {
      if (tool && !tool.readOnly && !tool.sessionLocal && !exact.has(exec.name)) {
        // Of a call that is cancelled meanwhile its dispatch tells.
        await recorder.watch(call, exec.signal).catch(error => {
          if (!exec.signal.aborted) throw error
        })
      }
      return await calls.run(call, next)
    } finally {
      if (call.watched || call.touched.size) await recorder.settle(call, exec.signal)
    }
  })

  ctx.on('fs/before-write', async ({ path, kind }) => {
    const call = calls.getStore()
    await call?.recorder.touch(call, path, kind)
  })

  const adopted = new WeakSet<Session>()
  ctx.on('session/event', (session, { type, seq }) => {
    if (seq === undefined) return
    if (session.header.parent && !adopted.has(session)) {
      // With its first event, before which nothing of a session is stored.
      adopted.add(session)
      service.adopt(session)
    }
    if (type === 'turn/end') service.recorders.get(session)?.turnEnded(seq)
  })
  ctx.on('agent/turn-stopping', ({ agent }) => service.recorders.get(agent.session)?.stopping())
  ctx.on('session/flush', session => service.recorders.get(session)?.ended())
  ctx.on('session/disposed', session => service.leave(session))

  ctx.inject(['commands'], inner => {
    inner.commands.register({
      name: 'restore-files',
      description: 'Puts files back to what they were before a turn: the last one, or the one of that number',
      usage: '[turn | undo]',
      async run({ agent: { session }, args, signal }) {
        if (args === 'undo') {
          const seq = service.lastRestore(session)
          if (seq === undefined) return 'Nothing was put back yet.'
          return told(await service.restore(session, seq, { signal })) || 'The files are as they were before that.'
        }
        const turns = turnsOf(session.events())
        const wanted = args ? turns.find(({ turn }) => String(turn) === args) : turns.at(-1)
        if (!wanted) return args ? `There is no turn ${args} in this session.` : 'There was no turn yet.'
        const report = told(await service.restore(session, wanted.from - 1, { signal }))
        return report || `The files are as they were before turn ${wanted.turn}.`
      },
    })
  })
}

function callOf(service: CheckpointService, { agent, callId }: ToolExecution): FileCall | undefined {
  if (!agent) return undefined
  const recorder = service.recorderOf(agent.session)
  return { recorder, turn: agent.session.open.turn, callId, touched: new Set(), watched: false }
}

class CheckpointService extends Service implements Checkpoints {
  readonly recorders = new WeakMap<Session, Recorder>()
  private readonly base: Context

  constructor(ctx: Context) {
    super(ctx, 'checkpoints')
    this.base = ctx
  }

  async restore(source: Session | StoredSession, seq: number, options: RestoreOptions = {}): Promise<RestoreReport> {
    const { sessions } = this.base
    const { header } = source
    const live = sessions.get(header.id)
    if (live?.open.turn) throw turnOpen(live)
    if (live) await this.recorderOf(live).catchUp()
    const events = live ? live.events() : 'append' in source ? source.events() : source.events
    const history = live ? this.recorderOf(live).history : this.historyOf(header)
    if (!history) return { restored: [], removed: [], conflicts: [], unknown: [], notices: ['nothing was kept of it'] }
    return restore(sessions, { id: header.id, events, history, live }, seq, options)
  }

  /** Seq of the event before files were last put back. */
  lastRestore(session: Session): number | undefined {
    const logged = session.events().findLast(({ type, data }) => type === KEPT && 'restores' in data)?.seq ?? -1
    const beside = readJournal(journalOf(this.recorderOf(session).history)).at(-1)?.at ?? -1
    const seq = Math.max(logged, beside) - 1
    return seq < 0 ? undefined : seq
  }

  recorderOf(session: Session): Recorder {
    const known = this.recorders.get(session)
    if (known) return known
    const { sessions, logger } = this.base
    const warn = (text: string) => logger.warn(`session ${session.id}: ${text}`)
    const open = () => this.open(sessions.folder(session), session.header.cwd)
    const recorder = new Recorder(session, open, sessions, warn)
    this.recorders.set(session, recorder)
    return recorder
  }

  /** A fork can go back behind its beginning, also when its parent is no more. */
  adopt(session: Session): void {
    const { parent } = session.header
    const contents = contentsOf(session.events().slice(0, parent?.events))
    if (!parent || !contents.length) return
    try {
      const from = this.historyOf({ ...session.header, id: parent.id })
      const { history } = this.recorderOf(session)
      if (from?.exists() && !history.exists()) history.adopt(from, contents)
    } catch (error) {
      const why = errorMessage(error)
      this.base.logger.warn(`session ${session.id}: what files were before the fork could not be taken over: ${why}`)
    }
  }

  leave(session: Session): void {
    void this.recorderOf(session).close()
  }

  /** Of a session that may not be open here. */
  private historyOf(header: SessionHeader): FileHistory | undefined {
    const live = this.base.sessions.get(header.id)
    if (live) return this.recorderOf(live).history
    const folder = this.base.get('sessionPersistence')?.folder?.(header)
    return folder === undefined ? undefined : this.open(folder, header.cwd)
  }

  private open(folder: string, cwd: string): FileHistory {
    // Logs, keys and what was kept are no work of the agent, wherever they lie.
    const own = [homeFolder(), ...(this.base.get('sessionPersistence') ? [dirname(dirname(folder))] : [])]
    return this.base.snapshots.open(join(folder, 'checkpoint'), cwd, own)
  }
}

function told({ restored, removed, conflicts, unknown, notices }: RestoreReport): string {
  const lines = [
    restored.length ? `Put back ${count(restored.length, 'file')}: ${restored.join(', ')}` : '',
    removed.length ? `Removed ${count(removed.length, 'file')}: ${removed.join(', ')}` : '',
    ...conflicts.map(({ path, why }) => `Left ${path} as it is: ${why}`),
    unknown.length ? `Could not be put back: ${unknown.join(', ')}` : '',
    ...notices,
  ].filter(Boolean)
  return lines.join('\n')
}
