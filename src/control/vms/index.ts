/** VMs: their rows, desired state, placement, disks, snapshots and workflow. */
import type { Tx } from '../../db/db.ts'
import { createWorkflow, poke } from '../../engine/runner.ts'
import { minutes } from '../../lib/duration.ts'
import { refreshRoute } from '../routing/index.ts'
import { deriveIpv6 } from './rules.ts'
import type { NewVm } from './start.ts'
import * as store from './store.ts'

export { vmOperations } from './schema.ts'
export {
  builtFor,
  builtPath,
  type BuiltRegistries,
  builtRepository,
  ownRegistryHost,
  registryOf,
  repositoryOf,
} from './built-image.ts'
export { hypervisorName, hypervisorNumber, isNews } from './rules.ts'
export { vmWorkflow } from './workflow.ts'
export {
  appDiskNeeds,
  type ClaimObstacle,
  claimRunning,
  dropRuntimeAttachments,
  storageRequest,
  unclaim,
} from './disks.ts'
export { desiredFor as disksOf } from './disk-store.ts'
export { createSnapshot, dropSnapshot, dropSnapshots, recordSnapshot, snapshotWorkflow } from './snapshot-workflow.ts'
export { retainLog } from './retained-log.ts'
export { recordObserved } from './observed.ts'
export { observedOnHost } from './observed-store.ts'
export {
  byName as findSnapshot,
  isBeingForked,
  isBeingRestored,
  list as listSnapshots,
  lockByName as lockSnapshot,
  type Snapshot,
} from './snapshot-store.ts'
export {
  byId as vmById,
  deploymentsOnHost,
  desired as desiredVm,
  raise as raiseVmGeneration,
  type Vm,
  giveUpRestore,
  lock as lockVm,
  restore as restoreVm,
  setBalloon,
  type StartFrom,
} from './store.ts'
export { abandonVmsOf } from './abandon.ts'
export { type NewVm, type PlacedVm, startVmOn } from './start.ts'
export { type DesiredVms, desiredVms } from './desired.ts'
export { pokeWaiting } from './waiting.ts'

/** Creates the row and the workflow of a VM with the desired state `running`. */
export async function createVm(tx: Tx, vm: NewVm): Promise<void> {
  await store.insert(tx, { ...vm, ipv6Address: deriveIpv6(vm.ipv6Prefix, vm.id) })
  await createWorkflow(tx, 'vm', vm.id, 'placing', { deadlineMs: minutes(10) })
}

/** Pokes the VM's workflow after a change of its desired state. */
export const pokeVm = (tx: Tx, id: string) => poke(tx, 'vm', id)

/** Changes the VM's desired state, updates its app's route, and pokes its workflow, which notifies the host. */
export const setVmWant = (tx: Tx, id: string, want: store.Vm['want']): Promise<void> => setVmsWant(tx, [id], want)

/**
 * Changes the desired state of VMs. Routes are refreshed last, because a transaction that records an observation also
 * locks its VM before the route.
 */
export async function setVmsWant(tx: Tx, ids: readonly string[], want: store.Vm['want']): Promise<void> {
  const appIds = new Set<string>()
  for (const id of ids.toSorted()) {
    const appId = await store.desired(tx, id, want)
    if (!appId) continue
    appIds.add(appId)
    await poke(tx, 'vm', id)
  }
  for (const appId of [...appIds].toSorted()) await refreshRoute(tx, appId)
}
