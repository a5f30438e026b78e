/** Which VMs a deployment gets and gives up, as a pure decision. */
import { minutes, seconds } from '../../lib/duration.ts'

export interface Replica {
  readonly id: string
  /** Does what the deployment is there for: healthy, or paused where that is wanted. */
  readonly good: boolean
  readonly crashed: boolean
  /** Its host is being emptied. */
  readonly leaving: boolean
  /** It can go on elsewhere as it is: then it is moved instead of replaced. */
  readonly movable: boolean
  readonly moving: boolean
}

export interface ReplicaPlan {
  readonly create: number
  readonly remove: readonly string[]
  /** To be moved to another host while they run. */
  readonly move: readonly string[]
  /** Some of `remove` crashed: they count against the back-off. */
  readonly replacesCrashed: boolean
}

/**
 * Towards `desired` replicas. Crashed ones are replaced when `mayReplace`. Those that must leave their host go one by
 * one: moved where that is possible, else replaced, and then only after their successor is good, so that no fewer than
 * before are good at any time.
 * @param vms those that are meant to stay, oldest first
 */
export function planReplicas(desired: number, vms: readonly Replica[], mayReplace: boolean): ReplicaPlan {
  const crashed = vms.filter(vm => vm.crashed)
  const dropped = mayReplace ? crashed : crashed.filter(vm => vm.leaving)
  const moved = vms.filter(vm => vm.leaving && !vm.crashed && (vm.moving || (vm.movable && vm.good)))
  const leaving = vms.filter(vm => vm.leaving && !vm.crashed && !moved.includes(vm))
  // Whoever is too much goes last of those that stay where they are.
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

/** After this long without a crash, earlier ones are forgotten. */
export const quietMs = minutes(10)
const longestPauseMs = minutes(5)

/** How long a crashed VM waits for its replacement: 1 s, doubling with each one before it, up to five minutes. */
export function replacementPauseMs(replaced: number, sinceLastMs: number | undefined): number {
  if (sinceLastMs === undefined || sinceLastMs > quietMs) return 0
  return Math.max(0, Math.min(longestPauseMs, seconds(2 ** Math.min(replaced, 20))) - sinceLastMs)
}
