/**
 * Volumes of VMs: assigned to a VM when it is placed, attached by its host, and released once the host has detached
 * them.
 */
import type { VmObserved } from '../../contract/agent.ts'
import type { Sql, Tx } from '../../db/db.ts'
import { poke } from '../../engine/runner.ts'
import { listPools } from '../hosts/index.ts'
import { notify } from '../notifications/index.ts'
import type { PlacementRequest } from '../scheduler/place.ts'
import { fitVolumes, type PoolObstacle, poolObstacle, type PoolView } from '../scheduler/pools.ts'
import * as store from './disk-store.ts'
import { pokeWaiting } from './waiting.ts'

/** The volumes that a VM needs, with the pools and constraints that placement has to consider. */
export interface DiskNeeds {
  readonly disks: readonly store.NeededDisk[]
  readonly pools: readonly PoolView[]
  /** Reason why the VM cannot start on any host now; undefined if it can. */
  readonly obstacle: string | undefined
  /** The only host that can access all volumes of the VM; undefined if several can. */
  readonly pinnedTo: string | undefined
}

export const diskNeeds = async (sql: Sql, vmId: string): Promise<DiskNeeds> =>
  needsOf(sql, await store.needed(sql, [vmId]))

/** Returns the storage that the app's next VM needs. */
export const appDiskNeeds = async (sql: Sql, appId: string): Promise<DiskNeeds> =>
  needsOf(sql, await store.neededByApp(sql, appId))

async function needsOf(sql: Sql, disks: readonly store.NeededDisk[]): Promise<DiskNeeds> {
  const pools = disks.length > 0 ? await listPools(sql) : []
  const pins = new Set(disks.filter(disk => disk.bound).flatMap(disk => (disk.hostId ? [disk.hostId] : [])))
  return { disks, pools, obstacle: obstacleOf(disks, pins.size), pinnedTo: [...pins][0] }
}

/** Returns the ids of those VMs that need volumes. */
export const withDisks = async (sql: Sql, vmIds: readonly string[]): Promise<ReadonlySet<string>> =>
  new Set((await store.needed(sql, vmIds)).map(disk => disk.vmId))

function obstacleOf(disks: readonly store.NeededDisk[], places: number): string | undefined {
  const held = disks.find(disk => disk.held)
  if (held) return `Volume ${held.name} is still attached to another VM; this VM starts once it is released.`
  const unusable = disks.find(disk => !disk.usable)
  if (unusable) return `Volume ${unusable.name} is being restored or moved, or has failed; see the volume.`
  return places > 1
    ? 'The volumes of the VM are on different hosts. Detach one, or clone it from a snapshot.'
    : undefined
}

type StorageRequest = Pick<PlacementRequest, 'withoutStorage' | 'encryptedOn' | 'needs' | 'pinnedTo'>

/** Converts the storage that a VM needs to constraints on the choice of its host. */
export function storageRequest(needs: DiskNeeds, hosts: readonly { readonly id: string }[]): StorageRequest {
  if (needs.disks.length === 0) return {}
  const withoutStorage = new Set<string>()
  const encryptedOn = new Set<string>()
  for (const { id } of hosts) {
    const places = fitVolumes(needs.pools, id, needs.disks)
    if (!places) withoutStorage.add(id)
    else if ([...places.values()].some(pool => pool.encrypted)) encryptedOn.add(id)
  }
  return { withoutStorage, encryptedOn, needs: ['volumes'], ...(needs.pinnedTo ? { pinnedTo: needs.pinnedTo } : {}) }
}

/**
 * Assigns the volumes to the VM, in the transaction that places the VM or attaches a volume to it later.
 * @throws Error if another transaction has taken a volume first; the caller must roll back
 */
