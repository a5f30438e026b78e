/** Handles messages of gateways: traffic reports, and requests to wake sleeping apps. */
import { Value } from 'typebox/value'
import type { Subscription } from '../../bus/bus.ts'
import { TrafficReport, WakeRequest, gatewaySubjects } from '../../contract/gateway.ts'
import type { Tx } from '../../db/db.ts'
import { poke, pokeMany } from '../../engine/runner.ts'
import type { Sweep } from '../../engine/sweep.ts'
import { seconds } from '../../lib/duration.ts'
import { isUuid } from '../../lib/ids.ts'
import { wakeNow } from '../deployments/index.ts'
import type { Deps } from '../base/deps.ts'
import type { LiveStats } from '../hosts/index.ts'
import { refreshRoute } from '../routing/index.ts'
import { type PlacedVm, desiredVms } from '../vms/index.ts'
import * as store from './store.ts'

/** Wakes a sleeping app. Idempotent: only one of many concurrent calls changes the app. */
export async function wakeApp(tx: Tx, appId: string): Promise<void> {
  const woken = await store.wakeUp(tx, appId)
  if (woken) await follow(tx, appId, woken)
}

async function follow(tx: Tx, appId: string, { deploymentId, state }: store.Woken): Promise<void> {
  // Keep the route of the sleeping app while the app is warming up, because it has no VM yet.
  if (state === 'active') await refreshRoute(tx, appId)
  if (deploymentId) await poke(tx, 'deployment', deploymentId)
}

/**
 * Wakes an app for a request that a gateway holds. If the host of the app's sleep snapshot is usable, one transaction
 * makes all changes that the workflows would otherwise make one after another. The transaction must contain no other
 * work: it locks a host and a VM after the app, so locks taken before could cause a deadlock.
 * @param afterMs delay before the workflows run; in the meantime the caller contacts the host
 * @returns the VM to start
 */
export async function wakeAppNow(
  tx: Tx,
  appId: string,
  { hostTimeoutSeconds, afterMs }: { readonly hostTimeoutSeconds: number; readonly afterMs: number },
): Promise<PlacedVm | undefined> {
  const woken = await store.wakeUpWithBed(tx, appId, hostTimeoutSeconds)
  if (!woken) return undefined
  const vm = woken.bed ? await wakeNow(tx, woken.bed, afterMs) : undefined
  if (!vm) await follow(tx, appId, woken)
  return vm
}

/** Delay before the workflows continue a wake-up whose first steps `wakeAppNow` has made. */
const workflowsAfterMs = seconds(1)
const reportTimeoutMs = seconds(5)

/** Records the times of requests. An app that was about to scale to zero stays awake if it got a request. */
export async function recordTraffic(tx: Tx, traffic: readonly store.Traffic[]): Promise<void> {
  for (const appId of await store.recordRequests(tx, traffic)) await wakeApp(tx, appId)
}

type ReceiverDeps = Pick<Deps, 'db' | 'bus' | 'clock' | 'config' | 'vault' | 'log'> & { readonly live: LiveStats }

export async function startGatewayReceiver(deps: ReceiverDeps): Promise<Subscription> {
  const { hostTimeoutSeconds } = deps.config
  const desiredStates = desiredVms(deps)
  const stopping = new AbortController()
  /** Sends the VM's desired state to its host. If that fails, the VM's workflow sends it a moment later. */
  const notify = (vm: PlacedVm) =>
    desiredStates
      .put(vm, AbortSignal.any([stopping.signal, AbortSignal.timeout(reportTimeoutMs)]))
      .catch((cause: unknown) => deps.log.warn({ err: cause, vmId: vm.id }, 'could not send a waking VM to its host'))
  const waking = await deps.bus.serve(
    gatewaySubjects.wake,
    async data => {
      const { appId } = Value.Parse(WakeRequest, data)
      if (!isUuid(appId)) return {}
      const vm = await deps.db.tx(tx => wakeAppNow(tx, appId, { hostTimeoutSeconds, afterMs: workflowsAfterMs }))
      if (vm) void notify(vm)
      return {}
    },
    { group: 'control' },
  )
  const traffic = await deps.bus.subscribe(
    gatewaySubjects.traffic,
    async message => {
      const { atMs, apps, leaving = [] } = Value.Parse(TrafficReport, message.data)
      // Converts the gateway's times of requests to ages, so that its clock need not agree with ours. An app with open
      // requests has the age 0.
      const asked = apps
        .filter(app => isUuid(app.appId) && (app.requests > 0 || app.open > 0))
        .map(app => ({ appId: app.appId, ageMs: app.open > 0 ? 0 : Math.max(0, atMs - app.lastRequestAtMs) }))
      if (asked.length > 0) await deps.db.tx(tx => recordTraffic(tx, asked))
      const drained = leaving.filter(one => one.open === 0 && isUuid(one.moveId)).map(({ moveId }) => moveId)
      if (drained.length > 0) await deps.db.tx(tx => pokeMany(tx, 'migration', drained))
    },
    { group: 'control' },
  )
  // Every control plane receives the reports of all gateways and keeps their live metrics.
  const numbers = await deps.bus.subscribe(gatewaySubjects.traffic, message => {
    const report = Value.Parse(TrafficReport, message.data)
    const nowMs = deps.clock.now().getTime()
    deps.live.requests.record(report, nowMs)
    deps.live.drains.record(report, nowMs)
  })
  return {
    async stop() {
      stopping.abort()
      await numbers.stop()
      await waking.stop()
      await traffic.stop()
    },
  }
}

/**
 * The sweep that marks apps without recent requests as idle, if they may scale to zero, and stops routing to them.
 * Their deployment workflows then stop the VMs.
 */
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
