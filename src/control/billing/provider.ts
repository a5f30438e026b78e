/** What a billing provider must do for us, whoever it is. Its words are translated here and nowhere else. */
import type { IncomingHttpHeaders } from 'node:http'

/** `unpaid`: the provider has given up collecting. `canceled`: over, not "will end". */
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
  /** When it became so, by the provider's clock: later states win, whenever they arrive. */
  readonly modifiedAt: Date
}

export interface Product {
  readonly id: string
  readonly name: string
  readonly description: string | null
  readonly isArchived: boolean
  /** Metadata `mote_plan`, unchecked. */
  readonly plan: string | null
  /** What is bought, where that is not the product itself. */
  readonly priceId: string | null
  readonly priceAmountCents: number | null
  readonly currency: string | null
  readonly recurringInterval: string | null
}

export type BillingEvent =
  | {
      readonly kind: 'subscription'
      readonly subscription: Subscription
      /** Null where the event does not say; then the customer is one we know, or not ours. */
      readonly projectId: string | null
    }
  | { readonly kind: 'customer'; readonly projectId: string; readonly customerId: string }
  | { readonly kind: 'catalogue' }
  | { readonly kind: 'other' }

/** A delivery whose signature is good. */
export interface Delivery {
  /** The same for every repetition. */
  readonly id: string
  readonly type: string
  readonly event: BillingEvent
}

export type DeliveryHeaders = IncomingHttpHeaders | Readonly<Record<string, string | readonly string[] | undefined>>

/** The signature is missing, wrong, or too old. Says nothing else to whoever sent it. */
export class BadSignature extends Error {}

/** A signed body that is not what the provider documents. */
export class BadEvent extends Error {}

export interface CheckoutRequest {
  readonly projectId: string
  readonly customerId: string | null
  readonly product: Product
  readonly email: string
  /** Where the browser goes afterwards. */
  readonly returnUrl: string
  /** The same for every try of one request. */
  readonly key: string
}

export interface PortalRequest {
  readonly projectId: string
  readonly customerId: string | null
  readonly returnUrl: string
}

/** A subscription as it is now. `modifiedAt` null: the provider does not say since when. */
export type FetchedSubscription = Omit<Subscription, 'modifiedAt'> & {
  readonly modifiedAt: Date | null
  readonly createdAt: Date
}

export interface BillingProvider {
  readonly name: 'sandbox' | 'polar' | 'stripe'
  readonly isTestMode: boolean
  /** Hosts of its pages; `.example.com` also means every name below it. */
  readonly pageHosts: readonly string[]
  /** Signature first, over the bytes as sent. @throws BadSignature, BadEvent */
  open(raw: Buffer, headers: DeliveryHeaders, now: Date): Promise<Delivery>
  products(): Promise<readonly Product[]>
  /** The URL of the page. */
  checkout(request: CheckoutRequest): Promise<string>
  /** Undefined: the provider knows no such customer. */
  portal(request: PortalRequest): Promise<string | undefined>
  subscriptionsOf(projectId: string, customerId: string | null): Promise<readonly FetchedSubscription[]>
  /** Ends it at once. One that is over already is no error. */
  end(subscriptionId: string): Promise<void>
}
