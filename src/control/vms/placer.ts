/**
 * Finds a host for each VM and reserves resources there. All waiting VMs without volumes are placed in one
 * transaction, because separate transactions cost twelve round trips to PostgreSQL for each VM. VMs with volumes are
 * placed one by one, in parallel with the others. Hosts are chosen from data in memory. A conditional UPDATE then
 * checks the capacity; a VM that it rejects is placed again.
 */
import type { Tx } from '../../db/db.ts'
import { poke, pokeMany } from '../../engine/runner.ts'
import { batched } from '../../lib/batched.ts'
import type { Deps } from '../base/deps.ts'
import { type Candidates, createCandidates, hostRooms } from '../hosts/index.ts'
import { explain, type HostView, pick, place, type Placement, type PlacementRequest } from '../scheduler/place.ts'
import { wishesOf } from '../scheduler/wishes.ts'
import { claimDisks, type DiskNeeds, diskNeeds, storageRequest, withDisks } from './disks.ts'
import { hypervisorName } from './rules.ts'
import * as placement from './placement-store.ts'
import type { Vm } from './store.ts'

/**
 * Result of a placement. `placed`: the VM has its host, and the transaction is committed. `nowhere`: no host fits now,
 * with the reason. `outrun`: another transaction took the capacity, the deployment's lock or the VM first. `unpinned`:
 * the only host that has the VM's snapshot has no capacity.
 */
export type Placed =
  | { readonly is: 'placed' }
  | { readonly is: 'nowhere'; readonly why: string }
  | { readonly is: 'outrun' }
  | { readonly is: 'unpinned' }

const mostAtOnce = 256

/** `apart`: the VM has volumes, so it has to be placed in a transaction of its own. */
type PlacedOrApart = Placed | { readonly is: 'apart' }

/** Returns the function that places a VM. Placing a VM twice is harmless: the second call returns `outrun`. */
export function createPlacer({
  db,
  config,
  clock,
}: Pick<Deps, 'db' | 'config' | 'clock'>): (vm: Vm) => Promise<Placed> {
  const candidates = createCandidates(() => hostRooms(db, config.hostTimeoutSeconds), clock)
  const common = { candidates, publicLabels: config.publicLabels }
  const together = batched((vms: readonly Vm[]) => db.tx(tx => placeTogether(tx, common, vms)), {
    most: mostAtOnce,
    atOnce: 1,
  })
  // VMs with volumes are placed one after another, each in its own transaction, which locks the host before the volumes
  // (lock order in docs/engine.md). Each transaction sees the pool space that the previous one has reserved.
  const apart = batched((vms: readonly Vm[]) => Promise.all(vms.map(vm => db.tx(tx => placeApart(tx, common, vm)))), {
    most: 1,
    atOnce: 1,
  })
  return async vm => {
    const placed = await together(vm)
    return placed.is === 'apart' ? apart(vm) : placed
  }
}

const outrun: Placed = { is: 'outrun' }

/** Places VMs without volumes in one transaction. Returns one result per VM, in their order. */
async function placeTogether(tx: Tx, common: Common, vms: readonly Vm[]): Promise<readonly PlacedOrApart[]> {
  const deploymentIds = [...new Set(vms.map(vm => vm.deploymentId))]
  // The statements are pipelined and run in this order, so the reads happen after the deployments are locked. Rows of
  // deployments that another transaction has locked are ignored.
  const [ours, siblings, special] = await Promise.all([
    placement.claimPlacing(tx, deploymentIds),
    placement.hostsByDeployment(tx, deploymentIds),
    withDisks(
      tx,
      vms.map(vm => vm.id),
    ),
  ])
  const mine = vms.filter(vm => ours.has(vm.deploymentId))
  const round: Round = { ...common, tx, siblings, results: new Map(), hasFreshHosts: false }
  await placeSome(
    round,
    mine.filter(vm => !special.has(vm.id)),
  )
  const moved = new Set(mine.flatMap(vm => (round.results.get(vm.id)?.is === 'placed' ? [vm.deploymentId] : [])))
  if (moved.size > 0) await pokeMany(tx, 'deployment', [...moved])
  return vms.map(vm => {
    if (ours.has(vm.deploymentId) && special.has(vm.id)) return { is: 'apart' }
    return round.results.get(vm.id) ?? outrun
  })
}

