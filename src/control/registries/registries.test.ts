/** Tests registry credentials of projects: they are set through the API or the command line, and given to hosts. */
import { globSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { cli } from '../../../test/support/cli.ts'
import { type TestSystem, type TestUser, testSystem } from '../../../test/support/system.ts'
import { until } from '../../../test/support/wait.ts'
import { subjects } from '../../contract/agent.ts'
import { statement } from '../../db/db.ts'
import { newId } from '../../lib/ids.ts'

let system: TestSystem
let ann: TestUser
let bob: TestUser
beforeAll(async () => {
  system = await testSystem()
  ann = await system.user()
  bob = await system.user()
}, 60_000)
afterAll(() => system[Symbol.asyncDispose]())

const path = (host: string) => `/v1/registry-credentials/${encodeURIComponent(host)}`
const put = (user: TestUser, host: string, password = 'a-reading-token') =>
  user.call('PUT', '/v1/registry-credentials', { host, username: 'ada', password })

interface VmOfHost {
  readonly id: string
  readonly hostId: string
}
const vmOf = statement<VmOfHost>(
  'test.registries.vm',
  `SELECT v.id, v.host_id AS "hostId" FROM vm v JOIN app a ON a.id = v.app_id
   WHERE a.project_id = (SELECT id FROM project WHERE slug = $1) AND a.name = $2 AND v.host_id IS NOT NULL
   ORDER BY v.id DESC LIMIT 1`,
)
const insertBuild = statement(
  'test.registries.build',
  `INSERT INTO build (id, project_id, app_id, deployment_id, host_id, holds, vcpus, memory_mib, disk_mib, git_url, git_branch, git_commit)
   SELECT $1, p.id, a.id, gen_random_uuid(), $2, $4, 1, 1024, 1024, '', '', '' FROM project p JOIN app a ON a.project_id = p.id
   WHERE p.slug = $3 LIMIT 1`,
)
/** Deploys an image and returns the VM. */
async function deployed(user: TestUser, app_name: string, image: string): Promise<VmOfHost> {
  await until(async () => (await user.post('/v1/deploy', { app_name, image })).status === 200, { what: 'a host' })
  let vm: VmOfHost | undefined
  const isPlaced = async () => (vm = await system.database.db.maybe(vmOf, [user.project, app_name])) !== undefined
  await until(isPlaced, { what: 'the VM', everyMs: 20 })
  if (!vm) throw new Error('BUG: the VM is placed')
  return vm
}
/** Requests the credential for a VM's image, in the way a host does. */
const loginOf = ({ id: vmId, hostId }: VmOfHost) =>
  system.bus.request(subjects.registryLogin(hostId), { vmId }, { timeoutMs: 5000 })

describe('registry credentials', { timeout: 60_000 }, () => {
  it("are stored encrypted, and listed without passwords and with the registry's normalized name", async () => {
    const set = await put(ann, 'GHCR.io', 'ghp-never-shown')
    expect(set.body).toEqual({ host: 'ghcr.io', username: 'ada', updated_at: expect.any(String) })
    expect((await put(ann, 'index.docker.io')).body.host).toBe('docker.io')
    expect((await put(ann, 'localhost:5000')).body.host).toBe('localhost:5000')
    const all = await ann.get('/v1/registry-credentials')
    expect(all.body.map((one: { host: string }) => one.host)).toEqual(['docker.io', 'ghcr.io', 'localhost:5000'])
    expect((await ann.get(path('ghcr.io'))).body).toEqual(set.body)
    expect((await bob.get('/v1/registry-credentials')).body).toEqual([])
    expect((await bob.delete(path('ghcr.io'))).status).toBe(404)
    const found = statement<{ n: number }>(
      'test.registries.plain',
      `SELECT count(*)::int AS n FROM (SELECT c::text AS t FROM registry_credential c UNION ALL SELECT l::text FROM audit_log l) x
       WHERE t LIKE '%' || $1 || '%' OR t LIKE '%' || encode($1::bytea, 'hex') || '%'`,
    )
    expect(await system.database.db.one(found, ['ghp-never-shown'])).toEqual({ n: 0 })
    expect((await ann.delete(path('localhost:5000'))).status).toBe(200)
    expect((await ann.delete(path('localhost:5000'))).status).toBe(404)
  })

  it.each(['ghcr', 'a b.example', 'ghcr.io/ada', 'https:', 'user@ghcr.io'])('are refused for host %s', async host => {
    expect((await put(ann, host)).status).toBe(400)
  })

  it("are given to the host of a VM only for the registry of the VM's image", async () => {
    await put(ann, 'ghcr.io', 'ghp-for-pulls')
    const own = await deployed(ann, 'own', 'ghcr.io/team/app:1')
    expect(await loginOf(own)).toEqual({ login: { host: 'ghcr.io', username: 'ada', password: 'ghp-for-pulls' } })
    for (const hostId of [newId(), 'none']) expect(await loginOf({ ...own, hostId })).toEqual({ login: null })
    expect(await loginOf({ ...own, id: newId() })).toEqual({ login: null })
    expect(await loginOf(await deployed(ann, 'elsewhere', 'quay.io/team/app:1'))).toEqual({ login: null })
    expect(await loginOf(await deployed(ann, 'hub', 'team/app'))).toMatchObject({ login: { host: 'docker.io' } })
    // The host's files record that the image needs a credential, but not the credential itself.
    const wishes = await Promise.all(
      globSync(`${system.dir}/**/wish.json`).map(file => readFile(file, 'utf8').then(wish => JSON.parse(wish))),
    )
    expect(wishes.find(({ vmId }) => vmId === own.id)).toMatchObject({ spec: { signIn: true } })
    expect(JSON.stringify(wishes)).not.toContain('ghp-for-pulls')
    expect(wishes.find(({ spec }) => spec.image === 'quay.io/team/app:1').spec).not.toHaveProperty('signIn')
    // Another project deploys the same image, but has no credential for its registry.
    expect(await loginOf(await deployed(bob, 'foreign', 'ghcr.io/team/app:1'))).toEqual({ login: null })
    // A build may request a credential for any image, because its Dockerfile may name any. It gets credentials only on
    // the host that runs it, and only while it holds resources on that host.
    const buildOf = async (user: TestUser, holds = true): Promise<VmOfHost> => {
      const id = newId()
      await system.database.db.run(insertBuild, [id, own.hostId, user.project, holds])
      return { id, hostId: own.hostId }
    }
    const build = await buildOf(ann)
    const from = ({ id: vmId, hostId }: VmOfHost, image: string) =>
      system.bus.request(subjects.registryLogin(hostId), { vmId, image }, { timeoutMs: 5000 })
    expect(await from(build, 'ghcr.io/team/base:1')).toEqual({
      login: { host: 'ghcr.io', username: 'ada', password: 'ghp-for-pulls' },
    })
    for (const image of ['quay.io/team/base', 'oci:sample']) expect(await from(build, image)).toEqual({ login: null })
    expect(await from({ ...build, hostId: newId() }, 'ghcr.io/team/base:1')).toEqual({ login: null })
    expect(await from(await buildOf(ann, false), 'ghcr.io/team/base:1')).toEqual({ login: null })
    expect(await from(await buildOf(bob), 'ghcr.io/team/base:1')).toEqual({ login: null })
    expect(await from(own, 'ghcr.io/team/base:1'), 'a VM names no image').toEqual({ login: null })
    expect(await loginOf(build)).toEqual({ login: null })
    await ann.delete(path('ghcr.io'))
    expect(await loginOf(own)).toEqual({ login: null })
  })

  it('can be set, listed and deleted on the command line', async () => {
    const mote = cli({
      home: join(system.dir, 'home'),
      env: { MOTE_URL: system.control.url, MOTE_TOKEN: bob.token ?? '' },
    })
    const args = ['registry', 'login', 'https://registry.example.com:5000/v2/', '-u', 'bob', '--password-stdin']
    const set = await mote.run(args, { input: 'a-piped-token\n' })
    expect(set).toMatchObject({ code: 0, out: expect.stringContaining('registry.example.com:5000 are pulled as bob') })
    const vm = await deployed(bob, 'piped', 'registry.example.com:5000/app')
    expect(await loginOf(vm)).toMatchObject({ login: { password: 'a-piped-token' } })
    expect((await mote.run(['registry', 'list'])).out).toMatch(/registry\.example\.com:5000 +bob/)
    expect((await mote.run(['registry', 'logout', 'registry.example.com:5000'])).code).toBe(0)
    expect((await mote.run(['registry', 'list'])).out).toContain('No registries')
  })
})
