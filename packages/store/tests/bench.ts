/** Credentials in a home of their own, with what is logged. */

import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Context, createRoot } from '@cambium/core'
import * as credentials from '@cambium/store/credentials'
import { onTestFinished } from 'vitest'

export interface CredentialBench {
  readonly ctx: Context
  readonly home: string
  /** `credentials.json`. */
  readonly file: string
  /** Writes it as a person would, for the owner only. */
  write(text: string | object): void
  /** Every record so far. */
  logs(): string
}

export function homeOf(): string {
  const home = join(realpathSync(mkdtempSync(join(tmpdir(), 'cambium-credentials-'))), 'home')
  onTestFinished(() => rmSync(join(home, '..'), { recursive: true, force: true }))
  return home
}

export async function openCredentials(home = homeOf()): Promise<CredentialBench> {
  const records: string[] = []
  const ctx = createRoot({ level: 'debug', write: ({ level, text }) => void records.push(`${level}: ${text}`) })
  await ctx.plugin(credentials, { home })
  onTestFinished(() => ctx.fiber.dispose())
  const file = join(home, 'credentials.json')
  return {
    ctx,
    home,
    file,
    write(content) {
      mkdirSync(home, { recursive: true, mode: 0o700 })
      writeFileSync(file, typeof content === 'string' ? content : JSON.stringify(content), { mode: 0o600 })
    },
    logs: () => records.join('\n'),
  }
}
