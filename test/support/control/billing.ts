/** For tests of billing: the API with a payment provider, and webhook requests as Polar sends them. */
import type { Identity, Person, Reply } from '../identity.ts'
import { literalKey, sign } from '../../../src/control/billing/signature.ts'

export const webhookSecret = 'polar_whs_of_the_tests'

export const polarEnvironment = {
  MOTE_BILLING_PROVIDER: 'polar',
  MOTE_BILLING_API_KEY: 'polar_oat_test',
  MOTE_BILLING_WEBHOOK_SECRETS: webhookSecret,
  MOTE_BILLING_PLANS: 'prod_pro=pro,prod_business=business',
}

export interface Owner extends Person {
  readonly projectId: string
  readonly slug: string
}

export async function owner(api: Identity): Promise<Owner> {
  const person = await api.person()
  const { body } = await api.call('GET', '/v1/projects', { token: person.token })
  return { ...person, projectId: body[0].id, slug: body[0].tenant_id }
}

const dayMs = 86_400_000

/** Returns the field `data` of a webhook event about a subscription, with times relative to `now`. */
export const subscriptionData = (projectId: string, now: Date, change: Record<string, unknown> = {}) => ({
  id: `sub_${projectId}`,
  status: 'active',
  amount: 2000,
  currency: 'eur',
  current_period_start: new Date(now.getTime() - dayMs).toISOString(),
  current_period_end: new Date(now.getTime() + 29 * dayMs).toISOString(),
  cancel_at_period_end: false,
  created_at: new Date(now.getTime() - dayMs).toISOString(),
  modified_at: now.toISOString(),
  customer_id: `cus_${projectId}`,
  product_id: 'prod_pro',
  customer: { external_id: projectId },
  ...change,
})

export async function deliver(api: Identity, id: string, payload: unknown, secret = webhookSecret): Promise<Reply> {
  const raw = Buffer.from(JSON.stringify(payload))
  const now = api.clock.now()
  const answer = await api.app.inject({
    method: 'POST',
    url: '/v1/webhooks/billing',
    headers: {
      'content-type': 'application/json',
      'webhook-id': id,
      'webhook-timestamp': String(Math.floor(now.getTime() / 1000)),
      'webhook-signature': sign(literalKey(secret), id, now, raw),
    },
    payload: raw,
  })
  return { status: answer.statusCode, body: JSON.parse(answer.body), headers: answer.headers }
}

/** Runs `work` for all items, at most `width` at a time, and returns the results in the order of the items. */
export async function inParallel<T, R>(
  items: readonly T[],
  width: number,
  work: (item: T) => Promise<R>,
): Promise<R[]> {
  const results: R[] = []
  const left = items.entries()
  const worker = async () => {
    for (const [index, item] of left) results[index] = await work(item)
  }
  await Promise.all(Array.from({ length: width }, worker))
  return results
}
