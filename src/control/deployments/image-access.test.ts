/** Built images stay in the project that built them, whoever knows their reference. */
import { afterAll, beforeAll, expect, it } from 'vitest'
import { startWholeApi } from '../../../test/security/cases.ts'
import type { Identity } from '../../../test/support/identity.ts'
import { newId } from '../../lib/ids.ts'
import { type Owner, owner } from '../billing/testing.ts'

const registry = 'registry.example:5000/apps'
let api: Identity
beforeAll(async () => {
  api = await startWholeApi({ env: { MOTE_REGISTRY: registry } })
})
afterAll(() => api[Symbol.asyncDispose]())

async function appOf(person: Owner): Promise<{ readonly name: string; readonly id: string }> {
  const name = `app-${newId().slice(-8)}`
  const { status, body } = await api.call('POST', '/v1/apps', { token: person.token, body: { name, git_url: '' } })
  expect(status).toBe(200)
  return { name, id: String(body['id']) }
}

const digest = `sha256:${'a'.repeat(64)}`
const references = (appId: string) => [
  `oci:app-${appId}`,
  `oci:app-${appId}:latest`,
  `oci:app-${appId}:${digest.replace(':', '-')}`,
  `${registry}/${appId}`,
  `${registry}/${appId}@${digest}`,
  `${registry.toUpperCase().replace('APPS', 'apps')}/${appId}@${digest}`,
]

it('a built image is deployed in its own project, by any of its apps', async () => {
  const person = await owner(api)
  const [built, sibling] = [await appOf(person), await appOf(person)]
  for (const image of references(built.id))
    for (const app of [built, sibling]) {
      const body = { image, dry_run: true }
      expect((await api.call('POST', `/v1/apps/${app.name}/deploy`, { token: person.token, body })).status).toBe(200)
    }
})

it('a built image of another project is refused like one that does not exist, on every way to deploy', async () => {
  const [person, stranger] = [await owner(api), await owner(api)]
  const foreign = await appOf(person)
  const own = await appOf(stranger)
  for (const [real, absent] of references(foreign.id).map((one, n) => [one, references(newId())[n] ?? ''] as const)) {
    const answers = []
    for (const image of [real, absent])
      for (const [path, body] of [
        [`/v1/apps/${own.name}/deploy`, { image }],
        [`/v1/apps/${own.name}/deploy`, { image, dry_run: true }],
        ['/v1/deploy', { app_name: own.name, image }],
      ] as const)
        answers.push(await api.call('POST', path, { token: stranger.token, body }))
    const [first] = answers
    for (const { status, body } of answers) {
      expect([status, body['code']]).toEqual([400, 'invalid_request'])
      expect(body['error']).toBe(first?.body['error'])
    }
  }
})
