import type { Sweep } from '../../engine/sweep.ts'
import { hours, minutes } from '../../lib/duration.ts'
import type { Deps } from '../base/deps.ts'
import { removeOlderThan } from './store.ts'

/** Retention of events, and so the maximum age of the event that a client can name in `Last-Event-ID`. */
const keptMs = hours(24)

export const eventRetention = (deps: Pick<Deps, 'db'>): Sweep => ({
  name: 'event-retention',
  everyMs: minutes(10),
  run: async ({ now }) => ({ removed: await removeOlderThan(deps.db, new Date(now.getTime() - keptMs)) }),
})
