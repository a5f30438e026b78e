/**
 * The hosts as placements see them: read a moment ago, less what was proposed since. Reading a hundred hosts for every VM
 * was nine tenths of a placement; and without the proposals all VMs of that moment would go to the same host. It may be
 * wrong either way: the reservation decides.
 */
import type { Clock } from '../../lib/clock.ts'
import type { HostRow } from './store.ts'

const freshMs = 250

interface Room {
  readonly vcpus: number
  readonly memoryMib: number
  readonly diskMib: number
}

export interface Candidates {
  /** @param fresh what is known may be too old for this question */
  list(fresh?: boolean): Promise<readonly HostRow[]>
  /** Somebody is about to reserve room there. */
  propose(hostId: string, room: Room): void
  /** What is known has proved wrong. */
  forget(): void
}

export function createCandidates(
  load: () => Promise<readonly HostRow[]>,
  clock: Pick<Clock, 'monotonicMs'>,
): Candidates {
  let known: { readonly hosts: Promise<Map<string, HostRow>>; readonly atMs: number } | undefined
  let reading = false
  const read = () => {
    reading = true
    const hosts = load()
      .then(rows => new Map(rows.map(host => [host.id, host])))
      .finally(() => {
        reading = false
      })
    const mine = { hosts, atMs: clock.monotonicMs() }
    known = mine
    hosts.catch(() => {
      if (known === mine) known = undefined
    })
    return mine
  }
  const isFresh = () => known !== undefined && clock.monotonicMs() - known.atMs <= freshMs
  return {
    async list(fresh = false) {
      // Many that wait for room ask together: one look is enough for all of them.
      const enough = known && (reading || (!fresh && isFresh()))
      return [...(await (enough && known ? known : read()).hosts).values()]
    },
    propose(hostId, room) {
      void known?.hosts.then(hosts => {
        const host = hosts.get(hostId)
        if (host)
          hosts.set(hostId, {
            ...host,
            usedVcpus: host.usedVcpus + room.vcpus,
            usedMemoryMib: host.usedMemoryMib + room.memoryMib,
            usedDiskMib: host.usedDiskMib + room.diskMib,
          })
      })
    },
    forget() {
      known = undefined
    },
  }
}
