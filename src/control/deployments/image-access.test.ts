/** Built images can only be used in the project that built them, even by callers who know the reference. */
import { afterAll, beforeAll, expect, it } from 'vitest'
import { startWholeApi } from '../../../test/security/cases.ts'
import type { Identity } from '../../../test/support/identity.ts'
import { statement } from '../../db/db.ts'
import { newId } from '../../lib/ids.ts'
import { type Owner, owner } from '../../../test/support/control/billing.ts'

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

const setImage = statement('test.setImage', 'UPDATE deployment SET image = $2 WHERE id = $1')

const digest = `sha256:${'a'.repeat(64)}`
const references = (appId: string) => [
  `oci:app-${appId}`,
  `oci:app-${appId}:latest`,
  `oci:app-${appId}:${digest.replace(':', '-')}`,
  `${registry}/${appId}`,
  `${registry}/${appId}@${digest}`,
  `${registry.toUpperCase().replace('APPS', 'apps')}/${appId}@${digest}`,
]

it('a built image can be deployed by every app of its own project', async () => {
  const person = await owner(api)
  const [built, sibling] = [await appOf(person), await appOf(person)]
  for (const image of references(built.id))
    for (const app of [built, sibling]) {
      const body = { image, dry_run: true }
      expect((await api.call('POST', `/v1/apps/${app.name}/deploy`, { token: person.token, body })).status).toBe(200)
    }
})

it('a built image of another project is refused like a nonexistent image, in every kind of deployment', async () => {
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

it('a deployment cannot be activated again if its built image belongs to another project', async () => {
  const [person, stranger] = [await owner(api), await owner(api)]
  const foreign = await appOf(person)
  const own = await appOf(stranger)
  const deploy = { token: stranger.token, body: { image: `oci:app-${own.id}` } }
  const { body } = await api.call('POST', `/v1/apps/${own.name}/deploy`, deploy)
  const activate = () =>
    api.call('POST', `/v1/apps/${own.name}/deployments/${String(body['deployment_id'])}/activate`, {
      token: stranger.token,
    })
  expect((await activate()).status).toBe(200)
  for (const image of references(foreign.id)) {
    await api.deps.db.run(setImage, [body['deployment_id'], image])
    expect(await activate()).toMatchObject({ status: 409, body: { code: 'invalid_state' } })
  }
})
