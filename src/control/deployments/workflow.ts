/**
 * The workflow of a deployment: starts its VMs beside the current deployment, switches the route once they are healthy,
 * keeps as many as the app wants, and finally takes them down: superseded, stopped, failed or deleted.
 */
import type { Tx } from '../../db/db.ts'
import { type Next, done, go, workflow, wait } from '../../engine/workflow.ts'
import { poke, pokeMany } from '../../engine/runner.ts'
import { minutes, seconds } from '../../lib/duration.ts'
import { newId } from '../../lib/ids.ts'
import type { Deps } from '../base/deps.ts'
import { refreshRoute } from '../routing/index.ts'
import { createVm, dropRuntimeAttachments, dropSnapshots, setVmsWant } from '../vms/index.ts'
import { announce, announceById, isReported, publishStatus } from './announce.ts'
import { explainFailure } from './failure.ts'
import { moveAway } from './moves.ts'
import { notifyFailed, notifyLive } from './notices.ts'
import { planReplicas, quietMs, type ReplicaPlan, replacementPauseMs } from './replicas.ts'
import { sleeping, suspending, waking } from './sleep.ts'
import type { Deployment, DeploymentVm } from './store.ts'
import * as store from './store.ts'

/** Every relevant change pokes the workflow; this poll covers lost pokes. */
const lookAgainMs = minutes(1)

const kept = (d: Deployment) => d.vms.filter(vm => vm.want !== 'absent')
const idsOf = (vms: readonly DeploymentVm[]) => vms.map(vm => vm.id)
const crashed = (vm: DeploymentVm) => vm.observedState === 'crashed'

