/** `If-Match` on changes, and error responses as `application/problem+json`. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type TestSystem, type TestUser, testSystem } from './support/system.ts'

let system: TestSystem
let user: TestUser
beforeAll(async () => {
  system = await testSystem({ agents: 0 })
  user = await system.user()
  await user.post('/v1/apps', { name: 'web', git_url: '' })
  await user.post('/v1/volumes', { name: 'data', size_mib: 32 })
})
afterAll(async () => system[Symbol.asyncDispose]())

const tagOf = async (path: string) => (await user.get(path)).headers.get('etag') ?? ''
const change = (path: string, body: object, tag: string) => user.call('PATCH', path, body, { 'if-match': tag })

describe('If-Match', () => {
  it('accepts a change based on the newest state, and rejects one based on an older state', async () => {
    const read = await tagOf('/v1/apps/web')
    expect((await change('/v1/apps/web', { port: 3000 }, read)).body).toMatchObject({ port: 3000 })
    const late = await change('/v1/apps/web', { port: 4000 }, read)
    expect(late).toMatchObject({ status: 412, body: { code: 'precondition_failed' } })
    expect((await user.get('/v1/apps/web')).body.port).toBe(3000)
    const now = await tagOf('/v1/apps/web')
    expect((await change('/v1/apps/web', { port: 4000 }, `"other", ${now.replace('W/', '')}`)).status).toBe(200)
    expect((await change('/v1/apps/web', { port: 5000 }, '*')).status).toBe(200)
  })

  it('is compared with the ETag of the app when the app is scaled', async () => {
    const read = await tagOf('/v1/apps/web')
    expect((await change('/v1/apps/web/scale', { desired_replicas: 2 }, read)).status).toBe(200)
    expect((await change('/v1/apps/web/scale', { desired_replicas: 3 }, read)).status).toBe(412)
  })

  it('accepts at most one of many concurrent changes, even beside a change without If-Match', async () => {
    const read = await tagOf('/v1/apps/web')
    const tries = Array.from({ length: 12 }, (_, n) => change('/v1/apps/web', { port: 6000 + n }, read))
    const answers = await Promise.all([...tries, user.call('PATCH', '/v1/apps/web', { port: 7000 })])
    const statuses = answers.slice(0, -1).map(({ status }) => status)
    // If the change without If-Match is applied first, every other change must be rejected.
    expect(statuses.filter(status => status === 200).length).toBeLessThanOrEqual(1)
    expect(statuses.filter(status => status !== 200 && status !== 412)).toEqual([])
    expect(answers.at(-1)?.status).toBe(200)
  })

  it('is checked for deletions, and fails for resources that do not exist', async () => {
    const [{ id }] = (await user.get('/v1/volumes')).body
    const path = `/v1/volumes/${id}`
    const read = await tagOf(path)
    const remove = (tag: string) => user.call('DELETE', path, undefined, { 'if-match': tag })
    expect((await remove('W/"stale"')).status).toBe(412)
    expect((await remove(read)).status).toBe(200)
    expect((await user.call('PATCH', '/v1/apps/none', { port: 1 }, { 'if-match': '*' })).status).toBe(412)
  })
})

describe('error responses', () => {
  const failing = (accept: string) => user.get('/v1/apps/none', { accept })
  it('are problem documents for clients that accept them', async () => {
    const answer = await failing('application/problem+json, application/json')
    expect(answer.headers.get('content-type')).toMatch(/^application\/problem\+json/)
    expect(answer.body).toEqual({
      type: 'about:blank',
      title: 'Not Found',
      detail: 'Not found.',
      error: 'Not found.',
      status: 404,
      code: 'not_found',
      request_id: answer.headers.get('x-request-id'),
    })
  })

  it.each(['*/*', 'application/json', 'application/problem+json;q=0', ''])('are JSON for Accept %j', async accept => {
    const answer = await failing(accept)
    expect(answer.headers.get('content-type')).toBe('application/json')
    expect(answer.body).not.toHaveProperty('title')
  })
})
