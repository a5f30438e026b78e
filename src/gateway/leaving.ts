/**
 * Reports to control how many requests each VM that is about to leave its host still has at this gateway. The count is
 * zero once no route of the app leads to the VM and its last pending request has ended.
 */
import type { LeavingVm, TrafficReport } from '../contract/gateway.ts'
import type { BackendPools } from './backends.ts'
import type { RouteTable } from './route-table.ts'

export interface Leaving {
  /** Returns the data for the next report; undefined: no VM is leaving. */
  take(): TrafficReport['leaving']
}

/**
 * Watches for VMs that are about to leave their hosts. @param onNews called on a change that must be reported to
 * control at once
 */
export function watchLeaving(
  table: Pick<RouteTable, 'ofApp' | 'onChange'>,
  pools: Pick<BackendPools, 'underWay' | 'onIdle'>,
  onNews: () => void,
): Leaving {
  const byApp = new Map<string, readonly LeavingVm[]>()
  const leavingNow = () => [...byApp.values()].flat()
  table.onChange(({ appId }) => {
    const before = byApp.get(appId)
    const now = leavingOf(table, appId)
    if (now.length > 0) byApp.set(appId, now)
    else byApp.delete(appId)
    if (now.length > 0 || before) onNews()
  })
  pools.onIdle(vmId => {
    if (leavingNow().some(one => one.vmId === vmId)) onNews()
  })
  const openAt = (appId: string, vmId: string) => {
    const isRouted = table.ofApp(appId).some(({ backends }) => backends.some(one => one.vmId === vmId))
    return pools.underWay(vmId) + (isRouted ? 1 : 0)
  }
  return {
    take() {
      if (byApp.size === 0) return undefined
      return [...byApp].flatMap(([appId, all]) =>
        all.map(({ vmId, moveId }) => ({ moveId, open: openAt(appId, vmId) })),
      )
    },
  }
}

/** Returns the app's VMs that are about to leave, each move once even if the app has several hostnames. */
export function leavingOf(table: Pick<RouteTable, 'ofApp'>, appId: string): readonly LeavingVm[] {
  const all = table.ofApp(appId).flatMap(({ leaving = [] }) => leaving)
  return [...new Map(all.map(one => [one.moveId, one])).values()]
}
