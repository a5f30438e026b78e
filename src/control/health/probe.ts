import { setTimeout as delay } from 'node:timers/promises'
import type { Bus } from '../../bus/bus.ts'
import { type Db, statement } from '../../db/db.ts'
import type { Clock } from '../../lib/clock.ts'
import type { Checks } from './rules.ts'

export interface Probe {
  /** What works now. Answers within 2 s whatever hangs; asked more often than once a second, it repeats itself. */
  check(): Promise<Checks>
}

const ping = statement<{ one: number }>('health.ping', 'SELECT 1 AS one')
const patienceMs = 1_500
const freshMs = 1_000

export function createProbe(deps: { readonly db: Db; readonly bus: Bus; readonly clock: Clock }): Probe {
  let last: { readonly atMs: number; readonly checks: Promise<Checks> } | undefined
  return {
    check() {
      const nowMs = deps.clock.monotonicMs()
      if (last && nowMs - last.atMs < freshMs) return last.checks
      last = { atMs: nowMs, checks: ask(deps) }
      return last.checks
    },
  }
}

async function ask(deps: { readonly db: Db; readonly bus: Bus }): Promise<Checks> {
  const patience = new AbortController()
  const tooLate = delay(patienceMs, false, { signal: patience.signal }).catch(() => false)
  const answered = deps.db.one(ping).then(
    () => true,
    () => false,
  )
  try {
    return { postgres: await Promise.race([answered, tooLate]), bus: deps.bus.connected() }
  } finally {
    patience.abort()
  }
}