export async function claimDisks(tx: Tx, vmId: string, hostId: string, needs: DiskNeeds): Promise<void> {
  const places = fitVolumes(needs.pools, hostId, needs.disks)
  for (const disk of needs.disks) {
    const pool = places?.get(disk.volumeId)
    if (!pool) throw new Error(`the host has no room for volume ${disk.name} any more`)
    const generation = await store.take(tx, disk, { hostId, pool: pool.name, bound: !pool.shared })
    if (generation === undefined || !(await store.insert(tx, vmId, disk.attachmentId, generation)))
      throw new Error(`volume ${disk.name} was taken by another VM`)
    await poke(tx, 'volume', disk.volumeId)
  }
}

/** Reasons why a volume cannot be attached to a running VM now. */
export type ClaimObstacle = PoolObstacle | 'moving' | 'gone'

/**
 * Attaches a volume to one running VM of the deployment. The caller's transaction has already created the attachment.
 * @returns the reason why the volume cannot be attached; undefined if it was assigned to the VM
 */
export async function claimRunning(
  tx: Tx,
  vmId: string,
  hostId: string,
  volumeId: string,
): Promise<ClaimObstacle | undefined> {
  const needs = await diskNeeds(tx, vmId)
  const disk = needs.disks.find(one => one.volumeId === volumeId)
  if (!disk) return 'gone'
  const obstacle = poolObstacle(needs.pools, hostId, disk)
  if (obstacle) return obstacle
  // Lock the VM's row, as the start of a migration does, so that whichever transaction locks second sees the changes of
  // the other.
  await store.raise(tx, vmId)
  if (await store.isMoving(tx, vmId)) return 'moving'
  await claimDisks(tx, vmId, hostId, { ...needs, disks: [disk] })
  await poke(tx, 'vm', vmId)
  return undefined
}

/**
 * Detaches the attachment's volume from every VM, and returns the number of those VMs. The attachment is deleted once
 * the last VM has released the volume.
 */
export async function unclaim(tx: Tx, attachmentId: string): Promise<number> {
  const vmIds = await store.markDeleted(tx, attachmentId)
  for (const vmId of vmIds) {
    await store.raise(tx, vmId)
    await poke(tx, 'vm', vmId)
  }
  return vmIds.length
}

/** Releases the volumes of a VM that no longer exists. */
export async function releaseDisks(tx: Tx, vmId: string): Promise<void> {
  const attachmentIds = await store.dropAll(tx, vmId)
  if (attachmentIds.length > 0) await store.settle(tx, attachmentIds)
}

/** Deletes the attachments that belong only to this deployment, which has no VMs left. */
export const dropRuntimeAttachments = (tx: Tx, deploymentId: string) => store.settleDeployment(tx, deploymentId)

/** Records what the host has reported about the VM's volumes. */
export async function recordDisks(tx: Tx, hostId: string, observed: VmObserved): Promise<void> {
  const held = await store.held(tx, observed.vmId, hostId)
  const released: string[] = []
  for (const disk of held) {
    const found = observed.disks?.find(one => one.volumeId === disk.volumeId)
    if (!found && disk.want === 'absent' && observed.generation >= disk.vmGeneration) {
      await store.drop(tx, observed.vmId, disk.volumeId)
      released.push(disk.attachmentId)
      continue
    }
    const state = found?.state ?? null
    const error = found?.error ?? null
    if (state === disk.observedState && error === disk.observedError) continue
    await store.note(tx, observed.vmId, disk.volumeId, state, error)
    if (state === 'failed' && disk.observedState !== 'failed') await warn(tx, disk, error)
  }
  if (released.length === 0) return
  await store.settle(tx, released)
  await pokeWaiting(tx)
}

const warn = (tx: Tx, disk: store.HeldDisk, error: string | null) =>
  notify(tx, {
    projectId: disk.projectId,
    kind: 'volume.trouble',
    title: `Volume ${disk.volumeName} could not be attached`,
    body: `${error ?? 'The host did not say why.'} The host retries.`,
    entityName: disk.volumeName,
    resourceId: disk.volumeId,
    route: '/volumes',
  })