async function placeApart(tx: Tx, common: Common, vm: Vm): Promise<Placed> {
  const [ours, siblings] = await Promise.all([
    placement.claimPlacing(tx, [vm.deploymentId]),
    placement.hostsByDeployment(tx, [vm.deploymentId]),
  ])
  if (!ours.has(vm.deploymentId)) return outrun
  const placed = await placeWithDisks({ ...common, tx, siblings, results: new Map(), hasFreshHosts: false }, vm)
  if (placed.is === 'placed') await poke(tx, 'deployment', vm.deploymentId)
  return placed
}

interface Common {
  readonly candidates: Candidates
  readonly publicLabels: readonly string[]
}

interface Round extends Common {
  readonly tx: Tx
  /** Hosts of each deployment's VMs, including the VMs placed in this transaction. */
  readonly siblings: ReadonlyMap<string, Set<string>>
  readonly results: Map<string, Placed>
  /** Whether the hosts were already read again from the database in this transaction. */
  hasFreshHosts: boolean
}

async function placeSome(round: Round, vms: readonly Vm[]): Promise<void> {
  const desiredStates: { vmId: string; hostId: string; hypervisor: NonNullable<Placement['host']>['hypervisor'] }[] = []
  for (const vm of vms) {
    const { host, none } = await propose(round, vm)
    if (host) desiredStates.push({ vmId: vm.id, hostId: host.id, hypervisor: host.hypervisor })
    else round.results.set(vm.id, none)
  }
  if (desiredStates.length === 0) return
  const won = await placement.place(round.tx, desiredStates)
  if (won.size < desiredStates.length) round.candidates.forget()
  for (const { vmId } of desiredStates) round.results.set(vmId, won.has(vmId) ? { is: 'placed' } : outrun)
}

async function placeWithDisks(round: Round, vm: Vm): Promise<Placed> {
  const { tx } = round
  const needs = await diskNeeds(tx, vm.id)
  if (needs.obstacle) return { is: 'nowhere', why: needs.obstacle }
  const { host, none } = await propose(round, vm, needs)
  if (!host) return none
  const won = await placement.place(tx, [{ vmId: vm.id, hostId: host.id, hypervisor: host.hypervisor }])
  if (!won.has(vm.id)) {
    round.candidates.forget()
    return outrun
  }
  await claimDisks(tx, vm.id, host.id, needs)
  return { is: 'placed' }
}

type Proposal =
  | { readonly host: NonNullable<Placement['host']>; readonly none?: never }
  | { readonly host?: never; readonly none: Placed }

async function propose(round: Round, vm: Vm, needs?: DiskNeeds): Promise<Proposal> {
  const siblings = round.siblings.get(vm.deploymentId) ?? new Set()
  const search = async (fresh: boolean) => {
    const hosts = await round.candidates.list(fresh)
    round.hasFreshHosts ||= fresh
    const request = { ...requestFor(vm, siblings, needs, hosts), wishes: wishesOf(vm.appHosts, round.publicLabels) }
    return { host: pick(hosts, request), why: () => explain(place(hosts, request)) }
  }
  let found = await search(false)
  // The hosts in memory may be outdated: read them again from the database before concluding that none is suitable.
  if (!found.host && !round.hasFreshHosts) found = await search(true)
  const { host } = found
  if (host) {
    round.candidates.take(host.id, vm)
    siblings.add(host.id)
    return { host }
  }
  if (vm.pinnedHostId && !vm.fromRequired) return { none: { is: 'unpinned' } }
  return { none: { is: 'nowhere', why: found.why() } }
}

function requestFor(
  vm: Vm,
  siblings: ReadonlySet<string>,
  needs: DiskNeeds | undefined,
  hosts: readonly HostView[],
): PlacementRequest {
  return {
    // Require the hypervisor of the VM's snapshot: a host may offer a faster one by now, but only the same hypervisor
    // can load the snapshot.
    hypervisor: vm.snapshotHypervisor ?? hypervisorName(vm.requestedHypervisor),
    vcpus: vm.vcpus,
    memoryMib: vm.memoryMib,
    diskMib: vm.diskMib,
    siblings,
    ...(needs ? storageRequest(needs, hosts) : {}),
    ...(vm.appOwner === 'database' && vm.image.startsWith('oci:')
      ? { databaseImage: vm.image.slice('oci:'.length) }
      : {}),
    ...(vm.pinnedHostId ? { pinnedTo: vm.pinnedHostId } : {}),
    ...(vm.builtHostId ? { builtOn: vm.builtHostId } : {}),
  }
}
