import type { Session } from '@cambium/session'
import type { SessionTelemetryBackend, TelemetryRecord } from '@cambium/session/telemetry'
import * as telemetry from '@cambium/session/telemetry'
import { describe, expect, it } from 'vitest'
import { boot, user } from './boot.ts'

const say = (session: Session, text: string) => session.append('user/message', { message: user(text) })

async function bootTelemetry(config: Partial<telemetry.Config> = {}) {
  const booted = await boot()
  const plugin = booted.ctx.plugin(telemetry, telemetry.Config(config as telemetry.Config))
  await plugin
  return { ...booted, plugin }
}

/** Keeps what it gets. */
function listening(name = 'listener', more: Partial<SessionTelemetryBackend> = {}) {
  const records: TelemetryRecord[] = []
  const backend: SessionTelemetryBackend = { name, record: record => void records.push(record), ...more }
  return { backend, records, types: () => records.map(({ event }) => event.type) }
}

describe('a backend', () => {
  it('gets each logged event once and in order, and has all of them when its undo resolves', async () => {
    const { ctx } = await bootTelemetry()
    const { backend, records } = listening()
    const undo = ctx.telemetry.register(backend)
    const session = ctx.sessions.create('one')
    for (let number = 0; number < 500; number++) say(session, `${number}`)
    expect(records).toEqual([])
    await undo()
    expect(records.map(({ event }) => event)).toEqual(session.events())
    expect(records[0]?.session).toEqual(session.header)
    say(session, 'later')
    await undo()
    expect(records).toHaveLength(500)
  })
})
