import type { Sweep } from '../../engine/sweep.ts'
import { hours } from '../../lib/duration.ts'
import type { Deps } from '../base/deps.ts'
import * as store from './store.ts'

const historyMs = 30 * hours(24)

/** The sweep that deletes runs a month after they ended. */
export const runRetention = ({ db }: Pick<Deps, 'db'>): Sweep => ({
  name: 'run-retention',
  everyMs: hours(1),
  async run({ now }) {
    return { forgotten: await store.removeOld(db, new Date(now.getTime() - historyMs)) }
  },
})
