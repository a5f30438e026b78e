/** Tests Stripe webhook deliveries over HTTP. */
import Stripe from 'stripe'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { startWholeApi } from '../../../test/security/cases.ts'
import type { Identity } from '../../../test/support/identity.ts'
import { owner } from '../../../test/support/control/billing.ts'

const secret = 'whsec_of_the_tests'
let api: Identity
beforeAll(async () => {
  api = await startWholeApi({
    env: {
      MOTE_BILLING_PROVIDER: 'stripe',
      MOTE_BILLING_API_KEY: 'sk_test_1',
      MOTE_BILLING_WEBHOOK_SECRETS: secret,
      MOTE_BILLING_PLANS: 'prod_1=pro',
    },
  })
})
afterAll(() => api[Symbol.asyncDispose]())

let deliveries = 0
async function deliver(type: string, created: number, object: object): Promise<unknown> {
  const payload = JSON.stringify({ id: `evt_${++deliveries}`, object: 'event', type, created, data: { object } })
  const stripe = new Stripe('sk_test_1')
  const timestamp = Math.floor(api.clock.now().getTime() / 1000)
  const signature = stripe.webhooks.generateTestHeaderString({ payload, secret, timestamp })
  const url = '/v1/webhooks/billing'
  const answer = await api.app.inject({ method: 'POST', url, headers: { 'stripe-signature': signature }, payload })
  return JSON.parse(answer.body)['status']
}

const subscription = (id: string, change: object) => ({
  id,
  customer: `cus_${id}`,
  created: 1_700_000_000,
  status: 'active',
  items: {
    data: [{ price: { product: 'prod_1', unit_amount: 2000, currency: 'eur' }, current_period_end: 1_900_000_000 }],
  },
  ...change,
})

it('an event finds its project by the metadata, or by the customer of the checkout', async () => {
  const [first, second] = [await owner(api), await owner(api)]
  const tier = async (token: string) => (await api.call('GET', '/v1/billing', { token })).body['tier_slug']
  const named = subscription('sub_a', { metadata: { project_id: first.projectId } })
  expect(await deliver('customer.subscription.created', 1_700_000_000, named)).toBe('applied')
  expect(await tier(first.token)).toBe('pro')

  expect(await deliver('customer.subscription.created', 1_700_000_000, subscription('sub_b', {}))).toBe('ignored')
  const session = { object: 'checkout.session', client_reference_id: second.projectId, customer: 'cus_sub_b' }
  expect(await deliver('checkout.session.completed', 1_700_000_001, session)).toBe('applied')
  expect(await deliver('customer.subscription.updated', 1_700_000_002, subscription('sub_b', {}))).toBe('applied')
  expect(await tier(second.token)).toBe('pro')
})

it('an older event never replaces a newer state, and events of the same second are ordered by their state', async () => {
  const { token, projectId } = await owner(api)
  const metadata = { project_id: projectId }
  const send = (type: string, created: number, status: string) =>
    deliver(`customer.subscription.${type}`, created, subscription('sub_c', { metadata, status }))
  const status = async () => (await api.call('GET', '/v1/billing', { token })).body['status']
  expect(await send('updated', 1_700_000_010, 'active')).toBe('applied')
  expect(await send('created', 1_700_000_010, 'incomplete')).toBe('ignored')
  expect(await status()).toBe('active')
  expect(await send('deleted', 1_700_000_020, 'canceled')).toBe('applied')
  expect(await send('updated', 1_700_000_015, 'past_due')).toBe('ignored')
  expect(await status()).toBe('canceled')
})
