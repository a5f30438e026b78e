/** A project member with the role "viewer" can read the project, and every operation that writes is forbidden. */
import { afterAll, beforeAll, expect, it } from 'vitest'
import { accept, type Identity } from '../support/identity.ts'
import { type Belongings, bodyOf, everyOperation, pathOf, settle, startWholeApi } from './cases.ts'
import { type Fingerprints, fingerprints } from './fingerprint.ts'

let api: Identity
let prints: Fingerprints
let owner: Belongings
let viewer: string
beforeAll(async () => {
  api = await startWholeApi()
  // The first account becomes the administrator; the accounts of this test must not.
  await api.person()
  prints = await fingerprints(api.url)
  owner = await settle(api)
  const { token, email } = await api.person()
  const path = `/v1/projects/${owner.params['tenant_slug']}/members`
  const invited = await api.call('POST', path, { token: owner.person.token, body: { email, role: 'viewer' } })
  await accept(api, invited.body, token)
  viewer = token
})
afterAll(async () => {
  await prints.close()
  await api[Symbol.asyncDispose]()
})

const asViewer = (path: string, method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE', body?: object) =>
  api.call(method, path, { token: viewer, headers: { 'x-project': owner.projectId }, ...(body ? { body } : {}) })

const writes = () =>
  everyOperation(api).filter(
    ({ operation }) => operation.auth === 'bearer' && operation.project !== 'none' && operation.method !== 'GET',
  )

it('a viewer can read the project', async () => {
  expect((await asViewer(`/v1/apps/${owner.params['app_name']}`, 'GET')).status).toBe(200)
})

it('a viewer gets 403 from every operation that writes, and nothing changes', async () => {
  const cases = writes()
  expect(cases.length).toBeGreaterThan(79)
  const before = await prints.take()
  const statuses: Record<string, number> = {}
  for (const subject of cases) {
    const { status } = await asViewer(pathOf(subject, owner.params), subject.operation.method, bodyOf(subject))
    if (status !== 403) statuses[subject.id] = status
  }
  expect(statuses).toEqual({})
  expect(await prints.take()).toEqual(before)
})
