import { setTimeout as delay } from 'node:timers/promises'
import type { Deps } from '../base/deps.ts'
import { ApiError } from '../http/errors.ts'
import { type EventStream, type Feature, feature } from '../http/operation.ts'
import { createProbe, type Probe } from './probe.ts'
import { healthOf, isReady } from './rules.ts'
import { healthOperations } from './schema.ts'

export interface HealthOptions {
  /** Interval of health checks while a stream is open. */
  readonly streamEveryMs?: number
}

export function healthFeature(deps: Pick<Deps, 'db' | 'bus' | 'clock'>, options: HealthOptions = {}): Feature {
  const probe = createProbe(deps)
  return feature(healthOperations, {
    getHealth: { read: async () => healthOf(await probe.check()) },
    getLiveness: { read: async () => 'ok\n' },
    getReadiness: {
      async read() {
        const checks = await probe.check()
        if (isReady(checks)) return healthOf(checks)
        const { services, version } = healthOf(checks)
        const down = Object.keys(services).filter(name => services[name] !== 'ok')
        throw new ApiError('unavailable', `Not ready: ${down.join(' and ')} cannot be reached.`, {
          extra: { services, version },
        })
      },
    },
    streamHealth: { stream: async (_call, stream) => watch(probe, stream, deps, options.streamEveryMs ?? 2_000) },
  })
}

/** Sends `snapshot` first, then `health` after each change. */
async function watch(
  probe: Probe,
  stream: EventStream<typeof healthOperations.streamHealth.events>,
  { clock }: Pick<Deps, 'clock'>,
  everyMs: number,
): Promise<void> {
  let reported: string | undefined
  let id = 0
  while (!stream.signal.aborted) {
    const health = healthOf(await probe.check())
    const state = JSON.stringify(health)
    if (state !== reported) {
      const event = reported === undefined ? 'snapshot' : 'health'
      id += 1
      if (!stream.send({ event, id: String(id), data: { at: clock.now().toISOString(), ...health } })) return
      reported = state
    }
    // An aborted signal only ends the pause; the loop condition then ends the stream.
    await delay(everyMs, undefined, { signal: stream.signal }).catch(() => {})
  }
}
