/** Runs the autoscaler on the load that hosts report, and writes the desired numbers of replicas to the database. */
import { pokeMany } from '../../engine/runner.ts'
import type { Sweep } from '../../engine/sweep.ts'
import { seconds } from '../../lib/duration.ts'
import type { Deps } from '../base/deps.ts'
import { replicasFit } from '../deployments/index.ts'
import type { LiveStats } from '../hosts/index.ts'
import { type LoadSample, autoscale, keepMs } from './decide.ts'
import * as store from './store.ts'

type AutoscalerDeps = Pick<Deps, 'db'> & {
  readonly live: LiveStats
  readonly config: Pick<Deps['config'], 'requestsPerReplica'>
}

/**
 * The autoscaler sweep. Keeps its samples in memory, so a control plane that takes over the sweep collects samples for
 * a while before it acts.
 */
export const autoscaler = (deps: AutoscalerDeps): Sweep => {
  const { requestsPerReplica } = deps.config
  const history = new Map<string, LoadSample[]>()
  return {
    name: 'autoscaler',
    everyMs: seconds(5),
    async run({ now }) {
      const apps = await store.scaled(deps.db)
      const known = new Set(apps.map(app => app.deploymentId))
      for (const id of history.keys()) if (!known.has(id)) history.delete(id)
      let changed = 0
      for (const app of apps) {
        const samples = remember(history, app.deploymentId, measure(deps.live, app, now.getTime()), now.getTime())
        const lastChangeMs = app.scaledAt?.getTime()
        const wanted = autoscale({ ...app, requestsPerReplica, nowMs: now.getTime(), samples, lastChangeMs })
        if (wanted !== app.desired && (await apply(deps, app, wanted))) changed++
      }
      return { apps: apps.length, changed }
    },
  }
}

/**
 * Returns the mean load of an app's VMs. Undefined while any of them has no metrics, because a mean over some VMs would
 * be misleading.
 */
function measure(live: LiveStats, app: store.ScaledApp, atMs: number): LoadSample | undefined {
  const stats = app.vmIds.flatMap(id => live.get(id) ?? [])
  if (stats.length === 0 || stats.length < app.vmIds.length) return undefined
  const mean = (pick: (s: (typeof stats)[number]) => number) =>
    stats.reduce((sum, s) => sum + pick(s), 0) / stats.length
  const memory = mean(s => (s.ramUsedBytes / (app.memoryMib * 2 ** 20)) * 100)
  return { atMs, cpu: mean(s => s.cpuUsage), memory, requests: live.requests.open(app.id, atMs) / stats.length }
}

function remember(
  history: Map<string, LoadSample[]>,
  id: string,
  sample: LoadSample | undefined,
  nowMs: number,
): LoadSample[] {
  const kept = (history.get(id) ?? []).filter(one => one.atMs > nowMs - keepMs)
  if (sample) kept.push(sample)
  history.set(id, kept)
  return kept
}

/**
 * Writes the desired number of replicas. Returns false if the project's plan does not allow that many, or if the
 * number was changed since it was read.
 */
const apply = (deps: AutoscalerDeps, app: store.ScaledApp, wanted: number): Promise<boolean> =>
  deps.db.tx(async tx => {
    if (wanted > app.desired && !(await replicasFit(tx, app.projectId, app.deploymentId, wanted - app.desired)))
      return false
    if (!(await store.scale(tx, app.id, app.desired, wanted))) return false
    await pokeMany(tx, 'deployment', [app.deploymentId])
    return true
  })
