/** Stores the request counts that gateways report. */
import { Value } from 'typebox/value'
import type { Subscription } from '../../bus/bus.ts'
import { CountsReport, countsSubject } from '../../contract/request-counts.ts'
import { minutes, seconds } from '../../lib/duration.ts'
import type { Deps } from '../base/deps.ts'
import { addCanaryCounts, addVmCounts } from '../deployments/index.ts'
import { floorTo, steps } from './rules.ts'
import * as store from './store.ts'

/**
 * Maximum age of a report. The requests of an older report are counted at the current time. Rows are summed into
 * coarser ones only after this time (sweep.ts).
 */
export const latestMs = minutes(9)

export const startCountsReceiver = ({ bus, db, clock, log }: Pick<Deps, 'bus' | 'db' | 'clock' | 'log'>) =>
  bus.serve(
    countsSubject,
    async data => {
      if (!Value.Check(CountsReport, data)) {
        // Confirm a malformed report, because the gateway would otherwise send it forever.
        log.warn('a gateway reported requests in a form that this program does not know; they are not counted')
        return {}
      }
      const nowMs = clock.now().getTime()
      // False for a delayed report, or if the gateway's clock is wrong.
      const isPlausible = data.atMs <= nowMs && data.atMs > nowMs - latestMs
      const at = new Date(floorTo(isPlausible ? data.atMs : nowMs, seconds(steps[0])))
      await db.tx(async tx => {
        if (!(await store.accept(tx, data))) return
        if (data.apps.length > 0) await store.addRequests(tx, at, data.apps)
        await addVmCounts(tx, data.vms ?? [])
        await addCanaryCounts(tx, data.canaries ?? [])
      })
      return {}
    },
    { group: 'control' },
  ) satisfies Promise<Subscription>
