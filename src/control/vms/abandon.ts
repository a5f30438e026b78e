import type { Tx } from '../../db/db.ts'
import { pokeMany } from '../../engine/runner.ts'
import { refreshRoute } from '../routing/index.ts'
import * as store from './store.ts'

/**
 * Fences every VM of a lost host, in the transaction that marks the host as lost: the VMs leave their routes, later
 * reports about them are ignored, and their deployments create replacements on other hosts. Returns the number of VMs.
 */
export async function abandonVmsOf(tx: Tx, hostId: string): Promise<number> {
  const vms = await store.abandonOnHost(tx, hostId)
  for (const appId of [...new Set(vms.map(vm => vm.appId))].toSorted()) await refreshRoute(tx, appId)
  await pokeVmsOf(tx, hostId)
  await pokeMany(tx, 'deployment', [...new Set(vms.map(vm => vm.deploymentId))])
  return vms.length
}

/** Pokes the workflows of all VMs on the host. */
async function pokeVmsOf(tx: Tx, hostId: string): Promise<void> {
  await pokeMany(tx, 'vm', await store.idsOnHost(tx, hostId))
}
