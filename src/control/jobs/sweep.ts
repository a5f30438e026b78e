/**
 * The sweep that starts jobs when they are due. It runs in one process of the cluster at a time. The transaction that
 * creates a run also sets the next time, so a crash neither loses nor repeats a run.
 */
import type { Sweep } from '../../engine/sweep.ts'
import { hours, seconds } from '../../lib/duration.ts'
import type { Deps } from '../base/deps.ts'
import { nextTime } from './schedule.ts'
import { startDue } from './start.ts'
import * as store from './store.ts'

/** Time after the scheduled time within which a failed run is retried. */
const retryMs = hours(1)

export const dueJobs = ({ db, log }: Pick<Deps, 'db' | 'log'>): Sweep => ({
  name: 'jobs',
  everyMs: seconds(5),
  async run({ now, signal }) {
    let started = 0
    let skipped = 0
    const count = (note: string | null) => (note === null ? started++ : skipped++)
    const each = async (jobId: string, act: () => Promise<void>) => {
      try {
        if (!signal.aborted) await act()
      } catch (err) {
        // An error of one job must not delay the other jobs.
        log.error({ err, jobId }, 'cannot start a job')
      }
    }
    for (const id of await store.due(db, now))
      await each(id, () =>
        db.tx(async tx => {
          const job = await store.lock(tx, id)
          if (!job?.nextAt || job.nextAt > now) return
          // If several times were missed while no control plane was running, the job runs once.
          const note = await startDue(tx, job, job.nextAt, 1)
          await store.next(tx, id, nextTime(job.schedule, job.timeZone, now), note)
          count(note)
        }),
      )
    for (const { jobId, dueAt, attempt } of await store.failed(db, new Date(now.getTime() - retryMs)))
      await each(jobId, () =>
        db.tx(async tx => {
          const job = await store.lock(tx, jobId)
          if (job) count(await startDue(tx, job, dueAt, attempt + 1))
        }),
      )
    return { started, skipped }
  },
})
