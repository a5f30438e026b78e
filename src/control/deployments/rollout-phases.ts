/** The phases of a deployment that starts and serves. */
import type { Tx } from '../../db/db.ts'
import { type Next, done, go, type Step, wait } from '../../engine/workflow.ts'
import { poke, pokeMany } from '../../engine/runner.ts'
import { minutes, seconds } from '../../lib/duration.ts'
import { newId } from '../../lib/ids.ts'
import type { Deps } from '../base/deps.ts'
import { refreshRoute } from '../routing/index.ts'
import { createVm, setVmsWant } from '../vms/index.ts'
import { announce, announceById, isReported } from './announce.ts'
import { pokeOthers } from './end-phases.ts'
import { releaseDeadlineMs } from './release.ts'
import { explainFailure } from './failure.ts'
import { notifyFailed, notifyLive, recordFinished } from './notices.ts'
import { changeReplicas, crashed, idsOf, kept, removeVms, replicaChanges } from './replica-changes.ts'
import { replacementPauseMs } from './replicas.ts'
import { finishedSome, hasFinished } from './restart.ts'
import type { Deployment, DeploymentVm } from './store.ts'
import { startCanary, startsAsCanary } from './canary.ts'
import { awaitsPlace, creatable, yieldPlaces } from './one-at-a-time.ts'
import * as active from './active-store.ts'
import * as store from './store.ts'

export type WorkflowDeps = Pick<Deps, 'db' | 'bus' | 'config' | 'log'>

/** Interval of checks in these phases. Every relevant change pokes the workflow; the checks cover lost pokes. */
const pollMs = minutes(1)

/**
 * The phase that waits for the build, which pokes this workflow when it ends. The VMs are created in the commit that
 * sets the image, so the plan's limits are not exceeded.
 */
export async function building({ subject: d }: Step<Deployment>): Promise<Next<'rolling' | 'releasing' | 'failing'>> {
  if (d.outcome) return done(announce(d))
  if (d.image !== '') return go('rolling', announce(d), minutes(30))
  const image = d.build?.state === 'succeeded' ? d.build.image : null
  if (image && d.releaseCommand) return go('releasing', setImage(d, image), releaseDeadlineMs)
  if (image) return go('rolling', rollOut(d, image), minutes(30))
  if (d.build?.isBusy) return wait(pollMs, announce(d))
  return go('failing', fail(d, d.build?.error ?? 'The build ended without an image.'), minutes(5))
}

export async function rolling(
  deps: WorkflowDeps,
  { subject: d, enteredAt, now }: Step<Deployment>,
): Promise<Next<'serving' | 'canary' | 'draining' | 'failing'>> {
  if (d.activeRollout > d.rollout) return go('draining', announce(d))
  if (d.yields) return wait(pollMs, tx => yieldPlaces(tx, d))
  // Only a worker's program may end with code 0. A web app's program has to serve requests, so any exit is a failure.
  const isDone = (vm: DeploymentVm) => d.appKind === 'worker' && hasFinished(d, vm)
  const isLost = kept(d).some(vm => crashed(vm) && !isDone(vm))
  if (isLost) return go('failing', fail(d, await explainFailure(deps, d, 'crashed')), minutes(5))
  const good = kept(d).filter(vm => vm.healthy || isDone(vm)).length
  if (good >= d.desiredReplicas && good > 0) {
    if (!startsAsCanary(d)) return go('serving', takeOver(d))
    return go('canary', startCanary(d), seconds(d.canary.seconds) + minutes(30))
  }
  const leftMs = rolloutLeftMs(d, enteredAt, now, seconds(deps.config.rolloutTimeoutSeconds))
  if (leftMs <= 0) return go('failing', fail(d, await explainFailure(deps, d, 'timeout')), minutes(5))
  const changes = replicaChanges(d, false)
  const isPlaced = d.scheduledAt === null && kept(d).some(vm => vm.hostId)
  // With `one-at-a-time`, the route and the other deployments are updated in each step, because VMs of the old version
  // are removed while VMs of the new version start.
  const isTaking = d.strategy === 'one-at-a-time'
  if (changes.are === 'none' && !isPlaced && isReported(d) && !isTaking) return wait(Math.min(leftMs, pollMs))
  return wait(Math.min(leftMs, pollMs), async tx => {
    await changeReplicas(deps, tx, d, changes)
    if (isPlaced) await store.scheduled(tx, d.id)
    if (isTaking) {
      await refreshRoute(tx, d.appId)
      await pokeOthers(tx, d)
    }
    await announce(d)(tx)
  })
}