export const deploymentWorkflow = (deps: Pick<Deps, 'db' | 'bus' | 'config' | 'log'>) => {
  const rolloutMs = seconds(deps.config.rolloutTimeoutSeconds)

  return workflow<Deployment>()({
    kind: 'deployment',
    edges: {
      building: ['rolling', 'failing', 'stopping'],
      rolling: ['serving', 'draining', 'failing', 'stopping'],
      serving: ['suspending', 'draining', 'failing', 'stopping'],
      suspending: ['serving', 'sleeping', 'stopping'],
      sleeping: ['serving', 'waking', 'stopping'],
      waking: ['serving', 'sleeping', 'stopping'],
      draining: ['serving', 'rolling', 'stopping'],
      failing: ['rolling', 'stopping'],
      stopping: ['rolling'],
    },
    load: id => store.byId(deps.db, id),
    hold: (tx, d) => store.holdAsObserved(tx, d),
    preempt: d => (d.want === 'stopped' || d.want === 'deleted' || d.appWant === 'deleted' ? 'stopping' : undefined),
    phases: {
      /**
       * Waits for the build, which pokes. The VMs are created in the commit that sets the image, so the plan's limits
       * stay respected.
       */
      async building({ subject: d }): Promise<Next<'rolling' | 'failing'>> {
        if (d.outcome) return done(announce(d))
        if (d.image !== '') return go('rolling', announce(d), minutes(30))
        const image = d.build?.state === 'succeeded' ? d.build.image : null
        if (image) return go('rolling', rollOut(d, image), minutes(30))
        if (d.build?.isBusy) return wait(lookAgainMs, announce(d))
        return go('failing', fail(d, d.build?.error ?? 'The build ended without an image.'), minutes(5))
      },

      async rolling({ subject: d, enteredAt, now }): Promise<Next<'serving' | 'draining' | 'failing'>> {
        if (d.activeRollout > d.rollout) return go('draining', announce(d))
        if (d.yields) return wait(lookAgainMs, tx => removeVms(tx, d))
        if (kept(d).some(crashed)) return go('failing', fail(d, await explainFailure(deps, d, 'crashed')), minutes(5))
        const healthy = kept(d).filter(vm => vm.healthy).length
        if (healthy >= d.desiredReplicas && healthy > 0) return go('serving', takeOver(d))
        const leftMs = rolloutLeftMs(d, enteredAt, now, rolloutMs)
        if (leftMs <= 0) return go('failing', fail(d, await explainFailure(deps, d, 'timeout')), minutes(5))
        const changes = replicaChanges(d, false)
        const isPlaced = d.scheduledAt === null && kept(d).some(vm => vm.hostId)
        if (changes.are === 'none' && !isPlaced && isReported(d)) return wait(Math.min(leftMs, lookAgainMs))
        return wait(Math.min(leftMs, lookAgainMs), async tx => {
          await changeReplicas(deps, tx, d, changes)
          if (isPlaced) await store.scheduled(tx, d.id)
          await announce(d)(tx)
        })
      },

      async serving({ subject: d, now }): Promise<Next<'suspending' | 'draining' | 'failing'>> {
        if (d.activeDeploymentId !== d.id) return go('draining', announce(d), seconds(d.drainSeconds) + minutes(5))
        if (d.yields)
          return wait(lookAgainMs, async tx => {
            await removeVms(tx, d)
            await announce(d)(tx)
          })
        if (d.scaleState === 'idle') return go('suspending', announce(d), minutes(5))
        const vms = kept(d)
        if (vms.length > 0 && vms.every(crashed))
          return go('failing', fail(d, await explainFailure(deps, d, 'crashed')), minutes(5))
        const pauseMs = replacementPauseMs(
          d.replaced,
          d.replacedAt ? now.getTime() - d.replacedAt.getTime() : undefined,
        )
        const againMs = pauseMs > 0 && vms.some(crashed) ? Math.min(pauseMs, lookAgainMs) : lookAgainMs
        const changes = replicaChanges(d, pauseMs === 0)
        const want = d.want === 'paused' ? 'paused' : 'running'
        const unaware = vms.filter(vm => vm.want !== want)
        if (changes.are === 'none' && unaware.length === 0 && isReported(d)) return wait(againMs)
        return wait(againMs, async tx => {
          await changeReplicas(deps, tx, d, changes)
          await setVmsWant(tx, idsOf(unaware), want)
          await announce(d)(tx)
        })
      },

      suspending: moment => suspending(moment, deps.config),
      sleeping,
      waking,

      /**
       * Superseded: no new requests are routed to it, and running requests may finish. If it is activated again, it
       * keeps serving.
       */
      async draining({ subject: d, enteredAt, now }): Promise<Next<'serving' | 'rolling'>> {
        if (d.activeDeploymentId === d.id) return go('serving', announce(d))
        if (d.reactivated) return rollAgain(d)
        const leftMs = enteredAt.getTime() + seconds(d.drainSeconds) - now.getTime()
        if (leftMs > 0 && kept(d).length > 0) return wait(leftMs)
        if (d.vms.length > 0) return wait(lookAgainMs, tx => removeVms(tx, d))
        return done(async tx => {
          await dropSnapshots(tx, d.id, 'sleep')
          await dropRuntimeAttachments(tx, d.id)
          await store.end(tx, d.id, 'superseded')
          await announceById(tx, d.id)
        })
      },

      async failing({ subject: d }): Promise<Next<'rolling'>> {
        if (d.outcome === null) return rollAgain(d)
        if (d.vms.length > 0) return wait(lookAgainMs, tx => removeVms(tx, d))
        return done(async tx => {
          await dropRuntimeAttachments(tx, d.id)
          await announce(d)(tx)
        })
      },

      async stopping({ subject: d }): Promise<Next<'rolling'>> {
        if (d.outcome === null && d.appWant === 'live' && (d.want === 'running' || d.want === 'paused'))
          return rollAgain(d)
        const { build } = d
        if (build?.isBusy) return wait(lookAgainMs, tx => poke(tx, 'build', build.id))
        if (d.vms.length > 0)
          return wait(lookAgainMs, async tx => {
            await store.clearActive(tx, d.appId, d.id)
            await removeVms(tx, d)
            await refreshRoute(tx, d.appId)
            await announce(d)(tx)
          })
        return done(async tx => {
          await store.clearActive(tx, d.appId, d.id)
          await dropSnapshots(tx, d.id, 'sleep')
          await dropRuntimeAttachments(tx, d.id)
          await pokeOthers(tx, d)
          if (d.want === 'deleted' || d.appWant === 'deleted') {
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
      },
    },
  })
}

/**
 * Returns the time left for the rollout. There is no limit while some VMs wait for capacity and all others are healthy:
 * the app is not at fault, and the phase's alert notifies the operator.
 */
function rolloutLeftMs(d: Deployment, enteredAt: Date, now: Date, rolloutMs: number): number {
  const vms = kept(d)
  const waits = vms.some(vm => vm.hostId === null)
  if (waits && vms.every(vm => vm.hostId === null || vm.healthy)) return Number.POSITIVE_INFINITY
  return Math.max(enteredAt.getTime(), d.placedAt?.getTime() ?? 0) + rolloutMs - now.getTime()
}

type ReplicaChanges = { readonly are: 'none' } | ({ readonly are: 'some' } & ReplicaPlan)

/** Creates missing VMs; removes those that are surplus, have crashed or must leave their host. */
function replicaChanges(d: Deployment, mayReplace: boolean): ReplicaChanges {
  const good = (vm: DeploymentVm) => (d.want === 'paused' ? vm.observedState === 'paused' : vm.healthy)
  const replicas = kept(d).map(vm => ({
    id: vm.id,
    good: good(vm),
    crashed: crashed(vm),
    leaving: vm.leaving,
    movable: vm.canMove,
    moving: vm.migrating === true,
  }))
  // Scaling to zero replicas happens in the sleep phases, not here.
  const plan = planReplicas(Math.max(d.desiredReplicas, 1), replicas, mayReplace)
  // Its successor can only start once the VM has released the volume.
  const stepsAside = (vm: DeploymentVm) => d.exclusive && vm.leaving && !vm.canMove && !vm.migrating
  const aside = kept(d).flatMap(vm => (stepsAside(vm) && !plan.remove.includes(vm.id) ? [vm.id] : []))
  const remove = [...plan.remove, ...aside]
  const isQuiet = remove.length === 0 && plan.move.length === 0 && plan.create === 0
  return isQuiet ? { are: 'none' } : { are: 'some', ...plan, remove }
}

async function changeReplicas(
  deps: Pick<Deps, 'config'>,
  tx: Tx,
  d: Deployment,
  changes: ReplicaChanges,
): Promise<void> {
  if (changes.are === 'none') return
  // Moves lock hosts and volumes, so they come before statements that lock VMs: docs/engine.md, order of locks.
  for (const vm of d.vms) if (changes.move.includes(vm.id)) await moveAway(tx, deps, d, vm)
  await setVmsWant(tx, changes.remove, 'absent')
  if (changes.replacesCrashed) await store.replacedOne(tx, d.id, quietMs / 1000)
  for (let n = 0; n < changes.create; n++) await createVm(tx, { ...d, id: newId(), deploymentId: d.id })
}

/** Pokes the deployments that yielded the volume to this one. */
async function pokeOthers(tx: Tx, d: Deployment): Promise<void> {
  if (d.exclusive) await pokeMany(tx, 'deployment', await store.othersAlive(tx, d.appId, d.id))
}

/** Removes all VMs and the sleep snapshots. */
async function removeVms(tx: Tx, d: Deployment): Promise<void> {
  await dropSnapshots(tx, d.id, 'sleep')
  await setVmsWant(tx, idsOf(kept(d)), 'absent')
}

const rollOut = (d: Deployment, image: string) => async (tx: Tx) => {
  if (!(await store.built(tx, d.id, image))) throw new Error('the deployment already has an image')
  for (let n = 0; n < Math.max(d.desiredReplicas, 1); n++) await createVm(tx, { ...d, id: newId(), deploymentId: d.id })
  await pokeMany(tx, 'deployment', await store.othersAlive(tx, d.appId, d.id))
  await announceById(tx, d.id)
}

/**
 * Rolls out a deployment that was activated while being taken down. Healthy VMs keep serving; new VMs replace the
 * others.
 */
const rollAgain = (d: Deployment): Next<'rolling'> =>
  go(
    'rolling',
    async tx => {
      const isWell = (vm: DeploymentVm) => vm.healthy && vm.want === 'running'
      if (!kept(d).some(isWell)) await store.clearActive(tx, d.appId, d.id)
      await dropSnapshots(tx, d.id, 'sleep')
      await setVmsWant(tx, idsOf(kept(d).filter(vm => !isWell(vm))), 'absent')
      await store.rollingAgain(tx, d.id)
      await refreshRoute(tx, d.appId)
      await announceById(tx, d.id)
    },
    minutes(30),
  )

/** Switches the route: this deployment serves from this commit on, and the previous one starts to drain. */
const takeOver = (d: Deployment) => async (tx: Tx) => {
  if (!(await store.makeActive(tx, d.id))) throw new Error('a later rollout became active in the meantime')
  await store.started(tx, d.id)
  await refreshRoute(tx, d.appId)
  for (const other of await store.othersAlive(tx, d.appId, d.id)) await poke(tx, 'deployment', other)
  await notifyLive(tx, d)
  await announceById(tx, d.id)
}

const fail = (d: Deployment, reason: string) => async (tx: Tx) => {
  await store.end(tx, d.id, 'failed', reason)
  await store.clearActive(tx, d.appId, d.id)
  await removeVms(tx, d)
  await pokeOthers(tx, d)
  await refreshRoute(tx, d.appId)
  await notifyFailed(tx, d, reason)
  await announceById(tx, d.id)
}
