/** Decides which VMs a deployment creates, removes and moves. Pure functions. */
import { minutes, seconds } from '../../lib/duration.ts'

export interface Replica {
  readonly id: string
  /** True if the VM is healthy, or paused when the deployment should be paused. */
  readonly good: boolean
  readonly crashed: boolean
  /** True if the VM's host is being drained. */
  readonly leaving: boolean
  /** True if the VM can move to another host. It is then moved and not replaced. */
  readonly movable: boolean
  readonly moving: boolean
}

export interface ReplicaPlan {
  readonly create: number
  readonly remove: readonly string[]
  /** VMs to move to another host while they run. */
  readonly move: readonly string[]
  /** True if some of the VMs in `remove` have crashed. Their replacement counts toward the back-off. */
  readonly replacesCrashed: boolean
}

/**
 * Plans the changes that lead to `desired` replicas. Crashed VMs are replaced when `mayReplace`. VMs on draining hosts
 * leave one at a time: they are moved if possible, and otherwise removed once their successor is good, so that the
 * number of good VMs never drops.
 * @param vms VMs that are not being removed, oldest first
 */
export function planReplicas(desired: number, vms: readonly Replica[], mayReplace: boolean): ReplicaPlan {
  const crashed = vms.filter(vm => vm.crashed)
  const dropped = mayReplace ? crashed : crashed.filter(vm => vm.leaving)
  const moved = vms.filter(vm => vm.leaving && !vm.crashed && (vm.moving || (vm.movable && vm.good)))
  const leaving = vms.filter(vm => vm.leaving && !vm.crashed && !moved.includes(vm))
  // Surplus VMs are removed from the end of this list, so VMs that are leaving their host are removed before VMs that
  // stay.
  const staying = [...vms.filter(vm => !vm.leaving && !dropped.includes(vm)), ...moved]
  const excess = staying.slice(desired)
  const missing = Math.max(0, desired - staying.length - leaving.length)
  const underWay = staying.some(vm => !vm.good && !vm.crashed && !vm.moving) || missing > 0
  const successor = leaving.length > 0 && staying.length < desired && !underWay ? 1 : 0
  const spare = Math.max(0, vms.filter(vm => vm.good).length - excess.filter(vm => vm.good).length - desired)
  const left =
    staying.length >= desired
      ? leaving.filter(vm => !vm.good).concat(leaving.filter(vm => vm.good).slice(0, spare))
      : leaving.filter(vm => vm.good).slice(0, spare)
  const waiting = moved.filter(vm => !excess.includes(vm))
  return {
    create: missing + successor,
    remove: [...dropped, ...left, ...excess].map(vm => vm.id),
    move: waiting.some(vm => vm.moving) ? [] : waiting.slice(0, 1).map(vm => vm.id),
    replacesCrashed: dropped.length > 0,
  }
}

/** Time without a replacement after which earlier crashes no longer count. */
export const quietMs = minutes(10)
const longestPauseMs = minutes(5)

/**
 * Returns how long the replacement of a crashed VM still waits. The first one does not wait. After the first
 * replacement, the next one waits 2 s; the time doubles with each further replacement, up to five minutes.
 */
export function replacementPauseMs(replaced: number, sinceLastMs: number | undefined): number {
  if (sinceLastMs === undefined || sinceLastMs > quietMs) return 0
  return Math.max(0, Math.min(longestPauseMs, seconds(2 ** Math.min(replaced, 20))) - sinceLastMs)
}
