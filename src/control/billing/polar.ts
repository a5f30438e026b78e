/** The billing provider Polar, based on Polar's own client (API 2026-10). */
import { once } from '../../lib/once.ts'
import { type Guard, statusOf } from '../http/guard.ts'
import { isJson, parseObject } from './json.ts'
import * as format from './polar-format.ts'
import type { BillingProvider } from './provider.ts'
import { literalKey, standardKey, verify } from './signature.ts'

const productionUrl = 'https://api.polar.sh'
/** Maximum number of pages that are read, with 100 products each. */
const maxPages = 10
const timeoutSeconds = 5

export interface PolarOptions {
  readonly accessToken: string
  readonly apiUrl: string | undefined
  readonly webhookSecrets: readonly string[]
  readonly guard: Guard
}

const objectsOf = (items: readonly unknown[]) => items.filter(isJson)

export function polarProvider({ accessToken, apiUrl, webhookSecrets, guard }: PolarOptions): BillingProvider {
  const baseUrl = apiUrl ?? productionUrl
  const client = once(async () => {
    const { createPolar } = await import('@polar-sh/sdk/2026-10')
    return createPolar({ accessToken, baseUrl, timeout: timeoutSeconds })
  })
  const keys = webhookSecrets.flatMap(secret => [literalKey(secret), standardKey(secret)])
  return {
    name: 'polar',
    isTestMode: new URL(baseUrl).hostname.startsWith('sandbox'),
    pageHosts: ['.polar.sh'],
    async open(raw, headers, now) {
      const id = verify(keys, raw, headers, now)
      return { id, ...format.eventOf(parseObject(raw)) }
    },
    async products() {
      const polar = await client()
      const found = []
      for (let page = 1; page <= maxPages; page++) {
        const answer = await guard(() => polar.products.list({ page, limit: 100 }))
        found.push(...objectsOf(answer.items).map(format.productOf))
        if (page >= answer.pagination.max_page) break
      }
      return found
    },
    async checkout({ projectId, product, email, returnUrl }) {
      const polar = await client()
      const checkout = await guard(() =>
        polar.checkouts.create({
          products: [product.id],
          external_customer_id: projectId,
          customer_email: email,
          success_url: returnUrl,
          metadata: { project_id: projectId },
        }),
      )
      return checkout.url
    },
    async portal({ projectId, returnUrl }) {
      const polar = await client()
      const session = await guard(() =>
        polar.customerSessions
          .create({ external_customer_id: projectId, return_url: returnUrl })
          // Polar responds 404 or 422 if the customer does not exist.
          .catch(unless(404, 422)),
      )
      return session?.customer_portal_url
    },
    async subscriptionsOf(projectId) {
      const polar = await client()
      const answer = await guard(() => polar.subscriptions.list({ external_customer_id: [projectId], limit: 100 }))
      return objectsOf(answer.items).map(format.subscriptionOf)
    },
    async end(subscriptionId) {
      const polar = await client()
      // Polar responds 403 or 404 if the subscription has already ended.
      await guard(() => polar.subscriptions.revoke(subscriptionId).catch(unless(403, 404)))
    },
  }
}

const unless =
  (...expected: readonly number[]) =>
  (cause: unknown): undefined => {
    if (!expected.includes(statusOf(cause) ?? 0)) throw cause
  }
