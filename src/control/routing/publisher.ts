/**
 * Publishes routes to gateways: serves the whole table on request, and publishes changed routes when a NOTIFY arrives.
 * Every control plane publishes; gateways recognize duplicates by the version of a route.
 */
import { Value } from 'typebox/value'
import type { Subscription } from '../../bus/bus.ts'
import { RoutesRequest, gatewaySubjects } from '../../contract/gateway.ts'
import type { Sweep } from '../../engine/sweep.ts'
import { minutes } from '../../lib/duration.ts'
import type { Deps } from '../base/deps.ts'
import { forgetGoneBefore, since } from './store.ts'

export async function startRoutePublisher(deps: Pick<Deps, 'db' | 'bus' | 'log'>): Promise<Subscription> {
  let { version } = await since(deps.db, 0)
  let running: Promise<void> | undefined
  let again = false

  const publishChanges = async () => {
    do {
      again = false
      const changes = await since(deps.db, version)
      version = changes.version
      for (const route of changes.routes) await deps.bus.publish(gatewaySubjects.routeChanged, route)
    } while (again)
  }
  const poke = () => {
    again = true
    running ??= publishChanges()
      .catch((cause: unknown) => deps.log.warn({ err: cause }, 'could not publish routes; gateways will request them'))
      .finally(() => {
        running = undefined
      })
  }
  const listening = await deps.db.listen('route', poke)
  const serving = await deps.bus.serve(
    gatewaySubjects.routes,
    data => since(deps.db, Value.Parse(RoutesRequest, data).after),
    { group: 'control' },
  )
  return {
    async stop() {
      await serving.stop()
      await listening.stop()
      await running
    },
  }
}

/**
 * The sweep that deletes routes an hour after they were retired. By then, all gateways have received the retired
 * state.
 */
export const goneRoutes = (deps: Pick<Deps, 'db'>): Sweep => ({
  name: 'gone-routes',
  everyMs: minutes(10),
  run: async ({ now }) => ({ removed: await forgetGoneBefore(deps.db, new Date(now.getTime() - minutes(60))) }),
})
