import type { Deps } from '../base/deps.ts'
import { ApiError } from '../http/errors.ts'
import { purposes } from './credentials.ts'
import { backoffMemoryMs, backoffMs, freeFailures } from './rules.ts'
import { addFailure, blockUntil, blockedUntil, forgetFailures } from './session-store.ts'

/**
 * Delays sign-ins after repeated failures. The failures are counted in the database, so all control planes share them.
 */
export interface Backoff {
  /**
   * Checks whether another attempt is allowed.
   * @throws ApiError `rate_limited` while the IP address, the account, or this e-mail from this IP is blocked.
   */
  enter(email: string, ip: string): Promise<void>
  failed(email: string, ip: string): Promise<void>
  /**
   * Resets the failures of the e-mail address after a success. Those of the IP address remain: otherwise an attacker
   * with one valid account could hide many failed attempts.
   */
  succeeded(email: string, ip: string): Promise<void>
}

type Kind = keyof typeof freeFailures

export function createBackoff({ db, vault, clock }: Pick<Deps, 'db' | 'vault' | 'clock'>): Backoff {
  const keyOf = (kind: Kind, email: string, ip: string) => {
    const who = { pair: `${email} ${ip}`, address: ip, account: email } satisfies Record<Kind, string>
    return { kind, key: vault.hash(purposes.backoff, `${kind} ${who[kind]}`) }
  }
  const keysOf = (email: string, ip: string) => [
    keyOf('pair', email, ip),
    keyOf('address', email, ip),
    keyOf('account', email, ip),
  ]
  return {
    async enter(email, ip) {
      const keys = keysOf(email, ip).map(({ key }) => key)
      const until = await blockedUntil(db, keys)
      const waitMs = until ? until.getTime() - clock.now().getTime() : 0
      if (waitMs <= 0) return
      const seconds = Math.ceil(waitMs / 1000)
      throw new ApiError('rate_limited', `Too many failed attempts. Wait ${seconds} s.`, { retryAfterSeconds: seconds })
    },
    async failed(email, ip) {
      const now = clock.now()
      const forgetBefore = new Date(now.getTime() - backoffMemoryMs)
      // Failures lock their rows in a fixed order, which prevents deadlocks between concurrent ones.
      const keys = keysOf(email, ip).sort((a, b) => a.key.compare(b.key))
      await db.tx(async tx => {
        for (const { kind, key } of keys) {
          const failures = await addFailure(tx, key, now, forgetBefore)
          const waitMs = backoffMs(failures, freeFailures[kind])
          if (waitMs > 0) await blockUntil(tx, key, new Date(now.getTime() + waitMs))
        }
      })
    },
    async succeeded(email, ip) {
      await forgetFailures(db, [keyOf('pair', email, ip).key, keyOf('account', email, ip).key])
    },
  }
}
