import type { Sweep } from '../../engine/sweep.ts'
import { hours } from '../../lib/duration.ts'
import type { Deps } from '../base/deps.ts'
import { forgetSources } from './sources.ts'
import { forgetLogsBefore } from './log.ts'

const keptForMs = hours(24 * 30)

export const buildLogRetention = ({ db }: Pick<Deps, 'db'>): Sweep => ({
  name: 'build-log-retention',
  everyMs: hours(1),
  run: async ({ now }) => ({ removed: await forgetLogsBefore(db, new Date(now.getTime() - keptForMs)) }),
})

export const sourceRetention = ({ config }: Pick<Deps, 'config'>): Sweep => ({
  name: 'source-retention',
  everyMs: hours(1),
  run: async ({ now }) => ({ removed: await forgetSources(config.sourceDir, now) }),
})
