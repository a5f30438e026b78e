/**
 * The phase in which a new version gets a share of the requests, until it has failed or its time as a canary is over.
 */
import type { Tx } from '../../db/db.ts'
import { type Next, go, type Step, wait } from '../../engine/workflow.ts'
import { minutes, seconds } from '../../lib/duration.ts'
import { announce, isReported } from './announce.ts'
import { canaryEndsAt, endCanary, tooManyErrors } from './canary.ts'
import { explainFailure } from './failure.ts'
import { notifyLive } from './notices.ts'
import { changeReplicas, crashed, kept, replicaChanges } from './replica-changes.ts'
import { fail, takeOver, type WorkflowDeps } from './rollout-phases.ts'
import type { Deployment } from './store.ts'
import * as store from './store.ts'

/** Interval of checks in the phase. Every relevant change pokes the workflow; the checks cover lost pokes. */
const pollMs = minutes(1)

export async function canary(
  deps: WorkflowDeps,
  { subject: d, enteredAt, now }: Step<Deployment>,
): Promise<Next<'serving' | 'draining' | 'failing'>> {
  if (d.activeDeploymentId === d.id) return go('serving', promoted(d))
  if (d.activeRollout > d.rollout || d.hasNewerCanary || d.yields)
    return go('draining', async tx => {
      await endCanary(tx, d.id, 'cancelled')
      await announce(d)(tx)
    })
  const reason = await failureOf(deps, d)
  if (reason !== undefined) return go('failing', failCanary(d, reason), minutes(5))
  const endsAt = d.canary ? canaryEndsAt(d.canary, d.canaryStartedAt ?? enteredAt) : enteredAt
  const leftMs = endsAt.getTime() - now.getTime()
  const healthy = kept(d).filter(vm => vm.healthy).length
  // Without an active version (it was stopped or has failed), there is nothing to compare the canary with, so the
  // canary ends early.
  const isOver = leftMs <= 0 || d.activeDeploymentId === null
  if (isOver && healthy > 0 && healthy >= d.desiredReplicas) return go('serving', passCanary(d))
  const changes = replicaChanges(d, false)
  const againMs = leftMs > 0 ? Math.min(leftMs, pollMs) : seconds(5)
  if (changes.are === 'none' && isReported(d)) return wait(againMs)
  return wait(againMs, async tx => {
    await changeReplicas(deps, tx, d, changes)
    await announce(d)(tx)
  })
}

async function failureOf(deps: WorkflowDeps, d: Deployment): Promise<string | undefined> {
  const vms = kept(d)
  if (vms.some(crashed)) return `canary: ${await explainFailure(deps, d, 'crashed')}`
  const isUnhealthy = vms.some(vm => vm.observedState === 'running') && !vms.some(vm => vm.healthy || vm.migrating)
  if (isUnhealthy && d.want === 'running')
    return `canary: it became unhealthy. ${await explainFailure(deps, d, 'timeout')}`
  return d.canary ? tooManyErrors(d.canary, d.canaryRequests, d.canaryFailed) : undefined
}

const failCanary = (d: Deployment, reason: string) => async (tx: Tx) => {
  await endCanary(tx, d.id, 'failed')
  await fail(d, reason)(tx)
}

const passCanary = (d: Deployment) => async (tx: Tx) => {
  await endCanary(tx, d.id, 'passed')
  await takeOver(d)(tx)
}

/** Ends the canary as passed, because a user has activated it before its time was over. */
const promoted = (d: Deployment) => async (tx: Tx) => {
  await endCanary(tx, d.id, 'passed')
  await store.started(tx, d.id)
  await notifyLive(tx, d)
  await announce(d)(tx)
}
