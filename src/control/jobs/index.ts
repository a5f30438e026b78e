/** Jobs: commands that run on a schedule, each time in a separate VM. */
import { newId } from '../../lib/ids.ts'
import type { Deps } from '../base/deps.ts'
import { findApp } from '../deployments/index.ts'
import { invalidField, invalidState, notFound } from '../http/errors.ts'
import { feature } from '../http/operation.ts'
import { type Job, jobDefaults } from './resources.ts'
import { nextTime } from './schedule.ts'
import { jobOperations } from './schema.ts'
import { startJob } from './start.ts'
import * as store from './store.ts'

export { dueJobs } from './sweep.ts'

const mostJobs = 50

export const jobFeature = (deps: Pick<Deps, 'db' | 'clock'>) =>
  feature(jobOperations, {
    listJobs: {
      read: async ({ project, params }) => {
        if (!(await findApp(deps.db, project.id, params.app_name))) throw notFound()
        return (await store.ofApp(deps.db, project.id, params.app_name)).map(viewOf)
      },
    },
    putJob: {
      write: async call => {
        const { body, project, params } = call
        for (const argument of body.command)
          if (argument.includes('\0')) throw invalidField('command', 'must not contain NUL')
        const timeZone = body.time_zone ?? jobDefaults.timeZone
        const next = nextTime(body.schedule, timeZone, deps.clock.now())
        if (next === null) throw invalidField('schedule', 'must match a date that exists, unlike February 31')
        const paused = body.paused ?? false
        return async tx => {
          const app = await findApp(tx, project.id, params.app_name)
          if (!app) throw notFound()
          const known = await store.byName(tx, project.id, params.app_name, params.job_name)
          if (!known && (await store.count(tx, app.id)) >= mostJobs)
            throw invalidState(`An app can have at most ${mostJobs} jobs. Delete one first.`)
          await store.put(tx, {
            id: known?.id ?? newId(),
            projectId: project.id,
            appId: app.id,
            name: params.job_name,
            schedule: body.schedule,
            timeZone,
            command: body.command,
            overlap: body.overlap ?? jobDefaults.overlap,
            retries: body.retries ?? jobDefaults.retries,
            timeoutSeconds: body.timeout_seconds ?? jobDefaults.timeoutSeconds,
            paused,
            nextAt: paused ? null : next,
          })
          const job = await store.byName(tx, project.id, params.app_name, params.job_name)
          if (!job) throw new Error('BUG: the job was not written')
          call.audit({
            action: known ? 'job.update' : 'job.create',
            resourceType: 'app',
            resourceId: app.id,
            details: { job: job.name, schedule: job.schedule, program: job.command[0], paused },
          })
          return viewOf(job)
        }
      },
    },
    deleteJob: {
      write: async call => async tx => {
        const { project, params } = call
        const job = await store.byName(tx, project.id, params.app_name, params.job_name)
        if (!job) throw notFound()
        await store.remove(tx, job.id)
        call.audit({ action: 'job.delete', resourceType: 'app', resourceId: job.appId, details: { job: job.name } })
        return { status: 'deleted' as const }
      },
    },
    startJob: {
      write: async call => async tx => {
        const { project, params, caller } = call
        const job = await store.byName(tx, project.id, params.app_name, params.job_name)
        if (!job) throw notFound()
        const run_id = await startJob(tx, job, { dueAt: null, attempt: 1, accountId: caller.userId })
        call.audit({
          action: 'job.run',
          resourceType: 'app',
          resourceId: job.appId,
          details: { job: job.name, run_id },
        })
        return { run_id }
      },
    },
  })

const viewOf = (job: store.Job): Job => ({
  id: job.id,
  name: job.name,
  schedule: job.schedule,
  time_zone: job.timeZone,
  command: [...job.command],
  overlap: job.overlap,
  retries: job.retries,
  timeout_seconds: job.timeoutSeconds,
  paused: job.paused,
  next_at: job.nextAt?.toISOString() ?? null,
  note: job.note,
  created_at: job.createdAt.toISOString(),
  updated_at: job.updatedAt.toISOString(),
})
