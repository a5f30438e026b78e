/** The phases of a deployment that is taken down: superseded, failed, stopped or deleted. */
import type { Tx } from '../../db/db.ts'
import { type Next, done, go, type Step, wait } from '../../engine/workflow.ts'
import { poke, pokeMany } from '../../engine/runner.ts'
import { minutes, seconds } from '../../lib/duration.ts'
import { refreshRoute } from '../routing/index.ts'
import { releaseDeadlineMs, startRelease } from './release.ts'
import { cancelRelease, pokeRuns } from '../runs/index.ts'
import { dropRuntimeAttachments, dropSnapshots, setVmsWant } from '../vms/index.ts'
import { announce, announceById, publishStatus } from './announce.ts'
import { idsOf, kept, removeVms } from './replica-changes.ts'
import type { Deployment, DeploymentVm } from './store.ts'
import * as active from './active-store.ts'
import * as store from './store.ts'

/** Interval of checks in these phases. Every relevant change pokes the workflow; the checks cover lost pokes. */
const pollMs = minutes(1)

/**
 * The phase of a superseded deployment: no new requests are routed to it, and running requests may finish. If it is
 * activated again, it keeps serving.
 */
export async function draining({
  subject: d,
  enteredAt,
  now,
}: Step<Deployment>): Promise<Next<'serving' | 'rolling' | 'releasing'>> {
  if (d.activeDeploymentId === d.id) return go('serving', announce(d))
  if (d.reactivated) return rollAgain(d)
  const leftMs = enteredAt.getTime() + seconds(d.drainSeconds) - now.getTime()
  if (leftMs > 0 && kept(d).length > 0) return wait(leftMs)
  if (d.vms.length > 0) return wait(pollMs, tx => removeVms(tx, d))
  return done(async tx => {
    await dropSnapshots(tx, d.id, 'sleep')
    await dropRuntimeAttachments(tx, d.id)
    await store.end(tx, d.id, 'superseded')
    await announceById(tx, d.id)
  })
}

export async function failing({ subject: d }: Step<Deployment>): Promise<Next<'rolling' | 'releasing'>> {
  if (d.outcome === null) return rollAgain(d)
  if (d.vms.length > 0) return wait(pollMs, tx => removeVms(tx, d))
  return done(async tx => {
    await dropRuntimeAttachments(tx, d.id)
    await announce(d)(tx)
  })
}

export async function stopping({ subject: d }: Step<Deployment>): Promise<Next<'rolling' | 'releasing'>> {
  if (d.outcome === null && d.appWant === 'live' && (d.want === 'running' || d.want === 'paused')) return rollAgain(d)
  const { build } = d
  if (build?.isBusy) return wait(pollMs, tx => poke(tx, 'build', build.id))
  if (d.vms.length > 0 || d.hasRelease)
    return wait(pollMs, async tx => {
      await cancelRelease(tx, d.id)
      await active.clearActive(tx, d.appId, d.id)
      await removeVms(tx, d)
      await refreshRoute(tx, d.appId)
      await announce(d)(tx)
    })
  const isDeleted = d.want === 'deleted' || d.appWant === 'deleted'
  if (isDeleted && d.hasRuns) return wait(pollMs, tx => pokeRuns(tx, d.id))
  return done(async tx => {
    await active.clearActive(tx, d.appId, d.id)
    await dropSnapshots(tx, d.id, 'sleep')
    await dropRuntimeAttachments(tx, d.id)
    await pokeOthers(tx, d)
    if (isDeleted) {
      await dropSnapshots(tx, d.id, null)
      await publishStatus(tx, d, 'deleted')
      await store.remove(tx, d.id)
    } else {
      await store.end(tx, d.id, d.startedAt === null ? 'cancelled' : 'stopped')
      await announceById(tx, d.id)
    }
    await refreshRoute(tx, d.appId)
    await poke(tx, 'app', d.appId)
  })
}

/**
 * Pokes the other deployments of an exclusive app (one-at-a-time.ts), which have removed VMs to make room for this
 * deployment.
 */
export async function pokeOthers(tx: Tx, d: Deployment): Promise<void> {
  if (d.exclusive) await pokeMany(tx, 'deployment', await store.othersAlive(tx, d.appId, d.id))
}

/**
 * Starts the rollout of a deployment that was activated while it was taken down. Healthy VMs keep serving; new VMs
 * replace the others.
 */
const rollAgain = (d: Deployment): Next<'rolling' | 'releasing'> =>
  go(
    d.isReleased ? 'rolling' : 'releasing',
    async tx => {
      const isWell = (vm: DeploymentVm) => vm.healthy && vm.want === 'running'
      if (!kept(d).some(isWell)) await active.clearActive(tx, d.appId, d.id)
      await dropSnapshots(tx, d.id, 'sleep')
      await setVmsWant(tx, idsOf(kept(d).filter(vm => !isWell(vm))), 'absent')
      await store.rollingAgain(tx, d.id)
      // The release command runs again, because it has failed or was cancelled.
      if (!d.isReleased) await startRelease(tx, d)
      await refreshRoute(tx, d.appId)
      await announceById(tx, d.id)
    },
    d.isReleased ? minutes(30) : releaseDeadlineMs,
  )
