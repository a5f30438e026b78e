/** Tests that an unresponsive billing provider delays only requests that need it. */
import { once } from 'node:events'
import { createServer } from 'node:net'
import { expect, it } from 'vitest'
import { startWholeApi } from '../../../test/security/cases.ts'
import { deliver, owner, polarEnvironment, subscriptionData } from '../../../test/support/control/billing.ts'
import { promisedMs } from '../../../test/support/wait.ts'

/** Starts a server that accepts connections but never sends a response. */
async function silence() {
  const server = createServer(socket => socket.on('error', () => undefined)).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  return {
    url: `http://127.0.0.1:${typeof address === 'object' ? address?.port : 0}`,
    [Symbol.dispose]: () => void server.close(),
  }
}

it('deployments, plan limits, webhooks and the billing summary work while the billing provider does not respond', {
  timeout: 60_000,
}, async () => {
  using provider = await silence()
  await using api = await startWholeApi({ env: { ...polarEnvironment, MOTE_BILLING_API_URL: provider.url } })
  const { token, projectId } = await owner(api)
  const checkout = api.call('POST', '/v1/billing/products/refresh', { token })

  const began = performance.now()
  const named = (name: string) =>
    api.call('POST', '/v1/deploy', { token, body: { app_name: name, image: 'example.com/a:1' } })
  expect((await named('one')).status).toBe(200)
  const event = {
    type: 'subscription.active',
    timestamp: api.clock.now().toISOString(),
    data: subscriptionData(projectId, api.clock.now()),
  }
  expect((await deliver(api, 'evt_while_down', event)).body).toEqual({ status: 'applied' })
  expect((await api.call('GET', '/v1/billing', { token })).body).toMatchObject({ status: 'active', tier_slug: 'pro' })
  for (const name of ['two', 'three', 'four']) expect((await named(name)).status).toBe(200)
  // A request to the provider would wait for five seconds until it times out, so none of the requests above has waited
  // for it.
  expect(performance.now() - began).toBeLessThan(promisedMs(5_000))
  expect([403, 503]).toContain((await checkout).status)
})
