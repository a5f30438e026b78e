/** Interface of a billing provider. Provider-specific terms are translated only in its implementations. */
import type { IncomingHttpHeaders } from 'node:http'

/** `unpaid`: the provider has stopped collecting. `canceled`: already ended. */
export type SubscriptionState = 'incomplete' | 'trialing' | 'active' | 'past_due' | 'unpaid' | 'paused' | 'canceled'

export interface Subscription {
  readonly id: string
  readonly customerId: string | null
  readonly productId: string
  readonly state: SubscriptionState
  /** In the smallest unit of the currency. */
  readonly amountCents: number | null
  /** ISO 4217, lower case. */
  readonly currency: string | null
  readonly periodStart: Date | null
  readonly periodEnd: Date | null
  readonly cancelAtPeriodEnd: boolean
  /** Time of the change by the provider's clock: later states win, in whatever order they arrive. */
  readonly modifiedAt: Date
}

export interface Product {
  readonly id: string
  readonly name: string
  readonly description: string | null
  readonly isArchived: boolean
  /** Metadata `mote_plan`, unchecked. */
  readonly plan: string | null
  /** Id of the price, for providers that sell prices instead of products. */
  readonly priceId: string | null
  readonly priceAmountCents: number | null
  readonly currency: string | null
  readonly recurringInterval: string | null
}

export type BillingEvent =
  | {
      readonly kind: 'subscription'
      readonly subscription: Subscription
      /** Null if the event does not contain it; the project is then found by its customer. */
      readonly projectId: string | null
    }
  | { readonly kind: 'customer'; readonly projectId: string; readonly customerId: string }
  | { readonly kind: 'catalogue' }
  | { readonly kind: 'other' }

/** A delivery with a valid signature. */
export interface Delivery {
  /** Unchanged in repeated deliveries. */
  readonly id: string
  readonly type: string
  readonly event: BillingEvent
}

export type DeliveryHeaders = IncomingHttpHeaders | Readonly<Record<string, string | readonly string[] | undefined>>

/** The signature is missing, wrong, or too old. The sender gets no further details. */
export class BadSignature extends Error {}

/** A signed body that does not match the provider's documentation. */
export class BadEvent extends Error {}

export interface CheckoutRequest {
  readonly projectId: string
  readonly customerId: string | null
  readonly product: Product
  readonly email: string
  /** URL for the browser to return to. */
  readonly returnUrl: string
  /** The same for every try of one request. */
  readonly key: string
}

export interface PortalRequest {
  readonly projectId: string
  readonly customerId: string | null
  readonly returnUrl: string
}

/** Current state of a subscription. `modifiedAt` null: the provider does not report the time. */
export type FetchedSubscription = Omit<Subscription, 'modifiedAt'> & {
  readonly modifiedAt: Date | null
  readonly createdAt: Date
}

export interface BillingProvider {
  readonly name: 'sandbox' | 'polar' | 'stripe'
  readonly isTestMode: boolean
  /** Hosts of its pages; `.example.com` includes all subdomains. */
  readonly pageHosts: readonly string[]
  /** Verifies the signature over the bytes as sent, then parses. @throws BadSignature, BadEvent */
  open(raw: Buffer, headers: DeliveryHeaders, now: Date): Promise<Delivery>
  products(): Promise<readonly Product[]>
  /** Returns the URL of the page. */
  checkout(request: CheckoutRequest): Promise<string>
  /** Undefined if the provider does not know the customer. */
  portal(request: PortalRequest): Promise<string | undefined>
  subscriptionsOf(projectId: string, customerId: string | null): Promise<readonly FetchedSubscription[]>
  /** Ends a subscription at once. Ending one again is not an error. */
  end(subscriptionId: string): Promise<void>
}
