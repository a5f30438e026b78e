/**
 * Creates a VM together with its placement and its workflow in one transaction, for callers that already have a host
 * for it.
 */
import type { HypervisorName } from '../../contract/agent.ts'
import type { Tx } from '../../db/db.ts'
import { createWorkflow } from '../../engine/runner.ts'
import { minutes } from '../../lib/duration.ts'
import { deriveIpv6 } from './rules.ts'
import type { Vm } from './store.ts'
import * as placement from './placement-store.ts'
import * as store from './store.ts'

export type NewVm = Omit<store.NewVm, 'ipv6Address'> & { readonly ipv6Prefix: string }

/** A VM that has a host. */
export type PlacedVm = Vm & { readonly hostId: string }

export interface StartOptions {
  readonly hostId: string
  readonly hypervisor: HypervisorName
  /**
   * Delay in milliseconds before the VM's workflow contacts the host. A caller that contacts the host itself sets a
   * delay above 0.
   */
  readonly afterMs: number
}

/**
 * Creates a VM on the given host if the host has capacity; otherwise the VM waits for a host like any other VM. The
 * caller's transaction must have locked the deployment. VMs with volumes are not supported.
 * @returns the placed VM; undefined if the VM has no host yet
 */
export async function startVmOn(tx: Tx, vm: NewVm, { hostId, hypervisor, afterMs }: StartOptions) {
  // The statements are sent together on one connection, and run in this order.
  const [, places, found] = await Promise.all([
    store.insert(tx, { ...vm, ipv6Address: deriveIpv6(vm.ipv6Prefix, vm.id) }),
    placement.place(tx, [{ vmId: vm.id, hostId, hypervisor }]),
    store.byId(tx, vm.id),
  ])
  const placed: PlacedVm | undefined = found && places.has(vm.id) ? { ...found, hostId } : undefined
  await createWorkflow(tx, 'vm', vm.id, placed ? 'starting' : 'placing', {
    deadlineMs: minutes(10),
    ...(placed ? { afterMs } : {}),
  })
  return placed
}
