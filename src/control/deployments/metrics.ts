import { setTimeout } from 'node:timers/promises'
import type { Deps } from '../base/deps.ts'
import type { LiveStats } from '../hosts/index.ts'
import type { EventStream } from '../http/operation.ts'
import type { metricsEvents } from './streams.ts'
import * as store from './store.ts'
import { liveView } from './view.ts'

/** Interval of the `metrics` events. Hosts report the metrics of their VMs once a second. */
const everyMs = 1000

/**
 * Streams the event `snapshot` once and `metrics` each second: the live metrics of the app's unfinished deployments.
 */
export async function streamMetrics(
  deps: Pick<Deps, 'db'> & { readonly live: LiveStats },
  stream: EventStream<typeof metricsEvents>,
  appId: string,
): Promise<void> {
  let first = true
  while (!stream.signal.aborted) {
    const deployments = (await store.liveOfApp(deps.db, appId)).map(d => liveView(d, deps.live))
    const at = new Date().toISOString()
    if (first) stream.send({ event: 'snapshot', data: { at, deployments } })
    else for (const d of deployments) if (!stream.send({ event: 'metrics', data: { at, ...d } })) return
    first = false
    await setTimeout(everyMs, undefined, { signal: stream.signal }).catch(() => {})
  }
}
