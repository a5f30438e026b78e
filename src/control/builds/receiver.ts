import { Value } from 'typebox/value'
import type { Subscription } from '../../bus/bus.ts'
import { BuildObserved, subjects } from '../../contract/agent.ts'
import { poke } from '../../engine/runner.ts'
import { isUuid } from '../../lib/ids.ts'
import type { Deps } from '../deps.ts'

/** Hosts say when a build has moved; its machine looks for itself. */
export const startBuildReceiver = (deps: Pick<Deps, 'db' | 'bus'>): Promise<Subscription> =>
  deps.bus.subscribe(
    subjects.allBuilds,
    async message => {
      const { buildId } = Value.Parse(BuildObserved, message.data)
      if (isUuid(buildId)) await deps.db.tx(tx => poke(tx, 'build', buildId))
    },
    { group: 'control' },
  )
