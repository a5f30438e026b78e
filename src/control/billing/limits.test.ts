/** Tests plan limits: of a thousand concurrent requests for the last free slot, exactly one succeeds. */
import { afterAll, beforeAll, expect, it } from 'vitest'
import { startWholeApi } from '../../../test/security/cases.ts'
import type { Identity } from '../../../test/support/identity.ts'
import {
  deliver,
  inParallel,
  owner,
  polarEnvironment,
  subscriptionData,
} from '../../../test/support/control/billing.ts'

let api: Identity
beforeAll(async () => {
  api = await startWholeApi({ env: polarEnvironment })
})
afterAll(() => api[Symbol.asyncDispose]())

const tries = Array.from({ length: 1000 }, (_, n) => n)

it('a project never has more apps than its plan allows', { timeout: 120_000 }, async () => {
  const { token } = await owner(api)
  const create = (name: string) => api.call('POST', '/v1/apps', { token, body: { name, git_url: '' } })
  for (const name of ['first', 'second']) expect((await create(name)).status).toBe(200)
  const replies = await inParallel(tries, 64, n => create(`app-${n}`))
  expect(replies.filter(reply => reply.status === 200).length).toBe(1)
  const refused = { status: 403, body: { code: 'plan_limit_exceeded', limit: 'max_apps', used: 3, max: 3 } }
  for (const reply of replies.filter(other => other.status !== 200)) expect(reply).toMatchObject(refused)
})

it('a project never has more members than its plan allows, even after a downgrade', { timeout: 120_000 }, async () => {
  const { token, slug, projectId } = await owner(api)
  const now = api.clock.now()
  await deliver(api, `evt_${projectId}_1`, { type: 'subscription.active', data: subscriptionData(projectId, now) })
  const invite = (name: string) =>
    api.call('POST', `/v1/projects/${slug}/members`, {
      token,
      body: { email: `${name}-${slug}@example.com`, role: 'member' },
    })
  for (let n = 0; n < 8; n++) expect((await invite(`early${n}`)).status).toBe(200)
  const replies = await inParallel(tries, 64, n => invite(`late${n}`))
  expect(replies.filter(reply => reply.status === 200).length).toBe(1)
  expect(replies.filter(reply => reply.body['code'] === 'plan_limit_exceeded').length).toBe(999)

  const over = subscriptionData(projectId, new Date(now.getTime() + 1000), { status: 'canceled' })
  await deliver(api, `evt_${projectId}_2`, { type: 'subscription.revoked', data: over })
  const members = await api.call('GET', `/v1/projects/${slug}/members`, { token })
  expect(members.body['invitations'].length).toBe(9)
  expect((await invite('afterwards')).body).toMatchObject({ code: 'plan_limit_exceeded', used: 10, max: 1 })
})
