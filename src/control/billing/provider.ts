/** Interface of billing providers. Only the implementations use a provider's own names and formats. */
import type { IncomingHttpHeaders } from 'node:http'

/**
 * State of a subscription. `unpaid`: the provider no longer tries to collect the payment. `canceled`: the subscription
 * has ended.
 */
export type SubscriptionState = 'incomplete' | 'trialing' | 'active' | 'past_due' | 'unpaid' | 'paused' | 'canceled'

export interface Subscription {
  readonly id: string
  readonly customerId: string | null
  readonly productId: string
  readonly state: SubscriptionState
  /** Price per billing period, in the smallest unit of the currency. */
  readonly amountCents: number | null
  /** ISO 4217 currency code in lower case. */
  readonly currency: string | null
  readonly periodStart: Date | null
  readonly periodEnd: Date | null
  readonly cancelAtPeriodEnd: boolean
  /**
   * Time of the subscription's last change by the provider's clock. The latest state wins, in whatever order states
   * arrive.
   */
  readonly modifiedAt: Date
}

export interface Product {
  readonly id: string
  readonly name: string
  readonly description: string | null
  readonly isArchived: boolean
  /** The plan in the product's metadata (`mote_plan`). It is not validated. */
  readonly plan: string | null
  /** Id of the product's price, for providers that sell prices instead of products (Stripe). */
  readonly priceId: string | null
  readonly priceAmountCents: number | null
  readonly currency: string | null
  readonly recurringInterval: string | null
}

export type BillingEvent =
  | {
      readonly kind: 'subscription'
      readonly subscription: Subscription
      /** Id of the project; null if the event does not name the project, which is then found by its customer id. */
      readonly projectId: string | null
    }
  | { readonly kind: 'customer'; readonly projectId: string; readonly customerId: string }
  | { readonly kind: 'catalogue' }
  | { readonly kind: 'other' }

/** A webhook delivery with a valid signature. */
export interface Delivery {
  /** Id of the delivery. A repeated delivery has the same id. */
  readonly id: string
  readonly type: string
  readonly event: BillingEvent
}

export type DeliveryHeaders = IncomingHttpHeaders | Readonly<Record<string, string | readonly string[] | undefined>>

/** The signature of a webhook delivery is missing, wrong, or too old. The response does not say which. */
export class BadSignature extends Error {}

/** A webhook delivery with a valid signature, whose body does not match the provider's documentation. */
export class BadEvent extends Error {}

export interface CheckoutRequest {
  readonly projectId: string
  readonly customerId: string | null
  readonly product: Product
  readonly email: string
  /** URL to which the provider's page redirects the browser at the end. */
  readonly returnUrl: string
  /** Idempotency key of the request, the same for all attempts. */
  readonly key: string
}

export interface PortalRequest {
  readonly projectId: string
  readonly customerId: string | null
  readonly returnUrl: string
}

/**
 * Current state of a subscription, as fetched from the provider. `modifiedAt` is null if the provider does not report
 * it.
 */
export type FetchedSubscription = Omit<Subscription, 'modifiedAt'> & {
  readonly modifiedAt: Date | null
  readonly createdAt: Date
}

export interface BillingProvider {
  readonly name: 'sandbox' | 'polar' | 'stripe'
  readonly isTestMode: boolean
  /** Hosts of the provider's checkout and portal pages; `.example.com` includes all subdomains. */
  readonly pageHosts: readonly string[]
  /**
   * Verifies the signature of a webhook delivery over the raw body, then parses the body.
   * @throws BadSignature, BadEvent
   */
  open(raw: Buffer, headers: DeliveryHeaders, now: Date): Promise<Delivery>
  products(): Promise<readonly Product[]>
  /** Creates a checkout and returns the URL of its page. */
  checkout(request: CheckoutRequest): Promise<string>
  /** Returns the URL of the customer's portal page; undefined if the provider does not know the customer. */
  portal(request: PortalRequest): Promise<string | undefined>
  subscriptionsOf(projectId: string, customerId: string | null): Promise<readonly FetchedSubscription[]>
  /** Ends a subscription immediately. Succeeds if it has already ended. */
  end(subscriptionId: string): Promise<void>
}
