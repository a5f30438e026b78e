/** A VM that gets its row, its place and its machine at once: where it goes is known, and nobody has to look for a host. */
import type { HypervisorName } from '../../contract/agent.ts'
import type { Tx } from '../../db/db.ts'
import { createWorkflow } from '../../engine/runner.ts'
import { minutes } from '../../lib/duration.ts'
import { deriveIpv6 } from './rules.ts'
import type { Vm } from './store.ts'
import * as store from './store.ts'

export type NewVm = Omit<store.NewVm, 'ipv6Address'> & { readonly ipv6Prefix: string }

/** A VM that has its place. */
export type PlacedVm = Vm & { readonly hostId: string }

export interface StartOptions {
  readonly hostId: string
  readonly hypervisor: HypervisorName
  /** Until its machine tells the host, ms; 0: at once. For a caller who is about to tell it himself. */
  readonly afterMs: number
}

/**
 * In the caller's transaction, which holds its deployment: a VM on this host, if there is room; else it waits for a place like
 * any other. Not for one with volumes.
 * @returns undefined: it has no place yet
 */
export async function startVmOn(tx: Tx, vm: NewVm, { hostId, hypervisor, afterMs }: StartOptions) {
  // Sent at once, done in this order.
  const [, places, found] = await Promise.all([
    store.insert(tx, { ...vm, ipv6Address: deriveIpv6(vm.ipv6Prefix, vm.id) }),
    store.place(tx, [{ vmId: vm.id, hostId, hypervisor }]),
    store.byId(tx, vm.id),
  ])
  const placed: PlacedVm | undefined = found && places.has(vm.id) ? { ...found, hostId } : undefined
  await createWorkflow(tx, 'vm', vm.id, placed ? 'starting' : 'placing', {
    deadlineMs: minutes(10),
    ...(placed ? { afterMs } : {}),
  })
  return placed
}
