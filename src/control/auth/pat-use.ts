import type { Logger } from 'pino'
import type { Db } from '../../db/db.ts'
import type { Clock } from '../../lib/clock.ts'
import { minutes, seconds } from '../../lib/duration.ts'
import { recordPatUse } from './access-store.ts'

/**
 * Records `last_used_at` of tokens without a write for each request: collects the uses in memory and writes them in
 * batches.
 */
export interface PatUse {
  note(patId: string): void
  stop(): Promise<void>
}

const flushEveryMs = seconds(5)
/** Minimum interval between two writes of `last_used_at` for one token. */
const oncePerMs = minutes(1)

export function trackPatUse(deps: { db: Db; clock: Clock; log: Logger }): PatUse {
  const pending = new Map<string, Date>()
  // Tokens whose use was written within the last minute; each flush drops older entries.
  const written = new Map<string, number>()
  let flushing = Promise.resolve()

  const flush = async () => {
    const now = deps.clock.monotonicMs()
    for (const [id, at] of written) if (now - at >= oncePerMs) written.delete(id)
    if (pending.size === 0) return
    const batch = new Map(pending)
    pending.clear()
    for (const id of batch.keys()) written.set(id, now)
    try {
      await recordPatUse(deps.db, batch)
    } catch (cause) {
      deps.log.warn({ err: cause }, 'could not update the last use of tokens')
    }
  }
  const timer = setInterval(() => {
    flushing = flushing.then(flush)
  }, flushEveryMs)
  timer.unref()

  return {
    note(patId) {
      if (!written.has(patId)) pending.set(patId, deps.clock.now())
    },
    async stop() {
      clearInterval(timer)
      await flushing
      await flush()
    },
  }
}
