/**
 * The hosts as placements see them: read a moment ago, less what was taken there since. Reading a hundred hosts for every
 * VM was nine tenths of a placement; and without what was taken all VMs of that moment would go to the same host. It may be
 * wrong either way: the reservation decides.
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
   * @param fresh what is known may be too old for this question
   * @returns what changes with each `take`
   */
  list(fresh?: boolean): Promise<readonly HostView[]>
  /** Room there is about to be reserved. */
  take(hostId: string, room: Room): void
  /** What is known has proved wrong. */
  forget(): void
}

/** For few that ask at a time: of two that read at once one may not see what the other took. */
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
