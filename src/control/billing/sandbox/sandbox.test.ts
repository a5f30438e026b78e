/** Tests a subscription from checkout to its end as a browser would: over HTTP, with links and forms. */
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { startWholeApi } from '../../../../test/security/cases.ts'
import { type Identity, testPassword } from '../../../../test/support/identity.ts'
import { statement } from '../../../db/db.ts'
import { billingPlans, billingSync } from '../sweep.ts'
import { owner } from '../../../../test/support/control/billing.ts'

let api: Identity
let base: string
let admin: string
beforeAll(async () => {
  api = await startWholeApi({ env: { MOTE_BILLING_PROVIDER: 'sandbox', ACCESS_TOKEN_TTL_SECS: '31536000' } })
  await api.app.listen({ host: '127.0.0.1', port: 0 })
  base = `http://127.0.0.1:${(api.app.server.address() as AddressInfo).port}`
  admin = (await api.person()).token
  const refreshed = await api.call('POST', '/v1/billing/products/refresh', { token: admin })
  expect(refreshed.status).toBe(200)
})
afterAll(() => api[Symbol.asyncDispose]())

const summaryOf = async (token: string) => (await api.call('GET', '/v1/billing', { token })).body
/** Replaces the public host of a link with the test server's. */
const here = (url: string) => base + url.slice(api.deps.config.publicUrl.length)
const press = (url: string, action: string) =>
  fetch(here(url), { method: 'POST', body: new URLSearchParams({ action }) }).then(async answer => ({
    status: answer.status,
    page: await answer.text(),
  }))
const sweep = () => ({ signal: AbortSignal.timeout(10_000), now: api.clock.now() })

async function subscribe(token: string, productId?: string) {
  const checkout = await api.call('POST', '/v1/billing/checkout', {
    token,
    body: productId ? { product_id: productId } : {},
  })
  expect(checkout.status).toBe(200)
  return String(checkout.body['url'])
}

async function portalOf(token: string) {
  const { body } = await api.call('POST', '/v1/billing/portal', { token })
  const url = String(body['url'])
  const page = await (await fetch(here(url))).text()
  return { url, page, subscription: /value="cancel ([^"]+)"/.exec(page)?.[1] ?? '' }
}

it('anyone can list the products, one of which is the default', async () => {
  const { body } = await api.call('GET', '/v1/billing/products')
  expect(body['products'].map((p: { id: string }) => p.id)).toEqual([
    'sandbox_pro',
    'sandbox_business',
    'sandbox_early_bird',
  ])
  const defaults = body['products'].filter((p: Record<string, unknown>) => p['is_default_checkout_product'])
  expect(defaults.map((p: { id: string }) => p.id)).toEqual([body['default_checkout_product_id']])
  expect(Date.parse(body['last_synced_at'])).not.toBeNaN()
  const { token } = await owner(api)
  expect((await api.call('POST', '/v1/billing/products/refresh', { token })).status).toBe(403)
})

