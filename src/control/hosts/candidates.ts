/**
 * A short-lived cache of hosts for placements, reduced by what was placed since the read. Reading a hundred hosts for
 * every VM took nine tenths of the time of a placement. Without subtracting what was placed, all VMs within the cache's
 * lifetime would go to the same host. The cache may show too much or too little free capacity: the reservation decides.
 */
import type { Clock } from '../../lib/clock.ts'
import type { HostView } from '../scheduler/place.ts'

const freshMs = 250

interface Room {
  readonly vcpus: number
  readonly memoryMib: number
  readonly diskMib: number
}

export interface Candidates {
  /**
   * Returns the hosts with their free resources.
   * @param fresh true to read them again, if outdated numbers could lead to a wrong decision
   * @returns a list that `take` modifies
   */
  list(fresh?: boolean): Promise<readonly HostView[]>
  /** Subtracts resources from a host, because they are about to be reserved. */
  take(hostId: string, room: Room): void
  /** Drops the cached hosts after a failed reservation has shown that they are outdated. */
  forget(): void
}

/**
 * Creates the cache. Meant for few concurrent callers: if two callers read at the same time, one may not see what the
 * other took.
 */
export function createCandidates(
  load: () => Promise<readonly HostView[]>,
  clock: Pick<Clock, 'monotonicMs'>,
): Candidates {
  let known:
    | { readonly hosts: HostView[]; readonly places: ReadonlyMap<string, number>; readonly atMs: number }
    | undefined
  return {
    async list(fresh = false) {
      const atMs = clock.monotonicMs()
      if (fresh || !known || atMs - known.atMs > freshMs) {
        const hosts = [...(await load())]
        known = { hosts, places: new Map(hosts.map((host, place) => [host.id, place])), atMs }
      }
      return known.hosts
    },
    take(hostId, room) {
      const place = known?.places.get(hostId)
      const host = place === undefined ? undefined : known?.hosts[place]
      if (known && host && place !== undefined) known.hosts[place] = withLess(host, room)
    },
    forget() {
      known = undefined
    },
  }
}

const withLess = (host: HostView, room: Room): HostView => ({
  ...host,
  usedVcpus: host.usedVcpus + room.vcpus,
  usedMemoryMib: host.usedMemoryMib + room.memoryMib,
  usedDiskMib: host.usedDiskMib + room.diskMib,
})
