/**
 * The hosts as placements see them: read a moment ago, less what was proposed lately. Reading a hundred hosts for every VM
 * was nine tenths of a placement; and without the proposals all VMs of that moment would go to the same host. It may be
 * wrong either way: the reservation decides.
 */
import type { Clock } from '../../lib/clock.ts'
import type { HostRow } from './store.ts'

const freshMs = 250
/** Until a proposal has been committed, or was in vain. */
const commitMs = 500

interface Room {
  readonly vcpus: number
  readonly memoryMib: number
  readonly diskMib: number
}

export interface Candidates {
  /** @param fresh what is known may be too old for this question */
  list(fresh?: boolean): Promise<readonly HostRow[]>
  /** Hosts that were proposed for other VMs of the deployment, and may not be seen as theirs yet. */
  proposedFor(deploymentId: string): ReadonlySet<string>
  /** Somebody is about to reserve room there. */
  propose(hostId: string, vm: Room & { readonly deploymentId: string }): void
  /** What is known has proved wrong. */
  forget(): void
}

interface Known {
  readonly hosts: Promise<Map<string, HostRow>>
  readonly atMs: number
}
interface Proposal {
  readonly hostId: string
  readonly vm: Room & { readonly deploymentId: string }
  readonly atMs: number
}

export function createCandidates(
  load: () => Promise<readonly HostRow[]>,
  clock: Pick<Clock, 'monotonicMs'>,
): Candidates {
  let known: Known | undefined
  let reading = false
  let proposals: readonly Proposal[] = []
  const recent = () => {
    const sinceMs = clock.monotonicMs() - commitMs
    proposals = proposals.filter(one => one.atMs > sinceMs)
    return proposals
  }
  const read = (): Known => {
    reading = true
    const hosts = load()
      .then(rows => new Map(rows.map(host => [host.id, host])))
      .finally(() => {
        reading = false
      })
    const mine: Known = { hosts, atMs: clock.monotonicMs() }
    known = mine
    hosts.catch(() => {
      if (known === mine) known = undefined
    })
    return mine
  }
  const isFresh = (at: Known) => clock.monotonicMs() - at.atMs <= freshMs
  return {
    async list(fresh = false) {
      // Many that wait for room ask together: one look is enough for all of them.
      const now = known && (reading || (!fresh && isFresh(known))) ? known : read()
      const hosts = new Map(await now.hosts)
      // What a read may have seen already counts twice for a moment; whoever finds no room then asks for a fresh one.
      if (!fresh)
        for (const { hostId, vm } of recent()) {
          const host = hosts.get(hostId)
          if (host) hosts.set(hostId, withLess(host, vm))
        }
      return [...hosts.values()]
    },
    proposedFor: id => new Set(recent().flatMap(one => (one.vm.deploymentId === id ? [one.hostId] : []))),
    propose(hostId, { vcpus, memoryMib, diskMib, deploymentId }) {
      const vm = { vcpus, memoryMib, diskMib, deploymentId }
      proposals = [...recent(), { hostId, vm, atMs: clock.monotonicMs() }]
    },
    forget() {
      known = undefined
    },
  }
}

const withLess = (host: HostRow, room: Room): HostRow => ({
  ...host,
  usedVcpus: host.usedVcpus + room.vcpus,
  usedMemoryMib: host.usedMemoryMib + room.memoryMib,
  usedDiskMib: host.usedDiskMib + room.diskMib,
})
