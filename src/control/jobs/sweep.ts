/**
 * Starts jobs when their time has come. One process of the cluster sweeps at a time; the transaction that creates the
 * run also sets the next time, so a crash neither loses nor repeats a run.
 */
import type { Sweep } from '../../engine/sweep.ts'
import { hours, seconds } from '../../lib/duration.ts'
import type { Deps } from '../base/deps.ts'
import { nextTime } from './schedule.ts'
import { startDue } from './start.ts'
import * as store from './store.ts'

/** Attempts that ended earlier are not repeated. */
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
        // The others must not wait for this one.
        log.error({ err, jobId }, 'cannot start a job')
      }
    }
    for (const id of await store.due(db, now))
      await each(id, () =>
        db.tx(async tx => {
          const job = await store.lock(tx, id)
          if (!job?.nextAt || job.nextAt > now) return
          // Times that were missed, while no control plane ran, are one run.
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
