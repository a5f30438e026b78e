/** Operations on runs, which are commands in separate VMs. */
import type { Sql } from '../../db/db.ts'
import type { Deps } from '../base/deps.ts'
import { claimVm, findActive, findApp, findDeployment, type Deployment, lockDeployment } from '../deployments/index.ts'
import { invalidField, invalidState, notFound } from '../http/errors.ts'
import { feature, type Handlers } from '../http/operation.ts'
import { cancelRun, createRun, lastLines, openRuns, type Run as StoredRun, runInApp, runsOfApp } from '../runs/index.ts'
import { defaultTimeoutSeconds, type Run } from './resources.ts'
import { runOperations } from './schema.ts'

/** Maximum number of runs of one project that have not ended. */
const mostOpen = 20

type RunDeps = Pick<Deps, 'db' | 'bus' | 'log'>

export const runFeature = (deps: RunDeps) => feature(runOperations, handlers(deps))

const handlers = (deps: RunDeps): Handlers<typeof runOperations> => ({
  startRun: {
    write: async call => {
      const { body, project, params, caller } = call
      for (const argument of body.command ?? [])
        if (argument.includes('\0')) throw invalidField('command', 'must not contain NUL')
      return async tx => {
        const found = await deploymentFor(tx, project.id, params.app_name, body.job_id ?? undefined)
        const d = await lockDeployment(tx, project.id, params.app_name, found.id)
        if (!d || d.want === 'deleted') throw notFound()
        if (d.image === '') throw invalidState('The image of the deployment is not built yet.')
        if ((await openRuns(tx, project.id)) >= mostOpen)
          throw invalidState(
            `A project can have at most ${mostOpen} open runs. Cancel one, or wait until one has ended.`,
          )
        const size = { vcpus: body.vcpus ?? d.vcpus, memoryMib: body.memory_mib ?? d.memoryMib }
        await claimVm(tx, project.id, d.appId, size)
        const command = body.command ?? null
        const id = await createRun(tx, {
          accountId: caller.userId,
          purpose: 'command',
          command,
          timeoutSeconds: body.timeout_seconds ?? defaultTimeoutSeconds,
          of: { ...d, ...size, deploymentId: d.id },
        })
        call.audit({
          action: 'run.start',
          resourceType: 'app',
          resourceId: d.appId,
          // The audit entry names only the program, because its arguments may contain secrets.
          details: { run_id: id, app: d.appName, program: command?.[0] ?? null },
        })
        const run = await runInApp(tx, project.id, params.app_name, id)
        if (!run) throw new Error('BUG: the run was not created')
        return viewOf(run)
      }
    },
  },
  listRuns: {
    read: async ({ project, params }) => {
      if (!(await findApp(deps.db, project.id, params.app_name))) throw notFound()
      return (await runsOfApp(deps.db, project.id, params.app_name)).map(viewOf)
    },
  },
  getRunLog: {
    read: async ({ project, params }) => {
      const run = await runInApp(deps.db, project.id, params.app_name, params.run_id)
      if (!run) throw notFound()
      return { text: run.log ?? (await lastLines(deps, run)) ?? '' }
    },
  },
  cancelRun: {
    write: async call => async tx => {
      const { project, params } = call
      const run = await runInApp(tx, project.id, params.app_name, params.run_id)
      if (!run) throw notFound()
      await cancelRun(tx, run.id)
      call.audit({
        action: 'run.cancel',
        resourceType: 'app',
        resourceId: run.appId,
        details: { run_id: run.id, app: params.app_name },
      })
      return { status: 'cancelling' as const }
    },
  },
})

async function deploymentFor(
  sql: Sql,
  projectId: string,
  appName: string,
  job: string | undefined,
): Promise<Pick<Deployment, 'id'>> {
  const d =
    job === undefined ? await findActive(sql, projectId, appName) : await findDeployment(sql, projectId, appName, job)
  if (d) return d
  if (job !== undefined || !(await findApp(sql, projectId, appName))) throw notFound()
  throw invalidState('The app has no active deployment. Deploy it first, or name a deployment with job_id.')
}

type ListedRun = Omit<StoredRun, 'sessions'>

const viewOf = (run: ListedRun): Run => ({
  id: run.id,
  job_id: run.jobId,
  purpose: run.purpose,
  job_name: run.jobName,
  due_at: run.dueAt?.toISOString() ?? null,
  attempt: run.attempt,
  command: run.command === null ? null : [...run.command],
  status: statusOf(run),
  exit_code: run.exitCode,
  error: run.error,
  vm_id: run.vm?.id ?? null,
  timeout_seconds: run.timeoutSeconds,
  started_by: run.accountId,
  created_at: run.createdAt.toISOString(),
  started_at: run.startedAt?.toISOString() ?? null,
  ended_at: run.endedAt?.toISOString() ?? null,
})

function statusOf({ outcome, startedAt, vm }: ListedRun): Run['status'] {
  if (outcome) return outcome
  if (startedAt) return 'running'
  return vm?.hostId ? 'starting' : 'pending'
}
