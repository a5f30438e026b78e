/** State changes of a sandbox subscription, triggered by the customer or by the end of a period. Pure functions. */
import { hours } from '../../../lib/duration.ts'
import type { Product } from '../provider.ts'
import type { SandboxSubscription } from './store.ts'

/** Length of a billing period. All periods are equally long, which simplifies tests. */
export const periodMs = hours(24 * 30)

export const sandboxProducts: readonly Product[] = [
  product('sandbox_pro', 'Pro', 'pro', 2_000),
  product('sandbox_business', 'Business', 'business', 20_000),
  { ...product('sandbox_early_bird', 'Early bird', 'pro', 900), isArchived: true },
]

function product(id: string, name: string, plan: string, priceAmountCents: number): Product {
  const description = `The plan "${plan}", paid with nothing.`
  return {
    id,
    name,
    description,
    plan,
    priceAmountCents,
    isArchived: false,
    priceId: null,
    currency: 'eur',
    recurringInterval: 'month',
  }
}

export const actions = ['cancel', 'resume', 'fail', 'pay', 'next'] as const
export type Action = (typeof actions)[number]

interface Change {
  readonly type: string
  readonly subscription: SandboxSubscription
}

/**
 * Returns the change of the subscription that the customer's action causes; undefined if the action changes nothing.
 */
export function act(s: SandboxSubscription, action: Action, now: Date): Change | undefined {
  if (s.status === 'canceled') return undefined
  const changed = { ...s, modifiedAt: later(s, now) }
  switch (action) {
    case 'cancel':
      return s.cancelAtPeriodEnd
        ? undefined
        : { type: 'subscription.canceled', subscription: { ...changed, cancelAtPeriodEnd: true } }
    case 'resume':
      return s.cancelAtPeriodEnd
        ? { type: 'subscription.uncanceled', subscription: { ...changed, cancelAtPeriodEnd: false } }
        : undefined
    case 'pay':
      return { type: 'subscription.active', subscription: { ...changed, pays: true, status: 'active' } }
    case 'fail':
      return periodEnded({ ...s, pays: false }, now)
    case 'next':
      return periodEnded(s, now)
  }
}

/**
 * Returns the state of the subscription after the end of a billing period. The next period starts at that end, or now
 * if the customer skipped the rest of the period.
 */
export function periodEnded(s: SandboxSubscription, now: Date): Change {
  const changed = { ...s, modifiedAt: later(s, now) }
  // The subscription ends after two unpaid periods, or at the end of a period in which it was cancelled.
  if (s.cancelAtPeriodEnd || s.status === 'past_due')
    return { type: 'subscription.revoked', subscription: { ...changed, status: 'canceled' } }
  const start = new Date(Math.min(s.periodEnd.getTime(), now.getTime()))
  const next = { ...changed, periodStart: start, periodEnd: new Date(start.getTime() + periodMs) }
  return s.pays
    ? { type: 'subscription.cycled', subscription: { ...next, status: 'active' } }
    : { type: 'subscription.past_due', subscription: { ...next, status: 'past_due' } }
}

export function ended(s: SandboxSubscription, now: Date): Change | undefined {
  if (s.status === 'canceled') return undefined
  return { type: 'subscription.revoked', subscription: { ...s, status: 'canceled', modifiedAt: later(s, now) } }
}

/**
 * Returns the current time, or a millisecond after the subscription's last change if that is later: no two changes have
 * the same timestamp.
 */
const later = (s: SandboxSubscription, now: Date) => new Date(Math.max(now.getTime(), s.modifiedAt.getTime() + 1))

/** Converts the subscription to Polar's format. */
export function wireSubscription(s: SandboxSubscription) {
  const amount = sandboxProducts.find(p => p.id === s.productId)?.priceAmountCents ?? 0
  return {
    id: s.id,
    status: s.status,
    amount,
    currency: 'eur',
    recurring_interval: 'month',
    current_period_start: s.periodStart.toISOString(),
    current_period_end: s.periodEnd.toISOString(),
    cancel_at_period_end: s.cancelAtPeriodEnd,
    created_at: s.modifiedAt.toISOString(),
    modified_at: s.modifiedAt.toISOString(),
    customer_id: customerIdOf(s.projectId),
    product_id: s.productId,
    customer: { id: customerIdOf(s.projectId), external_id: s.projectId },
    metadata: {},
  }
}

export const customerIdOf = (projectId: string) => `sandbox_customer_${projectId}`
