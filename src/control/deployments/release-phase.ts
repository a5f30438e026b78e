/**
 * The phase that runs the release command in a separate VM, with the new image, before any VM of the new version
 * serves.
 */
import { type Next, go, type Step, wait } from '../../engine/workflow.ts'
import { minutes } from '../../lib/duration.ts'
import { startRelease } from './release.ts'
import { cancelRelease, pokeRuns, releaseRun } from '../runs/index.ts'
import { announce } from './announce.ts'
import { fail, startReplicas, type WorkflowDeps } from './rollout-phases.ts'
import type { Deployment } from './store.ts'

/**
 * Interval of checks in this phase. The run of the release command pokes the workflow when it ends; the checks cover
 * lost pokes.
 */
const pollMs = minutes(1)

/**
 * Waits for the release command. If the command fails, the old version keeps serving. Once it has succeeded, a later
 * activation of the deployment does not repeat it.
 */
export async function releasing(
  { db }: Pick<WorkflowDeps, 'db'>,
  { subject: d }: Step<Deployment>,
): Promise<Next<'rolling' | 'draining' | 'failing'>> {
  if (d.activeRollout > d.rollout)
    return go('draining', async tx => {
      await cancelRelease(tx, d.id)
      await announce(d)(tx)
    })
  const run = await releaseRun(db, d.id)
  if (!run)
    return wait(pollMs, async tx => {
      await startRelease(tx, d)
      await announce(d)(tx)
    })
  if (run.outcome === null) return wait(pollMs, tx => pokeRuns(tx, d.id))
  if (run.outcome === 'succeeded') return go('rolling', startReplicas(d), minutes(30))
  const reason = run.error ?? `It was ${run.outcome === 'cancelled' ? 'cancelled' : run.outcome.replace('_', ' ')}.`
  return go('failing', fail(d, `The release command did not succeed. ${reason}`), minutes(5))
}
