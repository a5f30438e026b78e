/** Tests webhook deliveries over HTTP: signatures, duplicates, effects, and independence of the order of events. */
import { afterAll, beforeAll, expect, it } from 'vitest'
import { startWholeApi } from '../../../test/security/cases.ts'
import type { Identity } from '../../../test/support/identity.ts'
import { statement } from '../../db/db.ts'
import { billingPlans } from './sweep.ts'
import {
  deliver,
  inParallel,
  owner,
  polarEnvironment,
  subscriptionData,
} from '../../../test/support/control/billing.ts'
import { runsAll } from '../../../test/support/all-examples.ts'

let api: Identity
beforeAll(async () => {
  api = await startWholeApi({ env: polarEnvironment })
})
afterAll(() => api[Symbol.asyncDispose]())

const summaryOf = async (token: string) => (await api.call('GET', '/v1/billing', { token })).body
const event = <T>(type: string, data: T) => ({ type, timestamp: api.clock.now().toISOString(), data })
const rows = statement<{ count: number }>(
  'test.deliveries',
  `SELECT count(*)::int AS count FROM billing_delivery WHERE id = $1`,
)

it('a delivery with an invalid signature is refused, and nothing is stored', async () => {
  const { projectId, token } = await owner(api)
  const payload = event('subscription.active', subscriptionData(projectId, api.clock.now()))
  expect(await deliver(api, 'evt_bad', payload, 'polar_whs_guessed')).toMatchObject({ status: 401 })
  const unsigned = await api.call('POST', '/v1/webhooks/billing', { body: payload })
  expect(unsigned.status).toBe(401)
  expect(await api.deps.db.one(rows, ['evt_bad'])).toEqual({ count: 0 })
  expect(await summaryOf(token)).toMatchObject({ status: 'none', tier_slug: 'free', has_billing_record: false })
})

it('the first delivery of an event applies the plan, and a repeated delivery gets the response `duplicate`', async () => {
  const { projectId, token, slug } = await owner(api)
  const payload = event('subscription.active', subscriptionData(projectId, api.clock.now()))
  expect((await deliver(api, 'evt_dup', payload)).body).toEqual({ status: 'applied' })
  expect((await deliver(api, 'evt_dup', payload)).body).toEqual({ status: 'duplicate' })
  expect(await summaryOf(token)).toEqual({
    tenant_id: slug,
    customer_external_id: projectId,
    status: 'active',
    cancel_at_period_end: false,
    is_test_mode: false,
    has_billing_record: true,
    amount_cents: 2000,
    currency: 'eur',
    current_period_start: payload.data.current_period_start,
    current_period_end: payload.data.current_period_end,
    default_checkout_product_id: null,
    selected_checkout_product_id: null,
    plan_name: 'Pro',
    tier_slug: 'pro',
    provider_customer_id: `cus_${projectId}`,
    provider_product_id: 'prod_pro',
    provider_subscription_id: `sub_${projectId}`,
    plan_limits: expect.objectContaining({ max_apps: 25, autoscaling_allowed: true }),
  })
  const audit = await api.call('GET', '/v1/audit-logs', { token })
  expect(audit.body['items']).toContainEqual(
    expect.objectContaining({ action: 'billing.plan_changed', details: { from: 'free', to: 'pro', by: 'polar' } }),
  )
})

it('signed events with unknown types, unknown projects or invalid content are accepted and ignored', async () => {
  expect((await deliver(api, 'evt_new', event('galaxy.created', {}))).body).toEqual({ status: 'ignored' })
  const stranger = subscriptionData('0190a0a0-0000-7000-8000-000000000000', api.clock.now())
  expect((await deliver(api, 'evt_foreign', event('subscription.active', stranger))).body).toEqual({
    status: 'ignored',
  })
  expect(await deliver(api, 'evt_list', [1])).toMatchObject({ status: 200, body: { status: 'ignored' } })
  expect(await deliver(api, 'evt_empty', event('subscription.active', { id: 7 }))).toMatchObject({ status: 200 })
})

