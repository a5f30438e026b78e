/** Adjusts the VMs of a deployment to the number of replicas that its app wants. */
import type { Tx } from '../../db/db.ts'
import { newId } from '../../lib/ids.ts'
import type { Deps } from '../base/deps.ts'
import { createVm, dropSnapshots, setVmsWant } from '../vms/index.ts'
import { moveAway } from './moves.ts'
import { creatable } from './one-at-a-time.ts'
import { planReplicas, quietMs, type ReplicaPlan } from './replicas.ts'
import { replacedOne, wantedVms } from './restart.ts'
import type { Deployment, DeploymentVm } from './store.ts'

export const kept = (d: Deployment) => d.vms.filter(vm => vm.want !== 'absent')
export const idsOf = (vms: readonly DeploymentVm[]) => vms.map(vm => vm.id)
export const crashed = (vm: DeploymentVm) => vm.observedState === 'crashed'

export type ReplicaChanges = { readonly are: 'none' } | ({ readonly are: 'some' } & ReplicaPlan)

/**
 * Plans the changes of a deployment's VMs: missing VMs are created, and VMs that are surplus, have crashed or must
 * leave their host are removed.
 */
export function replicaChanges(d: Deployment, mayReplace: boolean): ReplicaChanges {
  const good = (vm: DeploymentVm) => (d.want === 'paused' ? vm.observedState === 'paused' : vm.healthy)
  const replicas = kept(d).map(vm => ({
    id: vm.id,
    good: good(vm),
    crashed: crashed(vm),
    leaving: vm.leaving,
    movable: vm.canMove,
    moving: vm.migrating === true,
  }))
  // The phases of scale-to-zero remove the last VMs of an app; here, at least one is wanted.
  const plan = planReplicas(wantedVms(d), replicas, mayReplace)
  // Returns whether a VM on a draining host must be removed before its successor starts, as in an exclusive app.
  const stepsAside = (vm: DeploymentVm) => d.exclusive && vm.leaving && !vm.canMove && !vm.migrating
  const mayStepAside = kept(d).filter(vm => stepsAside(vm) && !plan.remove.includes(vm.id))
  const isComplete = replicas.length >= wantedVms(d) && replicas.every(vm => vm.good)
  const aside = idsOf(wantedVms(d) > 1 ? mayStepAside.slice(0, isComplete ? 1 : 0) : mayStepAside)
  const remove = [...plan.remove, ...aside]
  const isQuiet = remove.length === 0 && plan.move.length === 0 && plan.create === 0
  return isQuiet ? { are: 'none' } : { are: 'some', ...plan, remove }
}

export async function changeReplicas(
  deps: Pick<Deps, 'config'>,
  tx: Tx,
  d: Deployment,
  changes: ReplicaChanges,
): Promise<void> {
  if (changes.are === 'none') return
  // Moves lock hosts and volumes, so they start before the statements that lock VMs: docs/engine.md, order of locks.
  for (const vm of d.vms) if (changes.move.includes(vm.id)) await moveAway(tx, deps, d, vm)
  await setVmsWant(tx, changes.remove, 'absent')
  if (changes.replacesCrashed) await replacedOne(tx, d.id, quietMs / 1000)
  const count = await creatable(tx, d.appId, changes.create)
  for (let n = 0; n < count; n++) await createVm(tx, { ...d, id: newId(), deploymentId: d.id })
}

/** Removes all VMs of the deployment and its sleep snapshots. */
export async function removeVms(tx: Tx, d: Deployment): Promise<void> {
  await dropSnapshots(tx, d.id, 'sleep')
  await setVmsWant(tx, idsOf(kept(d)), 'absent')
}
