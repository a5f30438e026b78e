/**
 * Computes how many VMs of one size the hosts can run. Pure. The numbers may be outdated; only a reservation ensures
 * capacity.
 */
import { explainNever, fitsEmpty, type HostView, type Placement, type PlacementRequest, place } from './place.ts'

export interface Room {
  /** Placement of the first VM. */
  readonly placement: Placement
  /** Number of VMs that fit in addition to the running ones. */
  readonly now: number
  /**
   * Number of VMs that would fit on empty hosts. Infinite while there are no hosts, because a host that joins later
   * may have any size.
   */
  readonly ever: number
  /** Sentence for users that explains why there cannot be more VMs than `ever`. */
  readonly limit: string
}

export function roomFor(hosts: readonly HostView[], request: PlacementRequest): Room {
  const placement = place(hosts, request)
  const sum = (countOf: (host: HostView) => number) => hosts.reduce((count, host) => count + countOf(host), 0)
  return {
    placement,
    now: sum(host => (place([host], request).host ? timesIn(leftOn(host), request) : 0)),
    ever:
      hosts.length === 0
        ? Number.POSITIVE_INFINITY
        : sum(host => (mayTake(host, request) ? timesIn(host, request) : 0)),
    limit: explainNever(place(hosts.map(emptied), request), request, hosts),
  }
}

type Size = Pick<HostView, 'vcpus' | 'memoryMib' | 'diskMib'>

const timesIn = (room: Size, one: Size) =>
  Math.max(0, Math.floor(Math.min(...(['vcpus', 'memoryMib', 'diskMib'] as const).map(what => room[what] / one[what]))))

const leftOn = (host: HostView): Size => ({
  vcpus: host.vcpus - host.usedVcpus,
  memoryMib: host.memoryMib - host.usedMemoryMib,
  diskMib: host.diskMib - host.usedDiskMib,
})

const emptied = (host: HostView): HostView => ({ ...host, usedVcpus: 0, usedMemoryMib: 0, usedDiskMib: 0 })

const mayTake = (host: HostView, request: PlacementRequest) =>
  fitsEmpty(host, request) && place([host], request).couldFit
