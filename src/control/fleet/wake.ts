/** What gateways say and ask: how busy apps are, and to wake one that sleeps. */
import { Value } from 'typebox/value'
import type { Subscription } from '../../bus/bus.ts'
import { TrafficReport, WakeRequest, gatewaySubjects } from '../../contract/gateway.ts'
import type { Tx } from '../../db/db.ts'
import { poke } from '../../engine/runner.ts'
import type { Sweep } from '../../engine/sweep.ts'
import { seconds } from '../../lib/duration.ts'
import { isUuid } from '../../lib/ids.ts'
import type { Deps } from '../deps.ts'
import type { LiveStats } from '../hosts/index.ts'
import { refreshRoute } from '../routing/index.ts'
import * as store from './scale-store.ts'

/** Idempotent: of many requests that find the app asleep one changes something. */
export async function wakeApp(tx: Tx, appId: string): Promise<void> {
  const woken = await store.wake(tx, appId)
  if (!woken) return
  await refreshRoute(tx, appId)
  if (woken.deploymentId) await poke(tx, 'deployment', woken.deploymentId)
}

/** They stay awake, or are woken again if they were about to fall asleep. */
export async function recordTraffic(tx: Tx, traffic: readonly store.Traffic[]): Promise<void> {
  for (const appId of await store.recordRequests(tx, traffic)) await wakeApp(tx, appId)
}

type ReceiverDeps = Pick<Deps, 'db' | 'bus' | 'clock'> & { readonly live: LiveStats }

export async function startGatewayReceiver(deps: ReceiverDeps): Promise<Subscription> {
  const waking = await deps.bus.serve(
    gatewaySubjects.wake,
    async data => {
      const { appId } = Value.Parse(WakeRequest, data)
      if (isUuid(appId)) await deps.db.tx(tx => wakeApp(tx, appId))
      return {}
    },
    { group: 'control' },
  )
  const traffic = await deps.bus.subscribe(
    gatewaySubjects.traffic,
    async message => {
      const { atMs, apps } = Value.Parse(TrafficReport, message.data)
      // Ages, so that the clock of a gateway does not matter. What is open is being served now.
      const asked = apps
        .filter(app => isUuid(app.appId) && (app.requests > 0 || app.open > 0))
        .map(app => ({ appId: app.appId, ageMs: app.open > 0 ? 0 : Math.max(0, atMs - app.lastRequestAtMs) }))
      if (asked.length > 0) await deps.db.tx(tx => recordTraffic(tx, asked))
    },
    { group: 'control' },
  )
  // Every control plane holds the live numbers.
  const numbers = await deps.bus.subscribe(gatewaySubjects.traffic, message =>
    deps.live.requests.record(Value.Parse(TrafficReport, message.data), deps.clock.now().getTime()),
  )
  return {
    async stop() {
      await numbers.stop()
      await waking.stop()
      await traffic.stop()
    },
  }
}

/** Apps that may scale to zero and were not asked for a while stop being routed; their deployments do the rest. */
export const idleApps = (deps: Pick<Deps, 'db' | 'config'>): Sweep => ({
  name: 'idle-apps',
  everyMs: seconds(Math.min(5, deps.config.idleSeconds / 2)),
  run: () =>
    deps.db.tx(async tx => {
      const apps = await store.idle(tx, deps.config.idleSeconds)
      for (const app of apps) {
        await refreshRoute(tx, app.id)
        await poke(tx, 'deployment', app.deploymentId)
      }
      return { idle: apps.length }
    }),
})
