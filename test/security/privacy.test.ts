/** What the project's event stream reveals to members about each other. */
import { expect, it } from 'vitest'
import { notify, notifyAccount } from '../../src/control/notifications/index.ts'
import { startRelay } from '../../src/control/events/index.ts'
import { settle, startWholeApi } from './cases.ts'
import { accept } from '../support/identity.ts'

it("a project's event stream does not show a member another member's account notifications", async () => {
  await using api = await startWholeApi()
  const { db } = api.deps
  const relay = await startRelay(api.deps)
  await using cleanup = new AsyncDisposableStack()
  cleanup.defer(() => relay.stop())
  const owner = await settle(api)
  const { token, email, id: guestId } = await api.person()
  const path = `/v1/projects/${owner.params['tenant_slug']}/members`
  const invited = await api.call('POST', path, { token: owner.person.token, body: { email, role: 'viewer' } })
  await accept(api, invited.body, token)

  const base = await api.app.listen({ host: '127.0.0.1', port: 0 })
  const done = new AbortController()
  cleanup.defer(async () => done.abort())
  const headers = { authorization: `Bearer ${token}`, 'x-project': owner.projectId }
  const signal = AbortSignal.any([done.signal, AbortSignal.timeout(15_000)])
  const stream = await fetch(`${base}/v1/workspace/events`, { headers, signal })
  const reader = stream.body?.pipeThrough(new TextDecoderStream()).getReader()

  const secret = 'Somebody signed in from 203.0.113.77'
  const about = { kind: 'security.new_login', title: 'New sign-in', body: secret } as const
  await db.tx(tx => notifyAccount(tx, { accountId: owner.person.id, ...about }))
  const everybody = {
    kind: 'volume.trouble',
    title: 'For all',
    body: 'x',
    entityName: 'v',
    resourceId: 'v',
    route: '/v',
  } as const
  await db.tx(tx => notify(tx, { projectId: owner.projectId, ...everybody }))

  let text = ''
  while (!text.includes(`"user_id":"${guestId}"`)) text += (await reader?.read())?.value ?? ''
  expect(text).toContain('For all')
  expect(text).not.toContain(secret)
  expect(text).not.toContain(`"user_id":"${owner.person.id}"`)
})
