/**
 * Decides when a 429 is sent. A client that repeats its request as soon as it is refused would keep the event loop busy
 * with refusals and slow down other clients. So the first refusals of a rate limit key in a second are sent at once,
 * and further ones are delayed: each connection of such a client is then refused about once a second.
 */
import { once } from 'node:events'
import { setTimeout as delay } from 'node:timers/promises'
import type { FastifyReply } from 'fastify'
import type { Clock } from '../../lib/clock.ts'

export interface DelayedRefusals {
  /**
   * Resolves when the refusal may be sent, or the client has disconnected. If too many requests wait already, it
   * resolves at once and the connection is closed after the response.
   * @param key key of the exceeded rate limit
   */
  wait(key: string, reply: FastifyReply): Promise<void>
}

interface Limits {
  /** Delay of a refusal in milliseconds; 0: no delay. */
  readonly delayMs: number
  /** Number of refusals per rate limit key and second that are sent at once. A well-behaved client causes fewer. */
  readonly atOnce?: number
  /** Number of refused requests that may wait at the same time; each holds a socket and about 20 kB. */
  readonly mostWaiting?: number
  /**
   * Number of rate limit keys that are counted per second, at about 100 bytes each. Refusals of other keys are delayed.
   */
  readonly mostKeys?: number
}

export function createDelayedRefusals(
  clock: Pick<Clock, 'monotonicMs'>,
  { delayMs, atOnce = 10, mostWaiting = 1_000, mostKeys = 10_000 }: Limits,
): DelayedRefusals {
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
          // End the wait when the client disconnects: otherwise a client that reconnects repeatedly would use up
          // `mostWaiting`.
          reply.raw.destroyed || once(reply.raw, 'close', over).catch(() => undefined),
        ])
      } finally {
        waiting--
        over.abort()
      }
    },
  }
}