it('a subscription goes from checkout to an active plan to its end, and other users cannot access it', async () => {
  const { token, projectId } = await owner(api)
  const stranger = await owner(api)
  expect(await summaryOf(token)).toMatchObject({ status: 'none', tier_slug: 'free', is_test_mode: true })
  const choose = (id: string | null) =>
    api.call('PUT', '/v1/billing/checkout-product', { token, body: { product_id: id } })
  expect((await choose('sandbox_early_bird')).status).toBe(409)
  expect((await choose('nothing')).status).toBe(400)
  expect((await choose('sandbox_business')).body).toMatchObject({ selected_checkout_product_id: 'sandbox_business' })

  const url = await subscribe(token)
  const opened = await fetch(here(url))
  expect([opened.status, opened.headers.get('cache-control')]).toEqual([200, 'no-store'])
  expect(opened.headers.get('content-security-policy')).toContain("form-action 'self'")
  expect(opened.headers.get('content-security-policy')).not.toContain('script-src')
  expect(await opened.text()).toContain('Business')
  expect((await press(url, 'pay')).page).toContain('Paid')
  expect((await press(url, 'pay')).status).toBe(200)
  const active = await summaryOf(token)
  expect(active).toMatchObject({ status: 'active', tier_slug: 'business', amount_cents: 20_000, currency: 'eur' })
  expect((await api.call('POST', '/v1/billing/checkout', { token, body: {} })).status).toBe(409)

  expect(await summaryOf(stranger.token)).toMatchObject({ status: 'none', provider_customer_id: null })
  const foreign = await api.call('GET', '/v1/billing', { token: stranger.token, headers: { 'x-project': projectId } })
  expect(foreign.status).toBe(404)
  expect((await api.call('POST', '/v1/billing/portal', { token: stranger.token })).status).toBe(409)
  expect((await fetch(here(url).slice(0, -1))).status).toBe(404)

  const portal = await portalOf(token)
  expect((await press(portal.url, `cancel ${portal.subscription}`)).page).toContain('will not be renewed')
  expect(await summaryOf(token)).toMatchObject({ status: 'active', cancel_at_period_end: true, tier_slug: 'business' })
  await press(portal.url, `resume ${portal.subscription}`)
  expect(await summaryOf(token)).toMatchObject({ cancel_at_period_end: false })
  await press(portal.url, `fail ${portal.subscription}`)
  expect(await summaryOf(token)).toMatchObject({ status: 'past_due', tier_slug: 'business' })
  await press(portal.url, `pay ${portal.subscription}`)
  expect(await summaryOf(token)).toMatchObject({ status: 'active' })

  const strangersUrl = await subscribe(stranger.token)
  await press(strangersUrl, 'pay')
  const strangersPortal = await portalOf(stranger.token)
  expect((await press(strangersPortal.url, `cancel ${portal.subscription}`)).status).toBe(404)

  await press(portal.url, `cancel ${portal.subscription}`)
  await press(portal.url, `next ${portal.subscription}`)
  expect(await summaryOf(token)).toMatchObject({ status: 'canceled', tier_slug: 'free' })
  const { body } = await api.call('GET', '/v1/audit-logs', { token })
  const actions = body['items'].map((item: { action: string }) => item.action)
  for (const action of [
    'billing.product_chosen',
    'billing.checkout_opened',
    'billing.portal_opened',
    'billing.plan_changed',
  ])
    expect(actions).toContain(action)
})

it('a subscription is renewed when its period ends', async () => {
  const { token } = await owner(api)
  await press(await subscribe(token, 'sandbox_pro'), 'pay')
  const before = await summaryOf(token)
  api.clock.advance(31 * 86_400_000)
  await billingPlans(api.deps).run(sweep())
  const after = await summaryOf(token)
  expect([after['status'], after['tier_slug'], after['current_period_start']]).toEqual([
    'active',
    'pro',
    before['current_period_end'],
  ])
})

const lose = statement('test.lose', `UPDATE billing_sandbox_event SET delivered_at = now() WHERE delivered_at IS NULL`)
const forget = statement('test.forget', `DELETE FROM billing_subscription WHERE project_id = $1`)
const unpaid = statement('test.plan', `UPDATE project SET plan = 'free' WHERE id = $1`)
const ofSandbox = statement<{ status: string }>(
  'test.sandbox',
  `SELECT status FROM billing_sandbox_subscription WHERE project_id = $1`,
)

const nextCheck = statement<{ at: Date | null }>(
  'test.nextCheck',
  `SELECT check_at AS at FROM billing_account WHERE project_id = $1`,
)

it('the billing sweep recovers a lost webhook, and ends subscriptions of deleted projects', async () => {
  const { token, projectId } = await owner(api)
  await press(await subscribe(token, 'sandbox_pro'), 'pay')
  await api.deps.db.run(lose)
  await api.deps.db.run(forget, [projectId])
  await api.deps.db.run(unpaid, [projectId])
  expect(await summaryOf(token)).toMatchObject({ status: 'none', tier_slug: 'free' })
  api.clock.advance(7 * 3_600_000)
  expect(await billingSync(api.deps).run(sweep())).toMatchObject({ failed: 0 })
  expect(await summaryOf(token)).toMatchObject({ status: 'active', tier_slug: 'pro' })

  expect((await api.call('DELETE', '/v1/auth/me', { token, body: { password: testPassword } })).status).toBe(200)
  await billingSync(api.deps).run(sweep())
  expect(await api.deps.db.rows(ofSandbox, [projectId])).toEqual([{ status: 'canceled' }])
})

it('the billing sweep looks for the payment of a checkout for a week', async () => {
  const { token, projectId } = await owner(api)
  await subscribe(token, 'sandbox_pro')
  const checkAt = async () => (await api.deps.db.one(nextCheck, [projectId])).at
  for (const days of [0, 3, 4]) {
    expect(await checkAt()).not.toBeNull()
    api.clock.advance((days * 24 + 7) * 3_600_000)
    await billingSync(api.deps).run(sweep())
  }
  expect(await checkAt()).toBeNull()
  await subscribe(token, 'sandbox_pro')
  expect(await checkAt()).not.toBeNull()
})
