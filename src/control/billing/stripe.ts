/** The billing provider Stripe, based on Stripe's own client. */
import type Stripe from 'stripe'
import { isUuid } from '../../lib/ids.ts'
import { seconds } from '../../lib/duration.ts'
import { once } from '../../lib/once.ts'
import { type Guard, statusOf } from '../http/guard.ts'
import { isJson, parseObject } from './json.ts'
import { BadSignature, type BillingProvider, type DeliveryHeaders } from './provider.ts'
import * as format from './stripe-format.ts'

/**
 * Maximum age of a signature in seconds, the default of Stripe's library. The library accepts any timestamp in the
 * future.
 */
const toleranceSeconds = 300
const timeoutMs = seconds(5)
const maxPages = 10

export interface StripeOptions {
  readonly apiKey: string
  readonly apiUrl: string | undefined
  readonly webhookSecrets: readonly string[]
  readonly guard: Guard
}

export function stripeProvider({ apiKey, apiUrl, webhookSecrets, guard }: StripeOptions): BillingProvider {
  // Stripe's client does not retry failed calls, because `guard` retries them.
  const client = once(async () => {
    const { default: Client } = await import('stripe')
    return new Client(apiKey, { ...addressOf(apiUrl), maxNetworkRetries: 0, timeout: timeoutMs, telemetry: false })
  })
  return {
    name: 'stripe',
    isTestMode: /^[sr]k_test_/.test(apiKey),
    pageHosts: ['checkout.stripe.com', 'billing.stripe.com'],
    async open(raw, headers, now) {
      requireSignature(await client(), webhookSecrets, raw, headers, now)
      return format.eventOf(parseObject(raw))
    },
    async products() {
      const stripe = await client()
      const found = []
      let after: string | undefined
      for (let page = 1; page <= maxPages; page++) {
        const answer = await guard(() =>
          stripe.products.list({
            limit: 100,
            expand: ['data.default_price'],
            ...(after === undefined ? {} : { starting_after: after }),
          }),
        )
        found.push(...answer.data.map(product => format.productOf({ ...product })))
        after = answer.data.at(-1)?.id
        if (!answer.has_more || after === undefined) break
      }
      return found
    },
    async checkout({ projectId, customerId, product, email, returnUrl, key }) {
      if (product.priceId === null) throw new Error(`the product ${product.id} has no default price`)
      const price = product.priceId
      const stripe = await client()
      const session = await guard(() =>
        stripe.checkout.sessions.create(
          {
            mode: 'subscription',
            line_items: [{ price, quantity: 1 }],
            client_reference_id: projectId,
            subscription_data: { metadata: { project_id: projectId } },
            success_url: returnUrl,
            cancel_url: returnUrl,
            ...(customerId === null ? { customer_email: email } : { customer: customerId }),
          },
          { idempotencyKey: key },
        ),
      )
      if (session.url === null) throw new Error('the checkout session has no page')
      return session.url
    },
    async portal({ customerId, returnUrl }) {
      if (customerId === null) return undefined
      const stripe = await client()
      const session = await guard(() =>
        stripe.billingPortal.sessions.create({ customer: customerId, return_url: returnUrl }),
      )
      return session.url
    },
    async subscriptionsOf(projectId, customerId) {
      const stripe = await client()
      const answer = await guard<{ data: readonly object[] }>(() =>
        customerId === null
          ? stripe.subscriptions.search({ query: `metadata['project_id']:'${projectId}'`, limit: 100 })
          : stripe.subscriptions.list({ customer: customerId, status: 'all', limit: 100 }),
      )
      return answer.data
        .map(data => ({ ...data }))
        .filter(isJson)
        .filter(data => isOf(projectId, data))
        .map(format.fetchedOf)
    },
    async end(subscriptionId) {
      const stripe = await client()
      await guard(() =>
        stripe.subscriptions.cancel(subscriptionId).catch((cause: unknown) => {
          // Stripe responds 404 if the subscription has already ended.
          if (statusOf(cause) !== 404) throw cause
        }),
      )
    },
  }
}

/**
 * Returns whether the subscription belongs to the project. A customer may also have subscriptions of another
 * installation.
 */
function isOf(projectId: string, data: Readonly<Record<string, unknown>>): boolean {
  const named = format.projectOf(data)
  return isUuid(projectId) && (named === null || named === projectId)
}

/** Verifies and parses a webhook delivery. @throws BadSignature */
function requireSignature(
  stripe: Stripe,
  secrets: readonly string[],
  raw: Buffer,
  headers: DeliveryHeaders,
  now: Date,
): void {
  const header = headers['stripe-signature']
  if (typeof header !== 'string') throw new BadSignature('Stripe-Signature is missing')
  const isGood = secrets.some(secret => {
    try {
      const check = stripe.webhooks.signature
      return check?.verifyHeader(raw, header, secret, toleranceSeconds, undefined, now.getTime()) === true
    } catch {
      return false
    }
  })
  if (!isGood) throw new BadSignature('no signature matches')
}

function addressOf(apiUrl: string | undefined) {
  if (apiUrl === undefined) return {}
  const { hostname, port, protocol } = new URL(apiUrl)
  const scheme = protocol === 'http:' ? 'http' : 'https'
  return {
    host: hostname,
    port: port === '' ? (scheme === 'http' ? 80 : 443) : Number(port),
    protocol: scheme,
  } as const
}
