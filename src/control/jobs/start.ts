/** Starts the runs of a job. */
import type { Tx } from '../../db/db.ts'
import { claimVm, findActive, lockDeployment } from '../deployments/index.ts'
import { ApiError, invalidState } from '../http/errors.ts'
import { cancelRun, createRun } from '../runs/index.ts'
import * as store from './store.ts'

export interface When {
  /** Time of the schedule for which the run is started; null if it was started by hand. */
  readonly dueAt: Date | null
  readonly attempt: number
  readonly accountId: string | null
}

/**
 * Starts a run of the job.
 * @returns the id of the run
 * @throws ApiError when the app or the project cannot have another run now
 */
export async function startJob(tx: Tx, job: store.Job, when: When): Promise<string> {
  const { projectId, appId, appName, command, timeoutSeconds } = job
  const active = await findActive(tx, projectId, appName)
  const d = active && (await lockDeployment(tx, projectId, appName, active.id))
  if (!d || d.image === '') throw invalidState('The app has no active deployment. Deploy it first.')
  await claimVm(tx, projectId, appId, d)
  return createRun(tx, {
    accountId: when.accountId,
    purpose: 'job',
    command,
    timeoutSeconds,
    job: { id: job.id, dueAt: when.dueAt, attempt: when.attempt },
    of: { ...d, deploymentId: d.id },
  })
}

/**
 * Starts the run for one time of the schedule, as far as the job's overlap policy allows it.
 * @returns the reason why there is no run; null if it was started
 */
export async function startDue(tx: Tx, job: store.Job, dueAt: Date, attempt: number): Promise<string | null> {
  const open = job.overlap === 'allow' ? [] : await store.open(tx, job.id)
  // A retry for an earlier time must not replace the run for a later time.
  if (open.length > 0 && (job.overlap === 'skip' || attempt > 1)) return 'Skipped: the previous run had not ended.'
  for (const id of open) await cancelRun(tx, id)
  try {
    await startJob(tx, job, { dueAt, attempt, accountId: null })
    return null
  } catch (cause) {
    if (cause instanceof ApiError) return `Skipped: ${cause.message}`
    throw cause
  }
}
