/** Putting the files back to what they were before a turn, where checkpoints are kept. */

import { type Context, HarnessError } from '@cambium/core'
import type { SessionSummary, StoredSession } from '@cambium/session'
import type { Checkpoints, RestoreReport } from '@cambium/toolbox/checkpoint'
import { escapeControls, plural } from '../printable.ts'

/** @throws `CLI_NO_CHECKPOINTS` */
export function requireCheckpoints(ctx: Context): Checkpoints {
  const found = ctx.get('checkpoints')
  if (found) return found
  throw new HarnessError('CLI_NO_CHECKPOINTS', 'no files can be restored: the tree keeps no checkpoints', {
    fix: 'leave --restore-files out, or add the rows @cambium/machine/checkpoint and @cambium/toolbox/checkpoint',
  })
}

/** @throws `CLI_RESTORE_CONFLICT` while somebody works in the session, and so on the same files */
export function refuseLive({ id, holder }: SessionSummary, force: boolean): void {
  if (!holder || force) return
  throw new HarnessError('CLI_RESTORE_CONFLICT', `nothing was restored: session ${id} is being written by ${holder}`, {
    fix: 'end that one first, or leave --restore-files out',
  })
}

/**
 * All of them or, when one is in conflict and nothing forces it, none.
 * @throws `CLI_RESTORE_CONFLICT` naming what is in the way
 */
export async function restoreFiles(
  files: Checkpoints,
  source: StoredSession,
  seq: number,
  options: { readonly force: boolean; readonly signal: AbortSignal },
): Promise<RestoreReport> {
  const { force, signal } = options
  if (!force) {
    const { conflicts } = await files.restore(source, seq, { dryRun: true, signal })
    if (conflicts.length) {
      throw new HarnessError('CLI_RESTORE_CONFLICT', `nothing was restored: ${conflictText(conflicts)}`, {
        fix: '--force puts them back all the same, and what they are now is lost; without --restore-files all files stay',
      })
    }
  }
  return files.restore(source, seq, { force, signal })
}

const SHOWN = 20

function conflictText(conflicts: RestoreReport['conflicts']): string {
  const shown = conflicts.slice(0, SHOWN).map(({ path, why }) => `${escapeControls(path)} (${escapeControls(why)})`)
  const more = conflicts.length > SHOWN ? `, and ${conflicts.length - SHOWN} more` : ''
  return `${plural(conflicts.length, 'file')} cannot be put back without a loss: ${shown.join(', ')}${more}`
}

/** Lines for a person; `done` is false for what would be done. */
export function restoreLines(report: RestoreReport, done: boolean): string[] {
  const { restored, removed, conflicts, unknown, notices } = report
  const paths = (list: readonly string[]) => list.map(escapeControls)
  const lines = [
    ...paths(restored).map(path => `${done ? 'restored' : 'would restore'} ${path}`),
    ...paths(removed).map(path => `${done ? 'removed' : 'would remove'} ${path}`),
    ...conflicts.map(
      ({ path, why }) => `${done ? 'left as it is' : 'in the way'}: ${escapeControls(path)} (${escapeControls(why)})`,
    ),
    ...paths(unknown).map(path => `left as it is, since what it was is not kept: ${path}`),
  ]
  return [...(lines.length ? lines : [`no file ${done ? 'had' : 'would have'} to be restored`]), ...paths(notices)]
}
