import type { Tx } from '../../db/db.ts'
import { createMachine, poke } from '../../engine/runner.ts'
import { minutes } from '../../lib/duration.ts'
import { deriveIpv6 } from './rules.ts'
import * as store from './store.ts'

export { hypervisorName, hypervisorNumber, isNews } from './rules.ts'
export { vmMachine } from './machine.ts'
export { recordSeen } from './seen.ts'
export { deploymentsOnHost, seenOnHost } from './store.ts'
export { abandonVmsOf, pokeVmsOf } from './abandon.ts'
export { pokeWaiting } from './waiting.ts'

/** A VM that shall run: its row and its machine. */
export async function createVm(
  tx: Tx,
  vm: Omit<store.NewVm, 'ipv6Address'> & { readonly ipv6Prefix: string },
): Promise<void> {
  await store.insert(tx, { ...vm, ipv6Address: deriveIpv6(vm.ipv6Prefix, vm.id) })
  await createMachine(tx, 'vm', vm.id, 'placing', { deadlineMs: minutes(10) })
}

/** Changes what the VM shall be; its machine and its host follow. */
export async function wishVm(tx: Tx, id: string, want: 'running' | 'paused' | 'stopped' | 'absent'): Promise<void> {
  if (await store.wish(tx, id, want)) await poke(tx, 'vm', id)
}
