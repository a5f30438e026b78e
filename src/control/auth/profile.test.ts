import { afterAll, beforeAll, expect, it } from 'vitest'
import { type Identity, type Person, startIdentity } from '../../../test/support/identity.ts'

let api: Identity
let person: Person
beforeAll(async () => {
  api = await startIdentity()
  person = await api.person()
})
afterAll(async () => api[Symbol.asyncDispose]())

const change = (body?: object) =>
  api.call('PUT', '/v1/auth/me', { token: person.token, ...(body === undefined ? {} : { body }) })

it('a user can set, keep and remove a profile picture', async () => {
  const avatar_url = 'https://pictures.example.com/me.png?size=64'
  expect((await change({ avatar_url })).body).toMatchObject({ avatar_url })
  expect((await change({ first_name: 'Ada' })).body).toMatchObject({ avatar_url, first_name: 'Ada' })
  expect((await change({ avatar_url: null })).body).toMatchObject({ avatar_url })
  expect((await change({ avatar_url: '' })).body).toMatchObject({ avatar_url: null })
})

it.each(['http://pictures.example.com/me.png', 'javascript:alert(1)', 'me.png', 'https://user:pw@example.com/me.png'])(
  'the URL %s of a profile picture is refused',
  async avatar_url =>
    expect(await change({ avatar_url })).toMatchObject({ status: 400, body: { details: [{ field: 'avatar_url' }] } }),
)
