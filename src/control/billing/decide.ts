/**
 * Derives a project's plan from the newest states of its subscriptions. These functions are pure, so the order in which
 * events arrive does not matter.
 */
import { hours } from '../../lib/duration.ts'
import type { Plan } from '../projects/index.ts'
import type { Subscription, SubscriptionState } from './provider.ts'

const progress = {
  incomplete: 0,
  trialing: 1,
  past_due: 2,
  unpaid: 3,
  paused: 4,
  active: 5,
  canceled: 6,
} as const satisfies Record<SubscriptionState, number>

/**
 * Returns whether the state `next` of a subscription replaces the state `known`. States with the same timestamp
 * (Stripe's have a resolution of one second) are ordered by their content, so that repeated and reordered events lead
 * to the same final state.
 */
export function isNewer(next: Subscription, known: Subscription): boolean {
  const later = next.modifiedAt.getTime() - known.modifiedAt.getTime()
  if (later !== 0) return later > 0
  const further = progress[next.state] - progress[known.state]
  return further === 0 ? fingerprint(next) > fingerprint(known) : further > 0
}

const fingerprint = (s: Subscription) =>
  JSON.stringify([
    s.periodEnd,
    s.periodStart,
    s.cancelAtPeriodEnd,
    s.productId,
    s.amountCents,
    s.currency,
    s.customerId,
  ])

export interface Rules {
  readonly graceMs: number
  readonly defaultPlan: Plan
  /** Returns the plan of a product; undefined if the product has no known plan. */
  readonly planOf: (productId: string) => Plan | undefined
}

/**
 * Returns whether the subscription grants its plan now. The grace period of a failed payment starts with the unpaid
 * period, not with the event, so that repeated failures do not extend it.
 */
export function grants(s: Subscription, now: Date, graceMs: number): boolean {
  switch (s.state) {
    case 'trialing':
    case 'active':
      // A subscription that was cancelled for the end of its period grants its plan for at most 24 hours after that
      // end, because the event that ends it may be late.
      return !s.cancelAtPeriodEnd || s.periodEnd === null || now.getTime() < s.periodEnd.getTime() + endSlackMs
    case 'past_due':
      return now.getTime() < (s.periodStart ?? s.modifiedAt).getTime() + graceMs
    case 'incomplete':
    case 'unpaid':
    case 'paused':
    case 'canceled':
      return false
  }
}
const endSlackMs = hours(24)

const planRank = { free: 0, pro: 1, business: 2, unlimited: 3 } as const satisfies Record<Plan, number>

export interface Decision {
  readonly plan: Plan
  /**
   * Returns the subscription that `GET /v1/billing` shows: the one that grants the plan, otherwise the one that changed
   * last. Undefined if the project never had a subscription.
   */
  readonly shown: Subscription | undefined
}

export function decide(subscriptions: readonly Subscription[], now: Date, rules: Rules): Decision {
  const newestFirst = subscriptions
    .filter(s => s.state !== 'incomplete')
    .toSorted((a, b) => b.modifiedAt.getTime() - a.modifiedAt.getTime() || (a.id < b.id ? -1 : 1))
  const rank = (s: Subscription) => planRank[rules.planOf(s.productId) ?? rules.defaultPlan]
  const [best] = newestFirst.filter(s => grants(s, now, rules.graceMs)).toSorted((a, b) => rank(b) - rank(a))
  return {
    plan: (best && rules.planOf(best.productId)) ?? rules.defaultPlan,
    shown: best ?? newestFirst[0],
  }
}

/** Maps a subscription's state to the `status` in the response of `GET /v1/billing`. */
export const wireStatus = {
  incomplete: 'none',
  trialing: 'trialing',
  active: 'active',
  past_due: 'past_due',
  unpaid: 'past_due',
  paused: 'canceled',
  canceled: 'canceled',
} as const satisfies Record<SubscriptionState, string>
