import type { Sweep } from '../../engine/sweep.ts'
import { days, minutes } from '../../lib/duration.ts'
import type { Deps } from '../base/deps.ts'
import { agentClient } from '../hosts/index.ts'
import * as store from './store.ts'

/**
 * The sweep that deletes the records of which hosts have logs, and has hosts delete the logs of deleted apps. Hosts
 * delete expired lines by themselves.
 */
export const logRetention = ({ db, bus, config }: Pick<Deps, 'db' | 'bus' | 'config'>): Sweep => ({
  name: 'log-retention',
  everyMs: minutes(5),
  async run({ now, signal }) {
    const rows = await store.ofDeletedApps(db)
    let forgotten = 0
    let unreachable = 0
    for (const [hostId, ofHost] of Map.groupBy(rows, row => row.hostId)) {
      if (signal.aborted) break
      const appIds = ofHost.map(({ appId }) => appId)
      const isDone = await agentClient(bus, hostId)
        .forgetLogs(appIds, signal)
        .then(
          () => true,
          () => false,
        )
      if (isDone) forgotten += await store.forgotten(db, hostId, appIds)
      else unreachable++
    }
    const expired = await store.removeOld(db, new Date(now.getTime() - days(config.logDays)))
    return { forgotten, expired, unreachable }
  },
})
