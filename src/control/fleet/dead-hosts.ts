/**
 * Detects hosts that have stopped reporting. A silent host is suspected first, and gets no new VMs. If it is silent for
 * the same time again, and does not respond to a direct request either, it is lost: one commit fences its VMs (later
 * reports about them are ignored), and other hosts start replacements.
 */
import type { Sweep } from '../../engine/sweep.ts'
import { seconds } from '../../lib/duration.ts'
import type { Deps } from '../base/deps.ts'
import { agentClient, loseHost, silentHosts, suspectHost, touchHosts } from '../hosts/index.ts'
import { abandonVmsOf } from '../vms/index.ts'
import { reportLoss } from './lost-host.ts'

const pingMs = 2000

export const deadHosts = (deps: Pick<Deps, 'db' | 'bus' | 'config' | 'log'>): Sweep => ({
  name: 'dead-hosts',
  everyMs: seconds(Math.max(1, Math.min(5, deps.config.hostTimeoutSeconds / 3))),
  async run({ signal }) {
    const counts = { silent: 0, answered: 0, lost: 0, vms: 0 }
    // If the bus is down, all hosts look silent, so none is suspected or lost.
    if (!deps.bus.connected()) return counts
    for (const host of await silentHosts(deps.db, deps.config.hostTimeoutSeconds)) {
      counts.silent++
      if (await answers(deps, host.id, signal)) {
        counts.answered += await touchHosts(deps.db, [host.id])
      } else if (host.overdue) {
        const vms = await give(deps, host)
        if (vms === undefined) continue
        counts.lost++
        counts.vms += vms
      } else await suspectHost(deps.db, host.id, deps.config.hostTimeoutSeconds)
    }
    return counts
  },
})

const answers = (deps: Pick<Deps, 'bus'>, hostId: string, signal: AbortSignal) =>
  agentClient(deps.bus, hostId)
    .ping(AbortSignal.any([signal, AbortSignal.timeout(pingMs)]))
    .then(
      () => true,
      () => false,
    )

/** Marks the host as lost and returns the number of its VMs; undefined when it has reported in the meantime. */
async function give(
  deps: Pick<Deps, 'db' | 'config' | 'log'>,
  host: { id: string; name: string },
): Promise<number | undefined> {
  const vms = await deps.db.tx(async tx => {
    if (!(await loseHost(tx, host.id, deps.config.hostTimeoutSeconds))) return undefined
    const count = await abandonVmsOf(tx, host.id)
    await reportLoss(tx, host, count)
    return count
  })
  if (vms !== undefined)
    // Log a warning, not an error: operators get a notification and an alert, and the host may come back.
    deps.log.warn({ hostId: host.id, host: host.name, vms }, 'a host is lost; its VMs start on other hosts')
  return vms
}
