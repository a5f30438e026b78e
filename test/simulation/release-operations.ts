/** Random operations on rollouts (strategies, canaries), runs of commands, and scheduled jobs. */
import { expect } from 'vitest'
import { addCanaryCounts, findDeployment } from '../../src/control/deployments/index.ts'
import { dueJobs } from '../../src/control/jobs/index.ts'
import { put as putJob } from '../../src/control/jobs/store.ts'
import { cancelRun, createRun } from '../../src/control/runs/index.ts'
import { newId } from '../../src/lib/ids.ts'
import type { TestApp } from '../support/compute.ts'
import type { Operation } from './operations.ts'
import type { Simulation } from './simulation.ts'

/** An image whose program crashes on every simulated host. */
export const brokenImage = 'example/broken:1'

export const commandsOfRuns: ReadonlySet<string> = new Set(['work', 'report'])

const canary = JSON.stringify({ percent: 10, seconds: 60, max_error_percent: 5, min_requests: 20 })

/** Chooses how an app's VMs are replaced: one at a time, with a canary, or the default. */
export async function chooseStrategy({ world, random }: Simulation, { id }: TestApp): Promise<void> {
  const dice = random.next()
  if (dice < 0.3) await world.rows(`UPDATE app SET strategy = 'one-at-a-time' WHERE id = $1 RETURNING id`, id)
  else if (dice < 0.6) await world.rows(`UPDATE app SET canary = $2 WHERE id = $1 RETURNING id`, id, canary)
}

interface DueJob {
  readonly id: string
  readonly due: string
}
interface Tick {
  readonly runs: number
  readonly note: string | null
  readonly waits: boolean
}

/** Starts due jobs, twice concurrently, as two control planes would. */
async function sweepJobs({ world }: Simulation): Promise<void> {
  const sweep = dueJobs(world.deps)
  const moment = { signal: new AbortController().signal, now: new Date() }
  await Promise.all([sweep.run(moment), sweep.run(moment)])
}

async function tick(sim: Simulation): Promise<void> {
  const { world, random } = sim
  const job = random.pick(await world.rows<{ id: string }>(`SELECT id FROM job ORDER BY id`))
  if (!job) return
  const [due] = await world.rows<DueJob>(
    // Set a different due time on each call, because a job has at most one run for each due time.
    `UPDATE job SET next_at = timestamptz '2020-01-01 UTC' + make_interval(secs => $2), note = NULL FROM app a
     WHERE job.id = $1 AND a.id = app_id AND a.want = 'live' RETURNING job.id, next_at::text AS due`,
    job.id,
    sim.history.length,
  )
  if (!due) return
  await sweepJobs(sim)
  const [seen] = await world.rows<Tick>(
    `SELECT (SELECT count(*)::int FROM run WHERE job_id = j.id AND due_at = $2::timestamptz AND attempt = 1) AS runs,
       j.note, j.next_at <= now() AS waits FROM job j WHERE j.id = $1`,
    due.id,
    due.due,
  )
  if (!seen || seen.waits || seen.runs !== (seen.note === null ? 1 : 0))
    expect(seen, 'a time of a job without exactly one run, or a reason for none').toBeUndefined()
}

export const releaseOperations: readonly Operation[] = [
  [
    'deploy a broken version',
    1,
    async sim => {
      const app = sim.random.pick(sim.apps)
      const alive =
        app && (await sim.world.rows(`SELECT id FROM deployment WHERE app_id = $1 AND outcome IS NULL`, app.id))
      if (app && alive?.length === 1) await sim.world.deploy(app, { image: brokenImage, replicas: 1 })
    },
  ],
  [
    'requests to a canary',
    3,
    async sim => {
      const found = await sim.world.rows<{ id: string }>(
        `SELECT id FROM deployment WHERE canary_state = 'running' ORDER BY id`,
      )
      const one = sim.random.pick(found)
      const failed = sim.random.chance(0.5) ? 50 : 0
      if (one) await sim.world.db.tx(tx => addCanaryCounts(tx, [{ deploymentId: one.id, requests: 100, failed }]))
    },
  ],
  [
    'run a command',
    1,
    async sim => {
      const active = await sim.world.rows<{ id: string; name: string }>(
        `SELECT d.id, a.name FROM app a JOIN deployment d ON d.id = a.active_deployment_id WHERE a.want = 'live' ORDER BY a.id`,
      )
      const one = sim.random.pick(active)
      if (!one) return
      await sim.world.db.tx(async tx => {
        const d = await findDeployment(tx, sim.world.projectId, one.name, one.id)
        if (!d) return
        const of = { ...d, deploymentId: d.id }
        await createRun(tx, { accountId: null, purpose: 'command', command: ['work'], timeoutSeconds: 60, of })
      })
    },
  ],
  [
    'cancel a run',
    1,
    async sim => {
      const one = sim.random.pick(
        await sim.world.rows<{ id: string }>(`SELECT id FROM run WHERE ended_at IS NULL ORDER BY id`),
      )
      if (one) await sim.world.db.tx(tx => cancelRun(tx, one.id))
    },
  ],
  [
    'set a job',
    2,
    async sim => {
      const app = sim.random.pick(sim.apps)
      if (!app) return
      const overlap = sim.random.pick(['skip', 'allow', 'replace'] as const) ?? 'skip'
      // A day from now, so that the job never becomes due by itself: `tick` sets due times, so that the simulation does
      // not depend on the clock.
      const nextAt = new Date(Date.now() + 86_400_000)
      const job = { id: newId(), projectId: sim.world.projectId, appId: app.id, name: 'report', nextAt, overlap }
      const when = { schedule: '0 0 1 1 *', timeZone: 'UTC', command: ['report'], retries: 1, timeoutSeconds: 60 }
      await sim.world.db.tx(tx => putJob(tx, { ...job, ...when, paused: false }))
    },
  ],
  ['the time of a job comes', 3, tick],
]
