/**
 * Restore drills. The newest backup of each database is periodically restored to a hidden branch: the branch's VM
 * restores the backup, replays the log and reads every page. Then the branch is deleted and the result is recorded.
 */
import type { Sweep } from '../../engine/sweep.ts'
import { hours, seconds } from '../../lib/duration.ts'
import { ApiError } from '../http/errors.ts'
import * as backups from './backup-store.ts'
import type { BackupState } from './backup-store.ts'
import { createBranch, startDeletingBranch } from './create.ts'
import type { DatabaseDeps } from './deps.ts'
import { runInside } from './probe.ts'
import { statusOf } from './rules.ts'
import type { Branch } from './store.ts'
import * as store from './store.ts'

const limitMs = hours(2)

export const databaseDrills = (deps: DatabaseDeps): Sweep => ({
  name: 'database-drills',
  everyMs: seconds(5),
  async run({ now, signal }) {
    const running = await backups.drills(deps.db)
    for (const drill of running) await advance(deps, drill, now, signal)
    const { drillHours } = deps.config.databases
    const next = drillHours > 0 ? await backups.nextToDrill(deps.db, drillHours) : undefined
    if (next) await begin(deps, next)
    return { running: running.length, began: next ? 1 : 0 }
  },
})

async function begin(deps: DatabaseDeps, branchId: string): Promise<void> {
  const branch = await store.branch(deps.db, branchId)
  if (!branch) return
  try {
    await deps.db.tx(async tx => {
      const made = await createBranch(deps, tx, {
        databaseId: branch.databaseId,
        projectId: branch.projectId,
        name: `drill-${branch.name}`.slice(0, 40),
        kind: 'drill',
        parentId: branch.id,
        fromMoment: 'latest',
      })
      if (!(await backups.startDrill(tx, branch.id, made.id)))
        throw new Error('another drill has started in the meantime')
    })
  } catch (cause) {
    // The drill needs a second VM. If the project's plan has no room for it, the next round of the sweep tries again.
    if (cause instanceof ApiError)
      deps.log.info({ err: cause, branchId }, 'could not start a restore drill in this round')
    else throw cause
  }
}

async function advance(deps: DatabaseDeps, drill: BackupState, now: Date, signal: AbortSignal): Promise<void> {
  const branch = drill.drillBranchId ? await store.branch(deps.db, drill.drillBranchId) : undefined
  const outcome = await outcomeOf(deps, drill, branch, now, signal)
  if (outcome === undefined || !drill.drillBranchId) return
  const id = drill.drillBranchId
  await deps.db.tx(async tx => {
    await backups.endDrill(tx, drill.branchId, id, outcome.error)
    await startDeletingBranch(tx, id)
  })
}

/**
 * Returns the result of a restore drill; undefined while it runs. `error` null: the backup was restored and every page
 * is readable.
 */
async function outcomeOf(
  deps: DatabaseDeps,
  drill: BackupState,
  branch: Branch | undefined,
  now: Date,
  signal: AbortSignal,
): Promise<{ readonly error: string | null } | undefined> {
  if (!branch) return { error: 'The temporary database of the restore drill no longer exists.' }
  const status = statusOf(branch)
  if (status === 'failed') return { error: branch.error ?? 'The temporary database of the restore drill failed.' }
  if (now.getTime() - (drill.drillStartedAt?.getTime() ?? 0) > limitMs)
    return { error: 'The restore drill did not finish in time.' }
  if (status !== 'running') return undefined
  const ran = await runInside(deps, branch, ['mote-check'], signal, 30_000)
  // `mote-check` exits with code 75 while the check is still running.
  if (!ran || ran.exitCode === 75) return undefined
  return {
    error: ran.exitCode === 0 ? null : ran.stderr.trim().slice(-500) || 'The restored database has unreadable pages.',
  }
}
