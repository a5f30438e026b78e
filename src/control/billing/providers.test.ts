/** Tests the Polar and Stripe providers with the vendors' own libraries, against fake servers. */
import { createServer, type Server } from 'node:http'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { afterEach, describe, expect, it } from 'vitest'
import { systemClock } from '../../lib/clock.ts'
import { createGuard } from '../http/guard.ts'
import { polarProvider } from './polar.ts'
import { isAllowed } from './redirect.ts'
import { stripeProvider } from './stripe.ts'

interface Asked {
  readonly what: string
  readonly body: string
  readonly authorization: string
}
type Answers = Readonly<Record<string, { readonly status?: number; readonly body: unknown }>>

const servers: Server[] = []
afterEach(async () => {
  for (const server of servers.splice(0)) {
    server.closeAllConnections()
    server.close()
  }
})

/** Starts a fake server that returns these responses by method and path, and 500 for any other request. */
async function fake(answers: Answers | 'silent') {
  const asked: Asked[] = []
  const server = createServer(async (request, response) => {
    let body = ''
    for await (const chunk of request) body += String(chunk)
    const what = `${request.method} ${request.url?.split('?')[0]}`
    asked.push({ what, body, authorization: request.headers.authorization ?? '' })
    if (answers === 'silent') return
    const { status = 200, body: answer } = answers[what] ?? { status: 500, body: {} }
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(answer))
  })
  servers.push(server)
  await once(server.listen(0, '127.0.0.1'), 'listening')
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, asked }
}

const guard = () => createGuard(systemClock, { timeoutMs: 2000, tries: 2, failures: 2, openMs: 60_000 })
const projectId = '0190a0a0-0000-7000-8000-000000000001'
const product = {
  id: 'prod_1',
  name: 'Pro',
  description: null,
  isArchived: false,
  plan: 'pro',
  priceId: 'price_1',
  priceAmountCents: 2000,
  currency: 'eur',
  recurringInterval: 'month',
}
const request = {
  projectId,
  customerId: null,
  product,
  email: 'a@example.com',
  returnUrl: 'http://localhost/billing',
  key: 'k1',
}

describe('the billing provider Polar', () => {
  const at = '2026-01-01T00:00:00.000Z'
  const list = (...items: object[]) => ({ body: { items, pagination: { total_count: items.length, max_page: 1 } } })
  const start = async (answers: Answers | 'silent') => {
    const server = await fake(answers)
    const options = { accessToken: 'polar_oat_1', apiUrl: server.url, webhookSecrets: ['x'], guard: guard() }
    return { ...server, polar: polarProvider(options) }
  }

  it('reads products with their prices and plans', async () => {
    const prices = [
      { amount_type: 'fixed', price_amount: 900, price_currency: 'usd', is_archived: true },
      { amount_type: 'fixed', price_amount: 2000, price_currency: 'eur', is_archived: false },
    ]
    const item = {
      id: 'prod_1',
      name: 'Pro',
      description: null,
      is_archived: false,
      recurring_interval: 'month',
      prices,
    }
    const { polar, asked } = await start({ 'GET /v1/products/': list({ ...item, metadata: { mote_plan: 'pro' } }) })
    expect(await polar.products()).toEqual([{ ...product, priceId: null }])
    expect(asked[0]?.authorization).toBe('Bearer polar_oat_1')
  })

  it("opens a checkout and a portal with the project's id as the customer's external id", async () => {
    const { polar, asked } = await start({
      'POST /v1/checkouts/': { status: 201, body: { id: 'c', url: 'https://polar.sh/checkout/c' } },
      'POST /v1/customer-sessions/': { status: 201, body: { customer_portal_url: 'https://polar.sh/portal' } },
    })
    expect(await polar.checkout(request)).toBe('https://polar.sh/checkout/c')
    expect(JSON.parse(asked[0]?.body ?? '')).toMatchObject({ products: ['prod_1'], external_customer_id: projectId })
    expect(await polar.portal(request)).toBe('https://polar.sh/portal')
    expect(JSON.parse(asked[1]?.body ?? '')).toMatchObject({ external_customer_id: projectId })
  })

  it('treats an unknown customer and an ended subscription as expected responses', async () => {
    const { polar } = await start({
      'POST /v1/customer-sessions/': { status: 422, body: { detail: [] } },
      'DELETE /v1/subscriptions/sub_1': { status: 403, body: { error: 'AlreadyCanceledSubscription', detail: '' } },
    })
    expect(await polar.portal(request)).toBeUndefined()
    await polar.end('sub_1')
  })

  it('reads subscriptions, and treats an unknown state as unpaid', async () => {
    const item = { id: 'sub_1', status: 'galactic', product_id: 'prod_1', created_at: at, modified_at: null, amount: 1 }
    const { polar } = await start({ 'GET /v1/subscriptions/': list(item) })
    const [found] = await polar.subscriptionsOf(projectId, null)
    expect(found).toMatchObject({ id: 'sub_1', state: 'unpaid', modifiedAt: new Date(at) })
  })

  it('is not called after two failed calls (circuit breaker), but is called after refused requests', async () => {
    const down = await start({})
    for (let n = 0; n < 3; n++) await expect(down.polar.products()).rejects.toMatchObject({ code: 'unavailable' })
    // Two calls made two attempts each; the circuit breaker blocked the third call.
    expect(down.asked.length).toBe(4)
    const refusing = await start({ 'GET /v1/products/': { status: 401, body: { error: 'invalid_token' } } })
    for (let n = 0; n < 3; n++) await expect(refusing.polar.products()).rejects.toMatchObject({ code: 'unavailable' })
    expect(refusing.asked.length).toBe(3)
  })
})

