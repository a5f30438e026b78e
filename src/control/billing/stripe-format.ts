/**
 * Converts Stripe's objects to those of `BillingProvider`. The billing period is a field of the subscription item since
 * API 2025-03-31, and was a field of the subscription before.
 */
import { isUuid } from '../../lib/ids.ts'
import * as json from './json.ts'
import type { BillingEvent, Delivery, FetchedSubscription, Product, SubscriptionState } from './provider.ts'

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

/** Returns the id from a field that contains an id or the whole object. */
function idIn(from: json.Json, name: string): string | null {
  const value = from[name]
  return json.isJson(value) ? json.text(value, 'id') : json.maybeText(from, name)
}

export function projectOf(from: json.Json): string | null {
  const id = json.maybeObject(from, 'metadata')?.['project_id'] ?? from['client_reference_id']
  return typeof id === 'string' && isUuid(id) ? id.toLowerCase() : null
}

/** Converts a subscription. @throws BadEvent if a required field is missing or has the wrong type */
export function fetchedOf(data: json.Json): FetchedSubscription {
  const [item = {}] = json.objects(json.object(data, 'items'), 'data')
  const price = json.maybeObject(item, 'price') ?? {}
  const unit = json.maybeInteger(price, 'unit_amount')
  return {
    id: json.text(data, 'id'),
    customerId: idIn(data, 'customer'),
    productId: idIn(price, 'product') ?? '',
    state: states[json.text(data, 'status')] ?? 'unpaid',
    amountCents: unit === null ? null : unit * (json.maybeInteger(item, 'quantity') ?? 1),
    currency: json.maybeText(price, 'currency'),
    periodStart: json.maybeUnixTime(item, 'current_period_start') ?? json.maybeUnixTime(data, 'current_period_start'),
    periodEnd: json.maybeUnixTime(item, 'current_period_end') ?? json.maybeUnixTime(data, 'current_period_end'),
    cancelAtPeriodEnd: json.isTrue(data, 'cancel_at_period_end') || typeof data['cancel_at'] === 'number',
    // Stripe reports the time of a subscription's change only in events, not in the subscription itself.
    modifiedAt: null,
    createdAt: json.unixTime(data, 'created'),
  }
}

/** Converts a product with its price. @throws BadEvent if a required field is missing or has the wrong type */
export function productOf(data: json.Json): Product {
  const price = json.isJson(data['default_price']) ? data['default_price'] : {}
  return {
    id: json.text(data, 'id'),
    name: json.text(data, 'name'),
    description: json.maybeText(data, 'description'),
    isArchived: data['active'] === false,
    plan: json.planIn(data),
    priceId: idIn(data, 'default_price'),
    priceAmountCents: json.maybeInteger(price, 'unit_amount'),
    currency: json.maybeText(price, 'currency'),
    recurringInterval: json.maybeText(json.maybeObject(price, 'recurring') ?? {}, 'interval'),
  }
}

/** Converts a webhook event. @throws BadEvent if a required field is missing or has the wrong type */
export function eventOf(payload: json.Json): Delivery {
  const type = json.text(payload, 'type')
  return { id: json.text(payload, 'id'), type, event: contentOf(type, payload) }
}

function contentOf(type: string, payload: json.Json): BillingEvent {
  if (type.startsWith('customer.subscription.')) {
    const data = json.object(json.object(payload, 'data'), 'object')
    const { createdAt: _, ...subscription } = fetchedOf(data)
    const modifiedAt = json.unixTime(payload, 'created')
    return { kind: 'subscription', subscription: { ...subscription, modifiedAt }, projectId: projectOf(data) }
  }
  if (type === 'checkout.session.completed') {
    const data = json.object(json.object(payload, 'data'), 'object')
    const [projectId, customerId] = [projectOf(data), idIn(data, 'customer')]
    return projectId === null || customerId === null ? { kind: 'other' } : { kind: 'customer', projectId, customerId }
  }
  return { kind: /^(product|price)\./.test(type) ? 'catalogue' : 'other' }
}
