/**
 * Converts Polar's objects (API 2026-10, snake_case) to those of `BillingProvider`. The sandbox provider also sends
 * objects in Polar's format.
 */
import { isUuid } from '../../lib/ids.ts'
import * as json from './json.ts'
import type { BillingEvent, FetchedSubscription, Product, Subscription, SubscriptionState } from './provider.ts'

/** Subscription states of Polar. Polar may add new ones; unknown states grant no plan. */
const states: Readonly<Record<string, SubscriptionState>> = {
  incomplete: 'incomplete',
  incomplete_expired: 'canceled',
  trialing: 'trialing',
  active: 'active',
  past_due: 'past_due',
  unpaid: 'unpaid',
  paused: 'paused',
  canceled: 'canceled',
}

/** Converts a subscription. @throws BadEvent if a required field is missing or has the wrong type */
export function subscriptionOf(data: json.Json): FetchedSubscription & Subscription {
  const createdAt = json.instant(data, 'created_at')
  return {
    id: json.text(data, 'id'),
    customerId: json.maybeText(data, 'customer_id'),
    productId: json.text(data, 'product_id'),
    state: states[json.text(data, 'status')] ?? 'unpaid',
    amountCents: json.maybeInteger(data, 'amount'),
    currency: json.maybeText(data, 'currency'),
    periodStart: json.maybeInstant(data, 'current_period_start'),
    periodEnd: json.maybeInstant(data, 'current_period_end'),
    cancelAtPeriodEnd: json.isTrue(data, 'cancel_at_period_end'),
    // Polar's `modified_at` is null until the first change of the subscription.
    modifiedAt: json.maybeInstant(data, 'modified_at') ?? createdAt,
    createdAt,
  }
}

/** Converts a product. @throws BadEvent if a required field is missing or has the wrong type */
export function productOf(data: json.Json): Product {
  const prices = json.objects(data, 'prices').filter(price => !json.isTrue(price, 'is_archived'))
  const price = prices.find(p => p['amount_type'] === 'fixed' || p['amount_type'] === 'free') ?? {}
  return {
    id: json.text(data, 'id'),
    name: json.text(data, 'name'),
    description: json.maybeText(data, 'description'),
    isArchived: json.isTrue(data, 'is_archived'),
    plan: json.planIn(data),
    priceId: null,
    priceAmountCents: price['amount_type'] === 'free' ? 0 : json.maybeInteger(price, 'price_amount'),
    currency: json.maybeText(price, 'price_currency'),
    recurringInterval: json.maybeText(data, 'recurring_interval'),
  }
}

/** Returns the id of the project: the customer's external id, or the project in the metadata of the checkout. */
function projectOf(data: json.Json): string | null {
  const external = json.maybeObject(data, 'customer')?.['external_id'] ?? data['external_id']
  const id = external ?? json.maybeObject(data, 'metadata')?.['project_id']
  return typeof id === 'string' && isUuid(id) ? id.toLowerCase() : null
}

/** Converts a webhook event. @throws BadEvent if a required field is missing or has the wrong type */
export function eventOf(payload: json.Json): { readonly type: string; readonly event: BillingEvent } {
  const type = json.text(payload, 'type')
  return { type, event: contentOf(type, payload) }
}

function contentOf(type: string, payload: json.Json): BillingEvent {
  if (type.startsWith('subscription.')) {
    const data = json.object(payload, 'data')
    return { kind: 'subscription', subscription: subscriptionOf(data), projectId: projectOf(data) }
  }
  if (type === 'customer.created' || type === 'customer.updated') {
    const data = json.object(payload, 'data')
    const projectId = projectOf(data)
    return projectId === null ? { kind: 'other' } : { kind: 'customer', projectId, customerId: json.text(data, 'id') }
  }
  return { kind: type.startsWith('product.') ? 'catalogue' : 'other' }
}
