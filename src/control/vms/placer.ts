/**
 * Finds a host for each VM and reserves its room there: for all VMs without volumes that wait at a moment in one transaction, since a
 * placement of its own for each is twelve round trips; VMs with volumes one after another, while the others go on. What is decided in
 * memory is a proposal; the statement that reserves is what counts, and whoever loses comes again.
 */
import type { Tx } from '../../db/db.ts'
import { poke, pokeMany } from '../../engine/runner.ts'
import { batched } from '../../lib/batched.ts'
import type { Deps } from '../base/deps.ts'
import { type Candidates, createCandidates, hostRooms } from '../hosts/index.ts'
import { explain, type HostView, pick, place, type Placement, type PlacementRequest } from '../scheduler/place.ts'
import { claimDisks, type DiskNeeds, diskNeeds, storageRequest, withDisks } from './disks.ts'
import { hypervisorName } from './rules.ts'
import * as store from './store.ts'
import type { Vm } from './store.ts'

/**
 * `placed`: it has its host, and that is committed. `nowhere`: for now, and why. `outrun`: somebody else was quicker.
 * `unpinned`: the only host that has what it should start from has no room.
 */
export type Placed =
  | { readonly is: 'placed' }
  | { readonly is: 'nowhere'; readonly why: string }
  | { readonly is: 'outrun' }
  | { readonly is: 'unpinned' }

const mostAtOnce = 256

/** `apart`: it has volumes. */
type MoveGroup = Placed | { readonly is: 'apart' }

/** Placing twice is harmless: a VM that has its host is `outrun`. */
export function createPlacer({
  db,
  config,
  clock,
}: Pick<Deps, 'db' | 'config' | 'clock'>): (vm: Vm) => Promise<Placed> {
  const candidates = createCandidates(() => hostRooms(db, config.hostTimeoutSeconds), clock)
  const together = batched((vms: readonly Vm[]) => db.tx(tx => placeTogether(tx, candidates, vms)), {
    most: mostAtOnce,
    atOnce: 1,
  })
  // Each in a transaction of its own: it locks its host, then its volumes (docs/engine.md, order of locks), and sees what the one
  // before took of the storage pools.
  const apart = batched(
    (vms: readonly Vm[]) => Promise.all(vms.map(vm => db.tx(tx => placeApart(tx, candidates, vm)))),
    { most: 1, atOnce: 1 },
  )
  return async vm => {
    const placed = await together(vm)
    return placed.is === 'apart' ? apart(vm) : placed
  }
}

const outrun: Placed = { is: 'outrun' }

/** Answers each, in their order. */
async function placeTogether(tx: Tx, candidates: Candidates, vms: readonly Vm[]): Promise<readonly MoveGroup[]> {
  const deploymentIds = [...new Set(vms.map(vm => vm.deploymentId))]
  // Sent at once, done in this order: what is read is read under the locks. What is not ours is read in vain.
  const [ours, siblings, special] = await Promise.all([
    store.claimPlacing(tx, deploymentIds),
    store.hostsByDeployment(tx, deploymentIds),
    withDisks(
      tx,
      vms.map(vm => vm.id),
    ),
  ])
  const mine = vms.filter(vm => ours.has(vm.deploymentId))
  const round: Round = { tx, candidates, siblings, results: new Map(), looked: false }
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

async function placeApart(tx: Tx, candidates: Candidates, vm: Vm): Promise<Placed> {
  const [ours, siblings] = await Promise.all([
    store.claimPlacing(tx, [vm.deploymentId]),
    store.hostsByDeployment(tx, [vm.deploymentId]),
  ])
  if (!ours.has(vm.deploymentId)) return outrun
  const placed = await placeWithDisks({ tx, candidates, siblings, results: new Map(), looked: false }, vm)
  if (placed.is === 'placed') await poke(tx, 'deployment', vm.deploymentId)
  return placed
}

interface Round {
  readonly tx: Tx
  readonly candidates: Candidates
  /** Hosts of each deployment's VMs, those of this round included. */
  readonly siblings: ReadonlyMap<string, Set<string>>
  readonly results: Map<string, Placed>
  /** The hosts were read in this round. */
  looked: boolean
}

async function placeSome(round: Round, vms: readonly Vm[]): Promise<void> {
  const desiredStates: { vmId: string; hostId: string; hypervisor: NonNullable<Placement['host']>['hypervisor'] }[] = []
  for (const vm of vms) {
    const { host, none } = await propose(round, vm)
    if (host) desiredStates.push({ vmId: vm.id, hostId: host.id, hypervisor: host.hypervisor })
    else round.results.set(vm.id, none)
  }
  if (desiredStates.length === 0) return
  const won = await store.place(round.tx, desiredStates)
  if (won.size < desiredStates.length) round.candidates.forget()
  for (const { vmId } of desiredStates) round.results.set(vmId, won.has(vmId) ? { is: 'placed' } : outrun)
}

async function placeWithDisks(round: Round, vm: Vm): Promise<Placed> {
  const { tx } = round
  const needs = await diskNeeds(tx, vm.id)
  if (needs.obstacle) return { is: 'nowhere', why: needs.obstacle }
  const { host, none } = await propose(round, vm, needs)
  if (!host) return none
  const won = await store.place(tx, [{ vmId: vm.id, hostId: host.id, hypervisor: host.hypervisor }])
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
  const look = async (fresh: boolean) => {
    const hosts = await round.candidates.list(fresh)
    round.looked ||= fresh
    const request = requestFor(vm, siblings, needs, hosts)
    return { host: pick(hosts, request), why: () => explain(place(hosts, request)) }
  }
  let found = await look(false)
  // What was known may be too old for a no.
  if (!found.host && !round.looked) found = await look(true)
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
    hypervisor: hypervisorName(vm.requestedHypervisor),
    vcpus: vm.vcpus,
    memoryMib: vm.memoryMib,
    diskMib: vm.diskMib,
    siblings,
    ...(needs ? storageRequest(needs, hosts) : {}),
    ...(vm.appOwner === 'database' && vm.image.startsWith('oci:')
      ? { databaseImage: vm.image.slice('oci:'.length) }
      : {}),
    ...(vm.pinnedHostId ? { pinnedTo: vm.pinnedHostId } : {}),
  }
}
