/**
 * Scheduled snapshots of volumes: stores the schedules; a sweep takes the snapshots that are due and deletes the
 * oldest ones.
 */
import { type Sql, type Tx, statement } from '../../db/db.ts'
import type { Sweep } from '../../engine/sweep.ts'
import { minutes } from '../../lib/duration.ts'
import type { Deps } from '../base/deps.ts'
import { ApiError, invalidField } from '../http/errors.ts'
import { createVolumeSnapshot, deleteVolumeSnapshot } from './create.ts'
import * as snapshots from './snapshot-store.ts'

export interface Schedule {
  readonly everyMinutes: number
  /** Number of scheduled snapshots to keep. */
  readonly keep: number
}

const scheduleOf = statement<{ everyMinutes: number | null; keep: number | null }>(
  'volumes.schedule',
  `SELECT schedule_minutes AS "everyMinutes", schedule_keep AS keep FROM volume WHERE id = $1`,
)
const setScheduleOf = statement(
  'volumes.setSchedule',
  `UPDATE volume SET schedule_minutes = $2, schedule_keep = $3, updated_at = now() WHERE id = $1`,
)
// Skips volumes without a host, because they have no content yet.
const dueVolumes = statement<{ id: string; keep: number }>(
  'volumes.scheduleDue',
  `SELECT id, schedule_keep AS keep FROM volume
   WHERE schedule_minutes IS NOT NULL AND want = 'present' AND state = 'ready' AND host_id IS NOT NULL
     AND coalesce(scheduled_at, '-infinity') <= now() - make_interval(mins => schedule_minutes)
   ORDER BY scheduled_at NULLS FIRST LIMIT 200`,
)
const markScheduled = statement('volumes.scheduled', `UPDATE volume SET scheduled_at = now() WHERE id = $1`)

export async function getSchedule(sql: Sql, volumeId: string): Promise<Schedule | undefined> {
  const { everyMinutes, keep } = await sql.one(scheduleOf, [volumeId])
  return everyMinutes === null || keep === null ? undefined : { everyMinutes, keep }
}

const longestMinutes = 366 * 24 * 60
const mostKept = 100

/**
 * Sets the snapshot schedule of a volume. Undefined removes the schedule, but deletes no snapshots.
 * @throws ApiError 400 (field)
 */
export async function setSchedule(tx: Tx, volumeId: string, schedule: Schedule | undefined): Promise<void> {
  if (schedule && (schedule.everyMinutes < 15 || schedule.everyMinutes > longestMinutes))
    throw invalidField('every_minutes', `must be from 15 to ${longestMinutes}, or 0 for none`)
  if (schedule && (schedule.keep < 1 || schedule.keep > mostKept))
    throw invalidField('keep', `must be from 1 to ${mostKept}`)
  await tx.run(setScheduleOf, [volumeId, schedule?.everyMinutes ?? null, schedule?.keep ?? null])
}

export const scheduledSnapshots = (deps: Pick<Deps, 'db' | 'log'>): Sweep => ({
  name: 'volume-snapshots',
  everyMs: minutes(1),
  async run({ now }) {
    const counts = { due: 0, taken: 0, dropped: 0, refused: 0 }
    for (const { id, keep } of await deps.db.rows(dueVolumes)) {
      counts.due++
      try {
        counts.dropped += await deps.db.tx(tx => takeAndDrop(tx, id, keep, now))
        counts.taken++
      } catch (error) {
        // The volume is being restored, or has the maximum number of snapshots. The next run of the sweep tries again.
        if (!(error instanceof ApiError)) throw error
        counts.refused++
        deps.log.info({ volumeId: id, err: error }, 'could not take a scheduled snapshot in this round')
      }
    }
    return counts
  },
})

/**
 * Takes a snapshot and deletes all scheduled snapshots but the newest `keep`. Throws if one to be deleted is being
 * cloned; then a later run of the sweep retries both.
 */
async function takeAndDrop(tx: Tx, volumeId: string, keep: number, now: Date): Promise<number> {
  const name = `auto-${now.toISOString().slice(0, 16).replace(/[-:]/g, '').replace('T', '-')}`
  await createVolumeSnapshot(tx, volumeId, { name, kind: 'schedule' })
  await tx.run(markScheduled, [volumeId])
  const made = (await snapshots.list(tx, volumeId)).filter(one => one.kind === 'schedule')
  const excess = made.slice(keep)
  for (const { id } of excess) await deleteVolumeSnapshot(tx, id)
  return excess.length
}
