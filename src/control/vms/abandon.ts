import type { Tx } from '../../db/db.ts'
import { pokeMany } from '../../engine/runner.ts'
import { refreshRoute } from '../routing/index.ts'
import * as store from './store.ts'

/**
 * Fences every VM of a host in the commit that gives the host up: no route leads to them, nothing the host says of them
 * counts, and their deployments make new ones elsewhere. How many there were.
 */
export async function abandonVmsOf(tx: Tx, hostId: string): Promise<number> {
  const vms = await store.abandonOnHost(tx, hostId)
  for (const appId of [...new Set(vms.map(vm => vm.appId))].toSorted()) await refreshRoute(tx, appId)
  await pokeVmsOf(tx, hostId)
  await pokeMany(tx, 'deployment', [...new Set(vms.map(vm => vm.deploymentId))])
  return vms.length
}

/** The host can be asked again, or never again. */
async function pokeVmsOf(tx: Tx, hostId: string): Promise<void> {
  await pokeMany(tx, 'vm', await store.idsOnHost(tx, hostId))
}
