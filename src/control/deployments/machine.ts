/**
 * The life of a deployment: bring its VMs up beside what serves now, switch the route once they are healthy, keep as
 * many as the app wants, and in the end take them down: superseded, stopped, failed or deleted.
 */
import type { Tx } from '../../db/db.ts'
import { type Next, done, go, machine, wait } from '../../engine/machine.ts'
import { poke } from '../../engine/runner.ts'
import { minutes, seconds } from '../../lib/duration.ts'
import { newId } from '../../lib/ids.ts'
import type { Deps } from '../deps.ts'
import { refreshRoute } from '../routing/index.ts'
import { createVm, dropSnapshots, wishVm } from '../vms/index.ts'
import { announce, announceById, publishStatus } from './announce.ts'
import { explainFailure } from './failure.ts'
import { notifyFailed, notifyLive } from './notices.ts'
import { planReplicas, quietMs, replacementPauseMs } from './replicas.ts'
import { sleeping, suspending, waking } from './sleep.ts'
import type { Deployment, DeploymentVm } from './store.ts'
import * as store from './store.ts'

/** Every change that matters pokes; this look is for what a lost poke would hide. */
const lookAgainMs = minutes(1)

const kept = (d: Deployment) => d.vms.filter(vm => vm.want !== 'absent')
const crashed = (vm: DeploymentVm) => vm.seenState === 'crashed'

export const deploymentMachine = (deps: Pick<Deps, 'db' | 'bus' | 'config' | 'log'>) => {
  const rolloutMs = seconds(deps.config.rolloutTimeoutSeconds)

  return machine<Deployment>()({
    kind: 'deployment',
    edges: {
      rolling: ['serving', 'draining', 'failing', 'stopping'],
      serving: ['suspending', 'draining', 'failing', 'stopping'],
      suspending: ['serving', 'sleeping', 'stopping'],
      sleeping: ['serving', 'waking', 'stopping'],
      waking: ['serving', 'sleeping', 'stopping'],
      draining: ['serving', 'stopping'],
      failing: ['stopping'],
      stopping: [],
    },
    load: id => store.byId(deps.db, id),
    preempt: d => (d.want === 'stopped' || d.want === 'deleted' || d.appWant === 'deleted' ? 'stopping' : undefined),
    phases: {
      async rolling({ subject: d, enteredAt, now }): Promise<Next<'serving' | 'draining' | 'failing'>> {
        if (d.activeRollout > d.rollout) return go('draining', announce(d))
        if (kept(d).some(crashed)) return go('failing', fail(d, await explainFailure(deps, d, 'crashed')), minutes(5))
        const healthy = kept(d).filter(vm => vm.healthy).length
        if (healthy >= d.desiredReplicas && healthy > 0) return go('serving', takeOver(d))
        const leftMs = enteredAt.getTime() + rolloutMs - now.getTime()
        if (leftMs <= 0) return go('failing', fail(d, await explainFailure(deps, d, 'timeout')), minutes(5))
        return wait(Math.min(leftMs, lookAgainMs), async tx => {
          await adjustReplicas(tx, d, false)
          if (d.scheduledAt === null && kept(d).some(vm => vm.hostId)) await store.scheduled(tx, d.id)
          await announce(d)(tx)
        })
      },

      async serving({ subject: d, now }): Promise<Next<'suspending' | 'draining' | 'failing'>> {
        if (d.activeDeploymentId !== d.id) return go('draining', announce(d), seconds(d.drainSeconds) + minutes(5))
        if (d.scaleState === 'idle') return go('suspending', announce(d), minutes(5))
        const vms = kept(d)
        if (vms.length > 0 && vms.every(crashed))
          return go('failing', fail(d, await explainFailure(deps, d, 'crashed')), minutes(5))
        const pauseMs = replacementPauseMs(
          d.replaced,
          d.replacedAt ? now.getTime() - d.replacedAt.getTime() : undefined,
        )
        return wait(pauseMs > 0 && vms.some(crashed) ? Math.min(pauseMs, lookAgainMs) : lookAgainMs, async tx => {
          await adjustReplicas(tx, d, pauseMs === 0)
          for (const vm of vms)
            if (vm.want !== d.want && d.want !== 'stopped' && d.want !== 'deleted') await wishVm(tx, vm.id, d.want)
          await announce(d)(tx)
        })
      },

      suspending: moment => suspending(moment, deps.config),
      sleeping,
      waking,

      /** Superseded: no new requests reach it; what is under way may finish. Rolled back to meanwhile: it serves on. */
      async draining({ subject: d, enteredAt, now }): Promise<Next<'serving'>> {
        if (d.activeDeploymentId === d.id) return go('serving', announce(d))
        const leftMs = enteredAt.getTime() + seconds(d.drainSeconds) - now.getTime()
        if (leftMs > 0 && kept(d).length > 0) return wait(leftMs)
        if (d.vms.length > 0) return wait(lookAgainMs, tx => removeVms(tx, d))
        return done(async tx => {
          await dropSnapshots(tx, d.id, 'sleep')
          await store.end(tx, d.id, 'superseded')
          await announceById(tx, d.id)
        })
      },

      async failing({ subject: d }) {
        if (d.vms.length > 0) return wait(lookAgainMs, tx => removeVms(tx, d))
        return done(announce(d))
      },

      async stopping({ subject: d }) {
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

/** Creates what is missing and gives up what is too much, has crashed or must leave its host. */
async function adjustReplicas(tx: Tx, d: Deployment, mayReplace: boolean): Promise<void> {
  const good = (vm: DeploymentVm) => (d.want === 'paused' ? vm.seenState === 'paused' : vm.healthy)
  const replicas = kept(d).map(vm => ({ id: vm.id, good: good(vm), crashed: crashed(vm), leaving: vm.leaving }))
  // None at all is scale to zero, which has its own way.
  const plan = planReplicas(Math.max(d.desiredReplicas, 1), replicas, mayReplace)
  for (const id of plan.remove) await wishVm(tx, id, 'absent')
  if (plan.replacesCrashed) await store.replacedOne(tx, d.id, quietMs / 1000)
  for (let n = 0; n < plan.create; n++) await createVm(tx, { ...d, id: newId(), deploymentId: d.id })
}

/** All of it ends: what it would have woken from, too. */
async function removeVms(tx: Tx, d: Deployment): Promise<void> {
  await dropSnapshots(tx, d.id, 'sleep')
  for (const vm of kept(d)) await wishVm(tx, vm.id, 'absent')
}

/** The route switch: this deployment serves from this commit on, and whoever served before starts to drain. */
const takeOver = (d: Deployment) => async (tx: Tx) => {
  if (!(await store.makeActive(tx, d.id))) throw new Error('a later rollout became active meanwhile')
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
  await refreshRoute(tx, d.appId)
  await notifyFailed(tx, d, reason)
  await announceById(tx, d.id)
}