it('the plan stays during the grace period of a failed payment; the downgrade afterwards deletes nothing', async () => {
  await using own = await startWholeApi({
    env: { ...polarEnvironment, MOTE_BILLING_GRACE_DAYS: '7', ACCESS_TOKEN_TTL_SECS: '2592000' },
  })
  const { projectId, token } = await owner(own)
  const send = (id: string, change: object) =>
    deliver(own, id, event('subscription.updated', subscriptionData(projectId, own.clock.now(), { ...change })))
  const status = async () => (await own.call('GET', '/v1/billing', { token })).body
  const sweep = billingPlans(own.deps)
  const run = () => sweep.run({ signal: AbortSignal.timeout(10_000), now: own.clock.now() })
  await send('evt_1', {})
  for (const name of ['a', 'b', 'c', 'd']) {
    const made = await own.call('POST', '/v1/apps', { token, body: { name, git_url: '' } })
    expect(made.status).toBe(200)
  }
  own.clock.advance(1000)
  const unpaidSince = own.clock.now().toISOString()
  await send('evt_2', { status: 'past_due', current_period_start: unpaidSince })
  own.clock.advance(86_400_000)
  await send('evt_3', { status: 'past_due', current_period_start: unpaidSince })
  expect(await status()).toMatchObject({ status: 'past_due', tier_slug: 'pro' })
  expect(await run()).toMatchObject({ changed: 0 })

  own.clock.advance(6 * 86_400_000 + 1000)
  expect(await run()).toMatchObject({ changed: 1 })
  expect(await run()).toMatchObject({ changed: 0 })
  expect(await status()).toMatchObject({ status: 'past_due', tier_slug: 'free', plan_limits: { max_apps: 3 } })
  expect((await own.call('GET', '/v1/apps', { token })).body['length']).toBe(4)
  const more = await own.call('POST', '/v1/apps', { token, body: { name: 'e', git_url: '' } })
  expect(more.body).toMatchObject({ code: 'plan_limit_exceeded', used: 4, max: 3 })
  const { body } = await own.call('GET', '/v1/notifications', { token })
  const titles = body['notifications'].filter((n: { kind: string }) => n.kind === 'billing.trouble')
  expect(titles.map((n: { title: string }) => n.title)).toEqual(['The plan is now "free"', 'A payment failed'])
})

/** Deterministic pseudo-random numbers (Mulberry32). */
function numbers(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let t = Math.imul(state ^ (state >>> 15), 1 | state)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296
  }
}

interface Planned {
  readonly owner: number
  readonly sequence: number
  readonly data: Record<string, unknown>
}

function history(random: () => number, now: Date): Planned[] {
  const statuses = ['active', 'past_due', 'active', 'canceled', 'unpaid', 'trialing', 'incomplete']
  const pick = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)]!
  return Array.from({ length: events }, (_, sequence) => ({
    owner: sequence % 5,
    sequence,
    data: {
      id: `${pick(['x', 'y'])}`,
      status: pick(statuses),
      product_id: pick(['prod_pro', 'prod_business', 'prod_unknown']),
      cancel_at_period_end: random() < 0.2,
      amount: Math.floor(random() * 5000),
      // The times are whole seconds, so that many events have the same timestamp.
      modified_at: new Date(
        Math.floor(now.getTime() / 1000) * 1000 - 60_000 + Math.floor(sequence / 20) * 1000,
      ).toISOString(),
    },
  }))
}

const states = statement<Record<string, unknown>>(
  'test.states',
  `SELECT split_part(s.id, ':', 2) AS id, s.product_id, s.state, s.amount_cents, s.cancel_at_period_end, s.modified_at, p.plan
   FROM billing_subscription s JOIN project p ON p.id = s.project_id WHERE s.project_id = $1 ORDER BY 1`,
)

// Only partly in `npm test`: 150 events cover 500, because each of the five customers gets thirty.
const events = runsAll ? 500 : 150

it(`${events} events delivered twice and shuffled lead to the same state as the same events delivered in order`, {
  timeout: 120_000,
}, async () => {
  const now = api.clock.now()
  const random = numbers(7)
  const planned = history(random, now)
  const people = async () => Promise.all(Array.from({ length: 5 }, () => owner(api)))
  const [inOrder, shuffled] = [await people(), await people()]
  const send = (owners: Awaited<ReturnType<typeof people>>, p: Planned) => {
    const { projectId } = owners[p.owner]!
    const data = subscriptionData(projectId, now, { ...p.data, id: `${projectId}:${String(p.data['id'])}` })
    return deliver(api, `evt_${projectId}_${p.sequence}`, event('subscription.updated', data))
  }
  for (const p of planned) expect((await send(inOrder, p)).status).toBe(200)

  const twice = [...planned, ...planned].map(p => [random(), p] as const).toSorted(([a], [b]) => a - b)
  const replies = await inParallel(twice, 32, ([, p]) => send(shuffled, p))
  const duplicates = replies.filter(reply => reply.body['status'] === 'duplicate')
  expect([replies.length, duplicates.length, replies.every(reply => reply.status === 200)]).toEqual([
    2 * events,
    events,
    true,
  ])

  const stateOf = (owners: typeof inOrder) =>
    Promise.all(owners.map(({ projectId }) => api.deps.db.rows(states, [projectId])))
  const expected = await stateOf(inOrder)
  expect(expected.flat().length).toBe(10)
  expect(await stateOf(shuffled)).toEqual(expected)
})
