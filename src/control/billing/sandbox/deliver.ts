/**
 * Ends the billing periods of sandbox subscriptions, and delivers the sandbox's webhooks: signed deliveries are passed
 * to the regular webhook handler until it accepts them.
 */
import { hours } from '../../../lib/duration.ts'
import type { Deps } from '../../base/deps.ts'
import { type ReceiveDeps, receive } from '../receive.ts'
import { sign } from '../signature.ts'
import { periodEnded } from './life.ts'
import { sandboxKeys, save } from './provider.ts'
import * as store from './store.ts'

export type DeliverDeps = Pick<Deps, 'db' | 'vault'> & ReceiveDeps

/**
 * Delivers pending webhook events, and returns the number of accepted ones. It stops at the first failure, and the
 * sweep retries the rest.
 */
export async function deliverEvents(deps: DeliverDeps): Promise<number> {
  const { db, vault, clock } = deps
  const [key] = sandboxKeys(vault)
  if (!key) throw new Error('BUG: a vault without keys')
  let count = 0
  for (const { id, body } of await store.undelivered(db)) {
    const raw = Buffer.from(body)
    const now = clock.now()
    const timestamp = String(Math.floor(now.getTime() / 1000))
    const headers = { 'webhook-id': id, 'webhook-timestamp': timestamp, 'webhook-signature': sign(key, id, now, raw) }
    await db.tx(await receive(deps, raw, headers))
    await store.markDelivered(db, id, now)
    count += 1
  }
  return count
}

/** Renews, fails or ends the subscriptions whose billing period has ended. */
export async function turnPeriods({ db }: Pick<Deps, 'db'>, now: Date): Promise<number> {
  const ids = await store.endedPeriods(db, now)
  for (const id of ids)
    await db.tx(async tx => {
      const subscription = await store.lockSubscription(tx, id)
      if (!subscription || subscription.status === 'canceled' || subscription.periodEnd > now) return
      const { type, subscription: next } = periodEnded(subscription, now)
      await save(tx, type, next)
    })
  return ids.length
}

export async function forgetOld({ db }: Pick<Deps, 'db'>, now: Date): Promise<void> {
  await store.forgetSessions(db, new Date(now.getTime() - hours(24)))
  await store.forgetEvents(db, new Date(now.getTime() - hours(24 * 30)))
}
