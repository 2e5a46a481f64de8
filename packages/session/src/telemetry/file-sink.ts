/** A backend that appends each record as a line of JSON to a file, which is replaced by a new one when it is large. */

import { open, rename, rm, stat } from 'node:fs/promises'
import { basename, dirname } from 'node:path'
import { errorMessage } from '@cambium/core'
import { diskError, ensureFolder } from '@cambium/store'
import type { SessionTelemetryBackend, TelemetryRecord } from './contract.ts'
import { lineOf } from './trace.ts'

export interface FileSinkOptions {
  readonly path: string
  readonly maxFileBytes: number
  /** How many full files are kept beside the one that is written. */
  readonly maxFiles: number
  warn(text: string): void
}

/** What is written at once. */
const BATCH_BYTES = 256 << 10
/** What waits for a disk that cannot be written; more is lost, and counted. */
const PENDING_BYTES = 8 << 20
const LINE_FEED = 0x0a

export class FileSink implements SessionTelemetryBackend {
  readonly name: string
  private readonly options: FileSinkOptions
  private pending: Buffer[] = []
  private bytes = 0
  private writing: Promise<void> | undefined
  /** The last write ended within a line: the next one begins on a new one. */
  private torn = false
  private failing = false
  private lost = 0

  constructor(options: FileSinkOptions) {
    this.options = options
    this.name = `file ${basename(options.path)}`
  }

  /** Waits only where more comes than the disk takes. */
  record(record: TelemetryRecord): void | Promise<void> {
    const line = Buffer.from(lineOf(record))
    if (this.bytes + line.length > PENDING_BYTES) {
      this.lost++
      return this.write()
    }
    this.pending.push(line)
    this.bytes += line.length
    const written = this.write()
    return this.bytes >= BATCH_BYTES && !this.failing ? written : undefined
  }

  async flush(): Promise<void> {
    await this.writing
    if (this.pending.length) await this.write()
    const lost = this.lost + this.pending.length
    if (lost) this.options.warn(`${lost} records could not be written to ${this.options.path}`)
  }

  private write(): Promise<void> {
    this.writing ??= this.drain().finally(() => {
      this.writing = undefined
    })
    return this.writing
  }

  /** Never rejects: what cannot be written waits for the next record. */
  private async drain(): Promise<void> {
    try {
      // What comes in the same round is written together.
      await new Promise(resolve => setImmediate(resolve))
      while (this.pending.length) await this.writeBatch()
      this.failing = false
    } catch (error) {
      if (this.failing) return
      this.failing = true
      this.options.warn(errorMessage(diskError(error, 'a trace cannot be written', this.options.path, ADVICE)))
    }
  }

  private async writeBatch(): Promise<void> {
    const { path, maxFileBytes } = this.options
    ensureFolder(dirname(path))
    let size = await sizeOf(path)
    if (size && size + this.pending[0]!.length > maxFileBytes) {
      await this.rotate()
      size = 0
    }
    const room = Math.min(BATCH_BYTES, maxFileBytes - size)
    const batch: Buffer[] = []
    for (let bytes = 0; batch.length < this.pending.length; ) {
      bytes += this.pending[batch.length]!.length
      // A line that is larger than a file has one of its own.
      if (batch.length && bytes > room) break
      batch.push(this.pending[batch.length]!)
    }
    // Opened anew for each batch: another process may have moved the file away.
    const file = await open(path, 'a', 0o600)
    try {
      await this.append(file, batch)
    } finally {
      await file.close()
    }
  }

  private async append(file: Awaited<ReturnType<typeof open>>, batch: readonly Buffer[]): Promise<void> {
    const lead = this.torn ? 1 : 0
    const bytes = Buffer.concat([Buffer.alloc(lead, LINE_FEED), ...batch])
    let done = 0
    try {
      while (done < bytes.length) done += (await file.write(bytes, done)).bytesWritten
    } finally {
      let whole = 0
      let end = lead
      while (whole < batch.length && end + batch[whole]!.length <= done) end += batch[whole++]!.length
      // Nothing was written at all: what was torn before is torn still.
      if (done) this.torn = done > end
      for (const line of this.pending.splice(0, whole)) this.bytes -= line.length
    }
  }

  /** `trace.jsonl` becomes `trace.jsonl.1`, that one `.2`, and the last one goes. */
  private async rotate(): Promise<void> {
    const { path, maxFiles } = this.options
    if (!maxFiles) return rm(path, { force: true })
    for (let number = maxFiles; number > 0; number--) {
      await rename(number > 1 ? `${path}.${number - 1}` : path, `${path}.${number}`).catch(missing)
    }
    this.torn = false
  }
}

const ADVICE =
  'free some space or set `file` to another place; what is pending is written when it can be, as far as it is kept'

/** Of a regular file: nothing else has a size that grows. */
async function sizeOf(path: string): Promise<number> {
  const found = await stat(path).catch(missing)
  return found?.isFile() ? found.size : 0
}

function missing(error: unknown): undefined {
  if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
}
