import { type Tx, statement } from '../../db/db.ts'
import type { Deps } from '../base/deps.ts'
import { hostRooms } from '../hosts/index.ts'
import { ApiError, invalidState } from '../http/errors.ts'
import { type Room, roomFor } from '../scheduler/room.ts'
import { type HostSettings, wishesOf } from '../scheduler/wishes.ts'
import { appDiskNeeds, hypervisorName, storageRequest } from '../vms/index.ts'
import * as store from './store.ts'

interface Shape {
  readonly hypervisor: number
  readonly vcpus: number
  readonly memoryMib: number
  readonly diskMib: number
}

const hostsOfApp = statement<{ hosts: HostSettings | null }>(
  'deployments.hostsOfApp',
  `SELECT hosts FROM app WHERE id = $1`,
)

/** Computes how many VMs of this shape fit on the hosts, now and if the hosts were empty. */
export async function roomOf(deps: Pick<Deps, 'config'>, tx: Tx, appId: string, shape: Shape): Promise<Room> {
  const hosts = await hostRooms(tx, deps.config.hostTimeoutSeconds)
  const app = await tx.maybe(hostsOfApp, [appId])
  return roomFor(hosts, {
    hypervisor: hypervisorName(shape.hypervisor),
    vcpus: shape.vcpus,
    memoryMib: shape.memoryMib,
    diskMib: shape.diskMib,
    siblings: new Set<string>(),
    wishes: wishesOf(app?.hosts ?? null, deps.config.publicLabels),
    ...storageRequest(await appDiskNeeds(tx, appId), hosts),
  })
}

/**
 * Refuses a number of replicas that the hosts could never run.
 * @throws ApiError 409 when the VMs would not fit even on empty hosts
 */
export function assertRoomEver({ ever, limit, placement }: Room, replicas: number): void {
  if (replicas <= ever) return
  const isUnoffered = placement.rejected.some(({ reason }) => reason.startsWith('hypervisor'))
  if (ever === 0) throw new ApiError(isUnoffered ? 'unsupported_by_hypervisor' : 'invalid_state', `${limit}.`)
  throw invalidState(
    `The hosts can hold at most ${ever} ${ever === 1 ? 'VM' : 'VMs'} of this size, even when nothing else runs; ${replicas} were requested. Request fewer, or add a host.`,
  )
}

/** Explains how many of the additional VMs have to wait for capacity; undefined when none has to wait. */
export const waitingFor = ({ now }: Room, more: number) =>
  more <= now ? undefined : `There is room for ${now} of ${more} VMs now; the others start when other VMs leave.`

/**
 * Checks whether the hosts can run that many VMs of the deployment.
 * @returns text for users about the VMs that have to wait; undefined when none has to wait
 * @throws ApiError 409 when the VMs would not fit even on empty hosts
 */
export async function assertHostsHold(
  deps: Pick<Deps, 'config'>,
  tx: Tx,
  deploymentId: string,
  replicas: number,
): Promise<string | undefined> {
  const d = await store.byId(tx, deploymentId)
  if (!d) return undefined
  const room = await roomOf(deps, tx, d.appId, d)
  assertRoomEver(room, replicas)
  const running = d.vms.filter(vm => vm.want !== 'absent' && vm.hostId !== null).length
  return waitingFor(room, Math.max(0, replicas - running))
}