export async function serving(
  deps: WorkflowDeps,
  { subject: d, now }: Step<Deployment>,
): Promise<Next<'suspending' | 'draining' | 'failing'>> {
  if (d.activeDeploymentId !== d.id) return go('draining', announce(d), seconds(d.drainSeconds) + minutes(5))
  if (d.yields)
    return wait(pollMs, async tx => {
      await yieldPlaces(tx, d)
      await announce(d)(tx)
    })
  if (d.scaleState === 'idle') return go('suspending', announce(d), minutes(5))
  const vms = kept(d)
  const finished = vms.filter(vm => hasFinished(d, vm))
  const finishedVms = d.finished + finished.length
  if (finishedVms > 0 && finishedVms >= d.desiredReplicas) return go('failing', finish(d), minutes(5))
  if (finished.length > 0)
    return wait(0, async tx => {
      await setVmsWant(tx, idsOf(finished), 'absent')
      await finishedSome(tx, d.id, finished.length)
    })
  if (vms.length > 0 && vms.every(crashed))
    return go('failing', fail(d, await explainFailure(deps, d, 'crashed')), minutes(5))
  const pauseMs = replacementPauseMs(d.replaced, d.replacedAt ? now.getTime() - d.replacedAt.getTime() : undefined)
  const againMs = pauseMs > 0 && vms.some(crashed) ? Math.min(pauseMs, pollMs) : pollMs
  const changes = replicaChanges(d, pauseMs === 0 && d.restart?.policy !== 'never')
  const want = d.want === 'paused' ? 'paused' : 'running'
  const unaware = vms.filter(vm => vm.want !== want)
  if (changes.are === 'none' && unaware.length === 0 && isReported(d)) return wait(againMs)
  return wait(againMs, async tx => {
    await changeReplicas(deps, tx, d, changes)
    await setVmsWant(tx, idsOf(unaware), want)
    await announce(d)(tx)
  })
}

/**
 * Returns the time that the rollout has left. There is no limit while some VMs wait for capacity and all others are
 * healthy: the app is not at fault, and the phase's alert notifies the operator.
 */
function rolloutLeftMs(d: Deployment, enteredAt: Date, now: Date, rolloutMs: number): number {
  const vms = kept(d)
  if (awaitsPlace(d)) return Number.POSITIVE_INFINITY
  // With the strategy `one-at-a-time`, waiting for capacity is limited, too: the old VM is gone, so nothing serves
  // until the rollout fails and the old version is restored.
  const waits = d.strategy === 'rolling' && vms.some(vm => vm.hostId === null)
  if (waits && vms.every(vm => vm.hostId === null || vm.healthy)) return Number.POSITIVE_INFINITY
  return (
    Math.max(enteredAt.getTime(), d.placedAt?.getTime() ?? 0, d.newestVmAt?.getTime() ?? 0) + rolloutMs - now.getTime()
  )
}

const setImage = (d: Deployment, image: string) => async (tx: Tx) => {
  if (!(await store.built(tx, d.id, image))) throw new Error('the deployment already has an image')
  await announceById(tx, d.id)
}

const rollOut = (d: Deployment, image: string) => async (tx: Tx) => {
  if (!(await store.built(tx, d.id, image))) throw new Error('the deployment already has an image')
  await startReplicas(d)(tx)
}

/** Creates the VMs of a deployment that has an image. */
export const startReplicas = (d: Deployment) => async (tx: Tx) => {
  const count = await creatable(tx, d.appId, Math.max(d.desiredReplicas, 1))
  for (let n = 0; n < count; n++) await createVm(tx, { ...d, id: newId(), deploymentId: d.id })
  await pokeMany(tx, 'deployment', await store.othersAlive(tx, d.appId, d.id))
  await announceById(tx, d.id)
}

/**
 * Makes the deployment active: from this commit on, requests are routed to it, and the previous deployment starts to
 * drain.
 */
export const takeOver = (d: Deployment) => async (tx: Tx) => {
  if (!(await active.makeActive(tx, d.id))) throw new Error('a later rollout became active in the meantime')
  await store.started(tx, d.id)
  await refreshRoute(tx, d.appId)
  for (const other of await store.othersAlive(tx, d.appId, d.id)) await poke(tx, 'deployment', other)
  await notifyLive(tx, d)
  await announceById(tx, d.id)
}

export const fail = (d: Deployment, reason: string) => async (tx: Tx) => {
  await notifyFailed(tx, d, reason)
  await end(tx, d, 'failed', reason)
}

/** Stops a deployment because the programs of all its VMs have ended and are not to be restarted. */
const finish = (d: Deployment) => async (tx: Tx) => {
  const reason = `The program exited with code 0, and the restart policy is ${d.restart?.policy ?? 'always'}.`
  recordFinished(tx, d)
  await end(tx, d, 'stopped', reason)
}

async function end(tx: Tx, d: Deployment, outcome: 'failed' | 'stopped', reason: string): Promise<void> {
  await store.end(tx, d.id, outcome, reason)
  await active.clearActive(tx, d.appId, d.id)
  await removeVms(tx, d)
  await pokeOthers(tx, d)
  await refreshRoute(tx, d.appId)
  await announceById(tx, d.id)
}
