/**
 * One rate limit for several control planes, without a database write per request. Each control plane decides by its
 * own token buckets, publishes once a second which requests it has allowed (its grants), and charges the grants of the
 * others to its own buckets, below zero if necessary. Several control planes exceed the limit only by what they grant
 * before they receive each other's messages: at most one quota per additional control plane, once, which longer waits
 * make up for. Over minutes the rate is exact. While the bus is down, each control plane counts on its own.
 */
import { Value } from 'typebox/value'
import { type Static, Type } from 'typebox'
import type { Logger } from 'pino'
import type { Bus } from '../../bus/bus.ts'
import { newId } from '../../lib/ids.ts'
import type { RateLimiter, RatePolicy } from './rate-limit.ts'

export const rateSubject = 'control.out.rate'

const Grant = Type.Object({
  name: Type.String(),
  quota: Type.Number({ exclusiveMinimum: 0 }),
  windowSeconds: Type.Number({ exclusiveMinimum: 0 }),
  key: Type.String(),
  count: Type.Integer({ minimum: 1 }),
})
type Grant = Static<typeof Grant>

/** Grants of one control plane since its last message. `from` is the sender, which ignores its own messages. */
const Grants = Type.Object({ from: Type.String(), grants: Type.Array(Grant) })

/**
 * Maximum number of grants in a message. Keys have at most a few hundred bytes (an IP address and an e-mail address),
 * so a message stays well below the 1 MiB of NATS.
 */
const mostPerMessage = 1_000

export interface SharedRateLimiter {
  readonly limiter: RateLimiter
  /** Publishes the grants made since the last message now. */
  publish(): Promise<void>
  stop(): Promise<void>
}

export async function shareRateLimits(
  { bus, log }: { readonly bus: Bus; readonly log: Logger },
  local: RateLimiter,
  everyMs = 1000,
): Promise<SharedRateLimiter> {
  const from = newId()
  let granted = new Map<string, Grant>()

  const listening = await bus.subscribe(rateSubject, ({ data }) => {
    const message = Value.Parse(Grants, data)
    if (message.from === from) return
    for (const grant of message.grants) local.charge(grant, grant.key, grant.count)
  })
  const publish = async () => {
    const grants = [...granted.values()]
    granted = new Map()
    for (let at = 0; at < grants.length; at += mostPerMessage)
      await bus.publish(rateSubject, { from, grants: grants.slice(at, at + mostPerMessage) })
  }
  const timer = setInterval(() => {
    publish().catch((cause: unknown) => log.debug({ err: cause }, 'could not share what was granted'))
  }, everyMs)
  timer.unref()

  const note = ({ name, quota, windowSeconds }: RatePolicy, key: string, count: number) => {
    const id = `${name}:${key}`
    const known = granted.get(id)
    if (known) known.count += count
    else granted.set(id, { name, quota, windowSeconds, key, count })
  }
  return {
    limiter: {
      take(policy, key, count = 1) {
        const verdict = local.take(policy, key, count)
        if (verdict.allowed) note(policy, key, count)
        return verdict
      },
      left: local.left,
      charge(policy, key, count) {
        local.charge(policy, key, count)
        note(policy, key, count)
      },
    },
    publish,
    async stop() {
      clearInterval(timer)
      await listening.stop()
    },
  }
}
