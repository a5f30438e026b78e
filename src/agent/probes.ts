import type { HypervisorOffer } from '../contract/agent.ts'
import type { Driver } from './hypervisor/driver.ts'
import { featuresOf } from './hypervisor/features.ts'

export interface Probes {
  /** The state of each hypervisor on this host, as known now; one whose probe has not ended is unavailable. */
  readonly offers: () => HypervisorOffer[]
  /** Resolves when all drivers have been probed. */
  readonly done: Promise<void>
}

/**
 * Probes all hypervisors. The first probe takes seconds (the kernel is fetched, KVM is tested); meanwhile the agent
 * already serves requests.
 */
export function probeAll(drivers: Iterable<Driver>, signal: AbortSignal): Probes {
  const offers = new Map<Driver, HypervisorOffer>()
  const all = [...drivers].map(async driver => {
    const { name, capabilities } = driver
    const features = featuresOf(driver)
    offers.set(driver, { name, available: false, probing: true, detail: 'being probed', capabilities, features })
    const result = await driver.probe(signal).catch((error: unknown) => ({ available: false, detail: String(error) }))
    const [snapshotKind] = result.available ? await kindsOf([driver]) : []
    const kind = snapshotKind === undefined ? {} : { snapshotKind }
    offers.set(driver, { name, ...result, ...kind, capabilities, features })
  })
  return { offers: () => [...offers.values()], done: Promise.all(all).then(() => undefined) }
}

/**
 * Returns the `madeBy` values of snapshots that would be taken on this host now, by drivers whose snapshots can move
 * between hosts.
 */
export async function kindsOf(drivers: Iterable<Driver>): Promise<string[]> {
  const movable = [...drivers].filter(driver => driver.movesSnapshots)
  const kinds = await Promise.all(movable.map(driver => driver.snapshotKind?.().catch(() => undefined)))
  return kinds.filter(kind => kind !== undefined)
}
