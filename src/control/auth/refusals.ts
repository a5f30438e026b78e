import type { Deps } from '../base/deps.ts'
import type { Origin } from '../http/ports.ts'
import { seconds } from '../../lib/duration.ts'
import { levelOf } from '../../lib/outage.ts'
import { actorAt, auditFailure } from './context.ts'

/** Writes audit rows of refused credentials. */
export interface Refusals {
  record(origin: Origin, accountId: string | undefined): Promise<void>
}

/**
 * Maximum number of audit rows per IP address and minute. A client that presents more invalid tokens is in a loop or an
 * attacker, and must not fill the table.
 */
const mostPerMinute = 30
const windowMs = seconds(60)
const mostAddresses = 10_000

export function recordRefusals(deps: Pick<Deps, 'db' | 'clock' | 'log'>): Refusals {
  const windows = new Map<string, { readonly since: number; rows: number }>()

  /** Returns false if the IP address has reached the limit, and logs that once per minute. */
  const admit = (ip: string): boolean => {
    const now = deps.clock.monotonicMs()
    let window = windows.get(ip)
    if (!window || now - window.since >= windowMs) {
      // Forgets all addresses, which is cheaper than a search for expired ones: at worst some IP addresses get twice as
      // many audit rows.
      if (windows.size >= mostAddresses) windows.clear()
      window = { since: now, rows: 0 }
      windows.set(ip, window)
    }
    window.rows++
    if (window.rows === mostPerMinute + 1)
      deps.log.warn({ ip }, 'many refused credentials; no more audit rows this minute')
    return window.rows <= mostPerMinute
  }

  return {
    async record(origin, accountId) {
      if (!admit(origin.ip)) return
      const about = accountId === undefined ? {} : { resourceId: accountId }
      const note = { action: 'auth.credential_refused', resourceType: 'account', ...about }
      try {
        await auditFailure(deps, actorAt(origin, accountId), note)
      } catch (cause) {
        // The request is refused even if its audit row cannot be written.
        deps.log[levelOf(cause)]({ err: cause }, 'could not write the audit row of a refused credential')
      }
    },
  }
}
