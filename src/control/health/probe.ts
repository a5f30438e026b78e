import { setTimeout as delay } from 'node:timers/promises'
import type { Bus } from '../../bus/bus.ts'
import { type Db, statement } from '../../db/db.ts'
import type { Clock } from '../../lib/clock.ts'
import type { Checks } from './rules.ts'

export interface Probe {
  /** Reports which services work. Takes at most 2 s, even if they hang. The result is reused for a second. */
  check(): Promise<Checks>
}

const ping = statement<{ one: number }>('health.ping', 'SELECT 1 AS one')
const patienceMs = 1_500
const freshMs = 1_000
/**
 * Time for which a successfully created session proves that the server accepts sessions. Creating one costs the server
 * some milliseconds.
 */
const sessionFreshMs = 5_000

type ProbeDeps = { readonly db: Db; readonly bus: Bus; readonly clock: Clock }

export function createProbe(deps: ProbeDeps): Probe {
  let last: { readonly atMs: number; readonly checks: Promise<Checks> } | undefined
  let sessionMadeMs = Number.NEGATIVE_INFINITY
  /**
   * Creates a database session. Locks, sweeps and transactions need sessions of their own, which a server may refuse
   * although existing sessions work.
   */
  const makeSession = async (nowMs: number) => {
    if (nowMs - sessionMadeMs < sessionFreshMs) return
    // The call opens a new session. Whether the lock of that name is free does not matter.
    await deps.db.withLockedSession('health', async () => undefined)
    sessionMadeMs = nowMs
  }
  const ask = async (nowMs: number): Promise<Checks> => {
    const [postgres, bus] = await Promise.all([
      inTime(Promise.all([deps.db.one(ping), makeSession(nowMs)])),
      inTime(deps.bus.ping(patienceMs)),
    ])
    return { postgres, bus: bus && deps.bus.connected() }
  }
  return {
    check() {
      const nowMs = deps.clock.monotonicMs()
      if (last && nowMs - last.atMs < freshMs) return last.checks
      last = { atMs: nowMs, checks: ask(nowMs) }
      return last.checks
    },
  }
}

/** Returns whether the promise resolves within the time limit. */
async function inTime(asked: Promise<unknown>): Promise<boolean> {
  const patience = new AbortController()
  const tooLate = delay(patienceMs, false, { signal: patience.signal }).catch(() => false)
  const answered = asked.then(
    () => true,
    () => false,
  )
  try {
    return await Promise.race([answered, tooLate])
  } finally {
    patience.abort()
  }
}
