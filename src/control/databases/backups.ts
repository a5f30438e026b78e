/**
 * Full backups of databases. PostgreSQL itself archives its log continuously; this sweep starts full backups and
 * records the state of the backup repository.
 */
import { Type } from 'typebox'
import { Value } from 'typebox/value'
import type { Sweep } from '../../engine/sweep.ts'
import { minutes, seconds } from '../../lib/duration.ts'
import * as backups from './backup-store.ts'
import type { DatabaseDeps } from './deps.ts'
import { runInside } from './probe.ts'
import type { Branch } from './store.ts'
import * as store from './store.ts'

const everyMs = seconds(10)
const lookEverySeconds = 300
const atOnce = 50
/**
 * Time that a started backup may take to appear in the repository. If it does not appear, its process is assumed to
 * have died.
 */
const beginningMs = minutes(2)

export const databaseBackups = (deps: DatabaseDeps): Sweep => ({
  name: 'database-backups',
  everyMs,
  async run({ now, signal }) {
    const ids = await backups.due(deps.db, lookEverySeconds, atOnce)
    let began = 0
    const failed: string[] = []
    for (const id of ids) {
      signal.throwIfAborted()
      const branch = await store.branch(deps.db, id)
      if (!branch) continue
      try {
        if (await lookAfter(deps, branch, now, signal)) began++
      } catch (err) {
        deps.log.warn({ err, branchId: id }, 'could not check the backups of a database')
        failed.push(id)
      }
    }
    return { looked: ids.length, began, failed: failed.length }
  },
})

/** The members of `pgbackrest info --output=json` that are used here (pgBackRest 2.45, command reference). */
const Info = Type.Array(
  Type.Object({
    status: Type.Object({
      code: Type.Integer(),
      message: Type.String(),
      lock: Type.Object({ backup: Type.Object({ held: Type.Boolean() }) }),
    }),
    backup: Type.Optional(
      Type.Array(
        Type.Object({
          type: Type.String(),
          error: Type.Optional(Type.Union([Type.Boolean(), Type.Null()])),
          timestamp: Type.Object({ start: Type.Integer(), stop: Type.Integer() }),
          info: Type.Object({ repository: Type.Object({ delta: Type.Integer() }) }),
        }),
      ),
    ),
  }),
)

export interface Repository {
  readonly newestAt: Date | null
  readonly backups: number
  readonly sizeBytes: number
  /** True while a backup is running. */
  readonly busy: boolean
}

/** Parses the output of `pgbackrest info`. @throws Error when the output has another format */
export function readRepository(json: string): Repository {
  const [stanza] = Value.Parse(Info, JSON.parse(json))
  const all = stanza?.backup ?? []
  const newest = Math.max(0, ...all.map(one => one.timestamp.stop))
  return {
    newestAt: newest === 0 ? null : new Date(newest * 1000),
    backups: all.length,
    sizeBytes: all.reduce((sum, one) => sum + one.info.repository.delta, 0),
    busy: stanza?.status.lock.backup.held ?? false,
  }
}

/**
 * Returns whether to start a backup: true if none is running, and the newest one is missing, too old, or older than the
 * last restore.
 * @param startedAt start of a backup that has not appeared in the repository yet
 * @param restoredAt when the branch was last restored
 */
export function backupDue(
  observed: Repository,
  at: { readonly startedAt: Date | null; readonly restoredAt: Date | null; readonly now: Date },
  everyHours: number,
): boolean {
  const nowMs = at.now.getTime()
  if (observed.busy || (at.startedAt !== null && nowMs - at.startedAt.getTime() < beginningMs)) return false
  if (observed.newestAt === null || (at.restoredAt !== null && observed.newestAt < at.restoredAt)) return true
  return nowMs - observed.newestAt.getTime() >= everyHours * 3_600_000
}

/** Checks the backups of a branch and starts one when it is due. Returns true when a backup was started. */
async function lookAfter(deps: DatabaseDeps, branch: Branch, now: Date, signal: AbortSignal): Promise<boolean> {
  const ran = await runInside(deps, branch, ['mote-backup', 'info'], signal, 30_000)
  if (!ran) return false
  const known = await backups.ofBranch(deps.db, branch.id)
  if (ran.exitCode !== 0) {
    const error = ran.stderr.trim().slice(-500) || 'cannot read its backups'
    await backups.record(deps.db, branch.id, { ...(known ?? nothing), error })
    return false
  }
  const all = readRepository(ran.stdout)
  const { restoredAt } = branch
  const usable = all.newestAt !== null && (restoredAt === null || all.newestAt >= restoredAt)
  const observed = { ...all, newestAt: usable ? all.newestAt : null }
  const state = (await runInside(deps, branch, ['mote-backup', 'state'], signal))?.stdout.split('\n') ?? []
  const failed = state.includes('failed')
  const finished = known?.startedAt && (failed || (observed.newestAt !== null && observed.newestAt >= known.startedAt))
  const error = failed ? 'The newest backup failed; see the log of the database.' : null
  // A backup that was started before the VM's last start has ended with the previous VM.
  const startedAt = finished || !state.includes('begun') ? null : (known?.startedAt ?? null)
  const due = backupDue(observed, { startedAt, restoredAt, now }, deps.config.databases.backupHours)
  await backups.record(deps.db, branch.id, { ...observed, error, startedAt: due ? wholeSecond(now) : startedAt })
  if (due)
    await runInside(deps, branch, ['mote-backup', 'start', 'full', String(deps.config.databases.backupsKept)], signal)
  return due
}

/** Rounds a time down to a whole second, because pgBackRest reports whole seconds. */
const wholeSecond = (at: Date) => new Date(Math.floor(at.getTime() / 1000) * 1000)

const nothing = { newestAt: null, backups: 0, sizeBytes: 0, startedAt: null }
