/**
 * Allocates IPv4 address pairs to taps. The kernel stores the addresses on the taps themselves; this is an index of
 * them.
 */
import { type AgentAddresses, agentAddresses, usablePairs } from './addresses.ts'

export interface AddressBook {
  /** The address range from which pairs are allocated now. */
  readonly addresses: AgentAddresses
  /**
   * Allocates an address pair for the tap, or returns the pair that the tap has already (`isNew` false). Synchronous,
   * so that VMs that start at the same time cannot get the same pair.
   */
  take(tap: string): { readonly index: number; readonly isNew: boolean }
  free(tap: string): void
  /** Returns the tap of the guest that has this address. */
  tapAt(guest: string): string | undefined
  /** Records the address of a tap that already exists. Returns false if the address is outside the range. */
  restore(tap: string, host: string): boolean
  /** Switches to another range (a /20 as CIDR). Returns false while a guest still has an address of the old range. */
  change(guests: string): boolean
}

export function addressBook(guests: string): AddressBook {
  let addresses = agentAddresses(guests)
  const indexes = new Map<string, number>()
  return {
    get addresses() {
      return addresses
    },
    take(tap) {
      const known = indexes.get(tap)
      const index = known ?? freeIndex(indexes)
      indexes.set(tap, index)
      return { index, isNew: known === undefined }
    },
    free: tap => void indexes.delete(tap),
    tapAt(guest) {
      const index = addresses.indexOf(addresses.hostOf(guest))
      return [...indexes].find(([, at]) => at === index)?.[0]
    },
    restore(tap, host) {
      const index = addresses.indexOf(host)
      if (index !== undefined) indexes.set(tap, index)
      return index !== undefined
    },
    change(next) {
      if (indexes.size > 0) return false
      addresses = agentAddresses(next)
      return true
    },
  }
}

function freeIndex(indexes: ReadonlyMap<string, number>): number {
  const used = new Set(indexes.values())
  for (let index = 0; index < usablePairs; index++) if (!used.has(index)) return index
  throw new Error(`all ${usablePairs} guest addresses of this agent are taken`)
}
