/**
 * When "too many requests" is said. A caller that asks again as soon as it is refused would keep the event loop busy with
 * refusals, and others would wait behind them. So the first refusals of a key in a second are said at once, and the
 * others of that second come late: each connection of such a caller can then ask about once a second.
 */
import { once } from 'node:events'
import { setTimeout as delay } from 'node:timers/promises'
import type { FastifyReply } from 'fastify'
import type { Clock } from '../../lib/clock.ts'

export interface LateRefusals {
  /**
   * Settles when the refusal may be said, or the client has left. Where too many wait already it settles at once and the
   * connection ends with the answer.
   * @param key whose allowance is used up
   */
  wait(key: string, reply: FastifyReply): Promise<void>
}

interface Limits {
  /** How long a refusal is kept; 0: none is. */
  readonly delayMs: number
  /** Refusals of a key in a second that are said at once. A burst of a well-behaved client is smaller. */
  readonly atOnce?: number
  /** Requests that may wait; each holds a socket and about 20 kB. */
  readonly mostWaiting?: number
  /** Keys that are counted in a second, about 100 bytes each. Refusals of others come late. */
  readonly mostKeys?: number
}

export function createLateRefusals(
  clock: Pick<Clock, 'monotonicMs'>,
  { delayMs, atOnce = 10, mostWaiting = 1_000, mostKeys = 10_000 }: Limits,
): LateRefusals {
  let second = 0
  let refused = new Map<string, number>()
  let waiting = 0

  function isEarly(key: string): boolean {
    const now = Math.floor(clock.monotonicMs() / 1000)
    if (now !== second) {
      second = now
      refused = new Map()
    }
    const count = (refused.get(key) ?? 0) + 1
    if (count === 1 && refused.size >= mostKeys) return false
    refused.set(key, count)
    return count <= atOnce
  }

  return {
    async wait(key, reply) {
      if (delayMs === 0 || isEarly(key)) return
      if (waiting >= mostWaiting) return void reply.header('connection', 'close')
      const over = new AbortController()
      waiting++
      try {
        await Promise.race([
          delay(delayMs, undefined, over),
          // Without this a client that leaves and comes back would fill the room of those who wait.
          reply.raw.destroyed || once(reply.raw, 'close', over).catch(() => undefined),
        ])
      } finally {
        waiting--
        over.abort()
      }
    },
  }
}