it('a call to an unresponsive billing provider times out, and the circuit breaker allows a new call after its open time', async () => {
  let aheadMs = 0
  const clock = { ...systemClock, monotonicMs: () => aheadMs }
  const limited = createGuard(clock, { timeoutMs: 20, tries: 1, failures: 1, openMs: 1000 })
  let calls = 0
  const hang = () => {
    calls += 1
    return new Promise<never>(() => {})
  }
  await expect(limited(hang)).rejects.toMatchObject({ code: 'unavailable' })
  await expect(limited(hang)).rejects.toMatchObject({ code: 'unavailable' })
  expect(calls).toBe(1)
  aheadMs = 1001
  expect(await limited(async () => 'back')).toBe('back')
  expect(await limited(async () => 'still')).toBe('still')
})

describe('the billing provider Stripe', () => {
  const start = async (answers: Answers) => {
    const server = await fake(answers)
    const options = { apiKey: 'sk_test_1', apiUrl: server.url, webhookSecrets: ['x'], guard: guard() }
    return { ...server, stripe: stripeProvider(options) }
  }
  const price = { id: 'price_1', object: 'price', unit_amount: 2000, currency: 'eur', recurring: { interval: 'month' } }
  const subscription = {
    id: 'sub_1',
    object: 'subscription',
    status: 'active',
    customer: 'cus_1',
    created: 1_700_000_000,
    cancel_at_period_end: false,
    cancel_at: 1_702_000_000,
    metadata: { project_id: projectId },
    items: {
      data: [
        {
          price: { ...price, product: 'prod_1' },
          quantity: 3,
          current_period_start: 1_700_000_000,
          current_period_end: 1_702_000_000,
        },
      ],
    },
  }

  it('reads products with their default price', async () => {
    const item = { id: 'prod_1', object: 'product', name: 'Pro', active: true, description: null, default_price: price }
    const body = { object: 'list', has_more: false, data: [{ ...item, metadata: { mote_plan: 'pro' } }] }
    const { stripe } = await start({ 'GET /v1/products': { body } })
    expect(await stripe.products()).toEqual([product])
    expect(stripe.isTestMode).toBe(true)
  })

  it('opens a checkout that names the project, and a portal for the customer', async () => {
    const { stripe, asked } = await start({
      'POST /v1/checkout/sessions': { body: { id: 'cs_1', url: 'https://checkout.stripe.com/c/1' } },
      'POST /v1/billing_portal/sessions': { body: { id: 'bps_1', url: 'https://billing.stripe.com/p/1' } },
    })
    expect(await stripe.checkout(request)).toBe('https://checkout.stripe.com/c/1')
    const sent = new URLSearchParams(asked[0]?.body)
    expect(sent.get('client_reference_id')).toBe(projectId)
    expect(sent.get('subscription_data[metadata][project_id]')).toBe(projectId)
    expect(sent.get('line_items[0][price]')).toBe('price_1')
    expect(await stripe.portal(request)).toBeUndefined()
    expect(await stripe.portal({ ...request, customerId: 'cus_1' })).toBe('https://billing.stripe.com/p/1')
  })

  it('reads subscriptions with the billing period of their subscription item', async () => {
    const body = {
      object: 'list',
      has_more: false,
      data: [
        subscription,
        { ...subscription, id: 'sub_2', metadata: { project_id: '0190a0a0-0000-7000-8000-000000000002' } },
      ],
    }
    const { stripe } = await start({ 'GET /v1/subscriptions': { body } })
    expect(await stripe.subscriptionsOf(projectId, 'cus_1')).toEqual([
      {
        id: 'sub_1',
        customerId: 'cus_1',
        productId: 'prod_1',
        state: 'active',
        amountCents: 6000,
        currency: 'eur',
        periodStart: new Date(1_700_000_000_000),
        periodEnd: new Date(1_702_000_000_000),
        cancelAtPeriodEnd: true,
        modifiedAt: null,
        createdAt: new Date(1_700_000_000_000),
      },
    ])
  })
})

it.each([
  ['https://polar.sh/x', true],
  ['https://buy.polar.sh/x', true],
  ['https://evilpolar.sh/x', false],
  ['https://polar.sh.evil.example/x', false],
  ['https://polar.sh@evil.example/x', false],
  ['https://user:word@polar.sh/x', false],
  ['http://polar.sh/x', false],
  ['javascript:alert(1)', false],
  ['//polar.sh/x', false],
  ['https://polar.sh:8443/x', false],
  ['http://localhost:7070/x', true],
  ['http://localhost:7071/x', false],
])('a redirect is allowed only to https and to configured hosts: isAllowed(%s) is %s', (url, allowed) =>
  expect(isAllowed(url, ['.polar.sh', 'localhost:7070'])).toBe(allowed),
)
