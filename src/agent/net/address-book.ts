/** Which guest has which IPv4 address. Kept by the kernel, on the taps themselves; this is what is known of it. */
import { type AgentAddresses, agentAddresses, usablePairs } from './addresses.ts'

export interface AddressBook {
  /** Those that are given out now. */
  readonly addresses: AgentAddresses
  /** The tap's pair; `isNew`: it had none. Nothing is waited for: VMs that start at once must not choose the same pair. */
  take(tap: string): { readonly index: number; readonly isNew: boolean }
  free(tap: string): void
  /** The tap of the guest with this address. */
  tapAt(guest: string): string | undefined
  /** What a tap was found to have. False: none of these addresses. */
  restore(tap: string, host: string): boolean
  /** Other addresses (CIDR, /20) from now on. False: a guest still has one of these. */
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
