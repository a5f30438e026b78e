/**
 * Calls every operation that involves external systems: payments, source hosts (GitHub), storage nodes, health probes.
 */
import { createHmac } from 'node:crypto'
import { sign } from '../../src/control/billing/signature.ts'
import { sandboxKeys } from '../../src/control/billing/sandbox/provider.ts'
import { webhookSecret } from '../support/control/scm.ts'
import { createVault } from '../../src/lib/vault.ts'
import { faultyServer } from './servers.ts'
import { whileSet, type World } from './world.ts'

export async function probes({ see }: World): Promise<void> {
  const health = ['getHealth', 'getLiveness', 'getReadiness', 'streamHealth']
  for (const id of [...health, 'getOpenApi', 'getAppFileSchema', 'getExplorer']) await see(id, 200)
}

export async function storageNodes({ see }: World): Promise<void> {
  await see('reAttach', 200, { body: {} })
  await see('reAttach', 404, { body: { node_id: 77 }, how: 'unknown storage node' })
  await see('validateGenerations', 200, { body: { tenants: [] } })
  const foreign = { headers: { 'x-forwarded-for': '192.0.2.1' }, how: 'request through a proxy' }
  await see('reAttach', 403, { ...foreign, body: {} })
  await see('validateGenerations', 403, { ...foreign, body: { tenants: [] } })
}

export async function billing(world: World): Promise<void> {
  const { see, system, config } = world
  await see('openBillingPortal', 409, { how: 'project without an earlier checkout' })
  await see('refreshBillingProducts', 200)
  const { products } = (await see('listBillingProducts', 200)).body
  await see('getBilling', 200)
  await see('chooseCheckoutProduct', 200, { body: { product_id: products[0].id } })
  const checkout = (await see('createCheckout', 200, { body: { product_id: products[0].id } })).body
  const sessionOf = (url: string) => ({ query: { session: new URL(url).searchParams.get('session') ?? '' } })
  const at = sessionOf(checkout.url)
  const form = { 'content-type': 'application/x-www-form-urlencoded' }
  await see('sandboxCheckoutPage', 200, at)
  await see('paySandboxCheckout', 200, { ...at, headers: form, body: 'action=pay' })
  const unknown = { query: { session: 'x'.repeat(43) }, how: 'unknown session' }
  await see('sandboxCheckoutPage', 404, unknown)
  await see('sandboxPortalPage', 404, unknown)
  await see('paySandboxCheckout', 404, { ...unknown, headers: form, body: 'action=pay' })
  await see('changeInSandboxPortal', 404, { ...unknown, headers: form, body: 'action=x' })
  const portal = (await see('openBillingPortal', 200)).body
  const there = sessionOf(portal.url)
  await see('sandboxPortalPage', 200, there)
  await see('createCheckout', 409, { body: {}, how: 'project that already has a subscription' })
  await whileSet(world, `billing_product SET is_archived = $1`, [true, false], () =>
    see('chooseCheckoutProduct', 409, { body: { product_id: products[0].id }, how: 'discontinued product' }),
  )
  const row = await system.database.db.one<{ id: string }>({
    name: 'test.subscription',
    text: 'SELECT id FROM billing_sandbox_subscription LIMIT 1',
  })
  await see('changeInSandboxPortal', 200, { ...there, headers: form, body: `action=cancel ${row.id}` })
  await see('getUsage', 200)
  await see('setBudget', 200, { body: { monthly_cents: 1_000_000 } })
  const [key] = sandboxKeys(createVault(config.secrets))
  const raw = Buffer.from('{"type":"unknown"}')
  const now = new Date()
  await see('receiveBillingWebhook', 401, { body: raw, how: 'no signature' })
  await see('receiveBillingWebhook', 200, {
    body: raw,
    headers: {
      'webhook-id': 'first',
      'webhook-timestamp': String(Math.floor(now.getTime() / 1000)),
      'webhook-signature': key ? sign(key, 'first', now, raw) : '',
    },
  })
}

export async function sourceHosts(world: World): Promise<void> {
  const { see, source, system, config } = world
  const raw = Buffer.from('{"zen":"x"}')
  const signature = createHmac('sha256', webhookSecret).update(raw).digest('hex')
  const head = { 'x-github-event': 'ping', 'x-github-delivery': 'first' }
  await see('receiveScmWebhook', 401, { body: raw, headers: head, how: 'no signature' })
  await see('receiveScmWebhook', 200, {
    body: raw,
    headers: { ...head, 'x-hub-signature-256': `sha256=${signature}` },
  })
  const begin = async (confirm: boolean) => {
    const begun = await see('installScm', 200, { query: confirm ? { confirm: 'true' } : {} })
    const cookie = String(begun.headers['set-cookie'] ?? '').split(';')[0] ?? ''
    return { state: new URL(begun.body.url).searchParams.get('state') ?? '', cookie }
  }
  const come = async (id: number, confirm: boolean) => {
    source.installations.set(id, { login: `org-${id}` })
    source.codes.set(`code-${id}`, { installations: [id] })
    const { state, cookie } = await begin(confirm)
    const query = { installation_id: String(id), setup_action: 'install', state, code: `code-${id}` }
    return { query, headers: { cookie } }
  }
  await see('scmCallback', 200, await come(1, false))
  const { body } = await see('scmCallback', 200, await come(2, true))
  const confirmation = { body: { confirmation: body.confirmation } }
  await using without = await faultyServer(system, {
    config: { ...config, scm: undefined, billing: { ...config.billing, provider: 'none' } },
  })
  const { port } = without
  const how = 'installation without a source host'
  await see('installScm', 409, { port, how })
  await see('scmCallback', 409, { ...(await come(3, true)), port, how })
  await see('receiveScmWebhook', 404, { port, body: raw, headers: head, how })
  await see('receiveBillingWebhook', 404, { port, body: raw, how: 'installation without a billing provider' })
  await see('confirmScm', 409, { ...confirmation, port, how })
  await see('confirmScm', 200, confirmation)
  await see('listRepositories', 200)
  await see('listScmAccounts', 200)
}
