/** Tests that many concurrent requests together never exceed a limit of a plan. */
import { afterAll, beforeAll, expect, it } from 'vitest'
import { runsAll } from '../../../test/support/all-examples.ts'
import { startWholeApi } from '../../../test/security/cases.ts'
import type { Identity } from '../../../test/support/identity.ts'
import { statement } from '../../db/db.ts'
import { inParallel, owner } from '../../../test/support/control/billing.ts'

let api: Identity
beforeAll(async () => {
  api = await startWholeApi({ env: { MOTE_DEFAULT_PLAN: 'free', MOTE_GIT_PRIVATE_HOSTS: 'on' } })
})
afterAll(() => api[Symbol.asyncDispose]())

const tries = runsAll ? 1000 : 200
const count = (statuses: readonly number[], status: number) => statuses.filter(one => one === status).length
const total = statement<{ vcpus: number }>(
  'test.totalVcpus',
  `SELECT coalesce(sum(vcpus), 0)::int AS vcpus FROM (
     SELECT vcpus FROM vm WHERE project_id = $1 AND want <> 'absent'
     UNION ALL SELECT vcpus FROM deployment WHERE project_id = $1 AND image = '' AND outcome IS NULL) claim`,
)

it('of 99 concurrent requests to enlarge one of three volumes, exactly one volume grows within the storage limit', async () => {
  const { token } = await owner(api)
  const ids: string[] = []
  for (const name of ['a', 'b', 'c']) {
    const { body } = await api.call('POST', '/v1/volumes', { token, body: { name, size_mib: 1024 } })
    ids.push(String(body['id']))
  }
  const statuses = await inParallel(
    Array.from({ length: 99 }, (_, n) => n),
    50,
    async n => (await api.call('PATCH', `/v1/volumes/${ids[n % 3]}`, { token, body: { size_mib: 8192 } })).status,
  )
  const { body } = await api.call('GET', '/v1/volumes', { token })
  expect(body.map((one: { size_mib: number }) => one.size_mib).sort()).toEqual([1024, 1024, 8192])
  // Requests for the size that the volume already has succeed without a change.
  expect(count(statuses, 200) + count(statuses, 403)).toBe(99)
  expect(count(statuses, 403)).toBeGreaterThanOrEqual(66)
}, 120_000)

it(`of ${tries} concurrent deploys for the last free vCPU of a plan, either one deploy of an image or the builds of one app get the vCPU`, async () => {
  const { token, projectId } = await owner(api)
  for (const [name, git_url] of [
    ['image', ''],
    ['source', 'http://git.example/x.git'],
  ] as const)
    expect((await api.call('POST', '/v1/apps', { token, body: { name, git_url } })).status).toBe(200)
  const deploy = async (app: string, vcpus: number) =>
    (
      await api.call('POST', `/v1/apps/${app}/deploy`, {
        token,
        body: { vcpus, ...(app === 'image' ? { image: 'example.com/a:1' } : {}) },
      })
    ).status
  expect(await deploy('image', 3)).toBe(200)
  const statuses = await inParallel(
    Array.from({ length: tries }, (_, n) => n),
    50,
    n => deploy(n % 2 ? 'image' : 'source', 1),
  )
  const accepted = (odd: number) => statuses.filter((status, n) => status === 200 && n % 2 === odd).length
  const [builds, images] = [accepted(0), accepted(1)]
  // Either one deploy of an image gets the vCPU, or deploys from source do. Several of those may succeed, because a
  // newer build supersedes the app's waiting build and takes over its vCPU.
  expect([builds > 0 ? 'builds' : 'none', images]).toEqual(images === 1 ? ['none', 1] : ['builds', 0])
  expect(count(statuses, 200) + count(statuses, 403)).toBe(tries)
  expect(await api.deps.db.one(total, [projectId])).toEqual({ vcpus: 4 })
}, 240_000)
