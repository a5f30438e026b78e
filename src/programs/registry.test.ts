/** The installation's own registry with the control plane's tokens, with a real docker-registry and skopeo. */
import { existsSync } from 'node:fs'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { accessToken, type RegistrySystem, registrySystem } from '../../test/support/push-registry.ts'
import { testDir } from '../../test/support/agent/agent.ts'
import { startedProcesses } from '../../test/support/lib/environments.ts'
import type { TestUser } from '../../test/support/system.ts'
import { until } from '../../test/support/wait.ts'
import { context } from '../../test/support/agent/image.ts'
import { writeSampleImage } from '../agent/image/sample.ts'
import { imageStore } from '../agent/image/store.ts'
import { signedIn } from '../agent/image/access.ts'
import { parseImage } from '../agent/image/reference.ts'
import { buildLoginsFrom, loginsFrom } from '../agent/image/logins.ts'
import { pushImage } from '../agent/image/registry.ts'
import type { RegistryLogin } from '../contract/agent.ts'
import { statement } from '../db/db.ts'
import { run } from '../lib/exec.ts'
import { newId } from '../lib/ids.ts'
import { testCache } from '../../test/support/agent/test-cache.ts'

const anyHost = statement<{ hostId: string }>('test.registry.host', `SELECT id AS "hostId" FROM host LIMIT 1`)
const vmOfDeployment = statement<{ id: string; hostId: string }>(
  'test.registry.vmOfDeployment',
  `SELECT id, host_id AS "hostId" FROM vm WHERE host_id IS NOT NULL AND deployment_id = $1`,
)
const insertBuild = statement(
  'test.registry.build',
  `INSERT INTO build (id, project_id, app_id, deployment_id, host_id, holds, vcpus, memory_mib, disk_mib, git_url, git_branch, git_commit)
   SELECT $1, a.project_id, a.id, gen_random_uuid(), $2, true, 1, 1024, 1024, '', '', '' FROM app a WHERE a.id = $3`,
)

const missing = ['docker-registry', 'skopeo', 'umoci'].filter(name => !existsSync(`/usr/bin/${name}`))

describe.skipIf(missing.length > 0)(
  `the installation's own registry (needs ${missing.join(' ') || 'nothing'})`,
  { timeout: 60_000 },
  () => {
    let own: RegistrySystem
    let dir: Awaited<ReturnType<typeof testDir>>
    let ann: TestUser
    let bob: TestUser
    let digest: string
    beforeAll(async () => {
      process.env['MOTE_SMTP_PASSWORD'] = 'hunter2-of-the-parent'
      own = await registrySystem()
      dir = await testDir()
      ann = await own.system.user()
      bob = await own.system.user()
      digest = await writeSampleImage(join(dir.path, 'hello'))
      await writeFile(join(dir.path, 'policy.json'), '{"default":[{"type":"insecureAcceptAnything"}]}')
    }, 60_000)
    afterAll(async () => {
      delete process.env['MOTE_SMTP_PASSWORD']
      await own[Symbol.asyncDispose]()
      await dir[Symbol.asyncDispose]()
    })

    const skopeo = (...args: readonly string[]) => run('skopeo', ['--policy', join(dir.path, 'policy.json'), ...args])
    const push = (token: string, name: string) =>
      skopeo(
        ...['copy', '-q', '--preserve-digests', '--dest-tls-verify=false', '--dest-creds', `ci:${token}`],
        ...[`oci:${join(dir.path, 'hello')}:latest`, `docker://${own.host}/${name}`],
      )
    const read = (token: string, name: string) =>
      skopeo('inspect', '--raw', '--tls-verify=false', '--creds', `ci:${token}`, `docker://${own.host}/${name}`)
    const remove = (token: string, name: string) =>
      skopeo('delete', '--tls-verify=false', '--creds', `ci:${token}`, `docker://${own.host}/${name}`)

    it('has no secrets of its parent process in its environment', () => {
      const registry = startedProcesses().filter(({ name }) => name === 'docker-registry')
      expect(registry).toHaveLength(1)
      expect(registry[0]?.environ).toContain('PATH=')
      expect(registry[0]?.environ).not.toContain('hunter2')
    })

    it('lets access tokens with the permission to deploy push images of the project, and tokens of readers pull them', async () => {
      const image = `${ann.project}/shop:v1`
      const deployer = await accessToken(ann, ['deploy'])
      const reader = await accessToken(ann, ['read'])
      await expect(push(reader, image)).rejects.toThrow(/denied|unauthorized/i)
      await push(deployer, image)
      expect(JSON.parse(await read(reader, image))).toMatchObject({ schemaVersion: 2 })
      await expect(remove(deployer, image)).rejects.toThrow(/denied|unauthorized/i)
      await push(deployer, `${ann.project}/team/part:v1`)
      await remove(await accessToken(ann, ['write']), `${ann.project}/team/part:v1`)
      await expect(read(reader, `${ann.project}/team/part:v1`)).rejects.toThrow(/manifest unknown/)
    })

    it("refuses pulls and pushes of other projects' images, and all requests without an access token", async () => {
      await push(await accessToken(ann, ['deploy']), `${ann.project}/secret:v1`)
      const strange = await accessToken(bob, ['admin'])
      await expect(read(strange, `${ann.project}/secret:v1`)).rejects.toThrow(/denied|unauthorized/i)
      await expect(push(strange, `${ann.project}/secret:v2`)).rejects.toThrow(/denied|unauthorized/i)
      const id = (await ann.get('/v1/projects')).body[0].id
      for (const name of [`${id}/x:v1`, 'mote_builds/x:v1', 'x:v1'])
        await expect(push(await accessToken(ann, ['admin']), name), name).rejects.toThrow(/denied|unauthorized/i)
      // A session token is not accepted as an access token.
      for (const guess of ['wrong', ann.token ?? ''])
        await expect(read(guess, `${ann.project}/secret:v1`)).rejects.toThrow(/unauthorized/)
      const bare = await fetch(`http://${own.host}/v2/${ann.project}/secret/tags/list`)
      expect(bare.status).toBe(401)
      expect(bare.headers.get('www-authenticate')).toContain(`realm="${own.system.control.url}/v1/registry/token"`)
    })

    it('limits a token to its project and to the role of its owner', async () => {
      const made = (await ann.post('/v1/projects', { name: 'Second' })).body
      const bound = await accessToken(ann, ['admin'], { project: made.id })
      await push(bound, `${made.tenant_id}/app:v1`)
      await expect(push(bound, `${ann.project}/app:v1`)).rejects.toThrow(/denied|unauthorized/i)
      const join_ = statement(
        'test.registry.viewer',
        `INSERT INTO project_member (project_id, account_id, role)
         SELECT $1, (SELECT id FROM account WHERE email = $2), 'viewer'`,
      )
      await own.system.database.db.run(join_, [made.id, bob.email])
      const viewer = await accessToken(bob, ['admin'])
      await read(viewer, `${made.tenant_id}/app:v1`)
      await expect(push(viewer, `${made.tenant_id}/app:v2`)).rejects.toThrow(/denied|unauthorized/i)
    })

    it('lets a host pull the image of its VM with a ticket for that repository only', async () => {
      const image = `${own.host}/${ann.project}/shop@${digest}`
      await push(await accessToken(ann, ['deploy']), `${ann.project}/shop:v2`)
      await ann.post('/v1/deploy', { app_name: 'shop', image })
      const vmOf = statement<{ id: string; hostId: string }>(
        'test.registry.vm',
        `SELECT id, host_id AS "hostId" FROM vm WHERE host_id IS NOT NULL ORDER BY id DESC LIMIT 1`,
      )
      let vm: { id: string; hostId: string } | undefined
      const isPlaced = async () => (vm = await own.system.database.db.maybe(vmOf)) !== undefined
      await until(isPlaced, { what: 'the VM' })
      const askLogin = loginsFrom(own.system.bus, vm?.hostId ?? '')
      const store = imageStore({
        cacheDir: testCache(join(dir.path, 'cache')),
        imageDir: dir.path,
        registries: [{ host: own.host, plainHttp: true }],
        maxImageMib: 64,
        askLogin,
      })
      const user = { projectId: 'ann', signsInFor: vm?.id }
      expect((await store.base(image, context(), user)).config.digest).toBe(digest)
      const other = `${own.host}/${ann.project}/secret@${digest}`
      await expect(store.base(other, context(), user)).rejects.toMatchObject({ code: 'image_not_found' })
      const login = await askLogin(vm?.id ?? '', AbortSignal.timeout(5000))
      await expect(push(login?.password ?? '', `${ann.project}/shop:v3`)).rejects.toThrow(/denied|unauthorized/i)
      // The control plane must not give the host a ticket for another project's image.
      await bob.post('/v1/deploy', { app_name: 'thief', image })
      const isThief = async () => (vm = await own.system.database.db.maybe(vmOf))?.id !== user.signsInFor
      await until(isThief, { what: 'the other VM' })
      expect(await askLogin(vm?.id ?? '', AbortSignal.timeout(5000))).toBeUndefined()
    })

    it("lets a build's host push its image, and only hosts with VMs of the project pull it", async () => {
      const appOf = async (user: TestUser, name: string): Promise<string> =>
        (await user.post('/v1/apps', { name, git_url: 'https://git.example/a.git' })).body.id
      const [app, sibling, foreign] = [await appOf(ann, 'made'), await appOf(ann, 'sibling'), await appOf(bob, 'other')]
      const { hostId } = await own.system.database.db.one(anyHost, [])
      const [buildId, nameOf] = [newId(), (appId: string) => `${own.host}/mote.builds/${appId}`]
      await own.system.database.db.run(insertBuild, [buildId, hostId, app])
      const signal = AbortSignal.timeout(30_000)
      const askLogin = buildLoginsFrom(own.system.bus, hostId)
      const pushTo = async (appId: string, login: RegistryLogin | undefined) => {
        const to = `${nameOf(appId)}:built`
        const reference = parseImage(to)
        if (reference.kind !== 'registry') throw new Error(to)
        await pushImage(join(dir.path, 'hello'), 'latest', to, signedIn([], reference, login), signal)
      }
      await pushTo(app, await askLogin(buildId, nameOf(app), signal))
      await expect(pushTo(sibling, await askLogin(buildId, nameOf(sibling), signal))).rejects.toThrow()
      expect(await askLogin(buildId, nameOf(foreign), signal)).toBeUndefined()
      await expect(push(await accessToken(ann, ['admin']), `mote.builds/${app}:v1`)).rejects.toThrow(/denied/)
      await expect(read(await accessToken(ann, ['admin']), `mote.builds/${app}:built`)).rejects.toThrow(/denied/)

      const image = `${nameOf(app)}@${digest}`
      expect((await bob.post('/v1/deploy', { app_name: 'thief-of-builds', image })).status).toBe(400)
      const { deployment_id } = (await ann.post('/v1/deploy', { app_name: 'made', image })).body
      let vm: { id: string; hostId: string } | undefined
      const isPlaced = async () =>
        (vm = await own.system.database.db.maybe(vmOfDeployment, [deployment_id])) !== undefined
      await until(isPlaced, { what: 'the VM' })
      const cacheDir = testCache(join(dir.path, 'cache-of-another-host'))
      const askVmLogin = loginsFrom(own.system.bus, vm?.hostId ?? '')
      const store = imageStore({ cacheDir, imageDir: dir.path, registries: [], maxImageMib: 64, askLogin: askVmLogin })
      const user = { projectId: 'ann', signsInFor: vm?.id }
      expect((await store.base(image, context(), user)).config.digest).toBe(digest)
      const ticket = (await askVmLogin(vm?.id ?? '', signal))?.password ?? ''
      await expect(push(ticket, `mote.builds/${app}:v2`)).rejects.toThrow(/denied/)
    })

    it('stores built images in a project of the operator, as documented', async () => {
      const { tenant_id } = (await ann.post('/v1/projects', { name: 'Builds' })).body
      const password = await accessToken(ann, ['deploy'], { project: tenant_id })
      // The second entry of the list is the one that `mote up` adds.
      const registries = [
        { host: own.host, plainHttp: true, username: 'mote', password },
        { host: own.host, plainHttp: true },
      ]
      const repository = `${own.host}/${tenant_id}/${newId()}`
      const signal = AbortSignal.timeout(30_000)
      await pushImage(join(dir.path, 'hello'), 'latest', `${repository}:built`, registries, signal)
      const cacheDir = testCache(join(dir.path, 'cache-of-builds'))
      const store = imageStore({ cacheDir, imageDir: dir.path, registries, maxImageMib: 64 })
      const user = { projectId: 'any', builtImage: true }
      expect((await store.base(`${repository}@${digest}`, context(), user)).config.digest).toBe(digest)
      const other = store.base(`${repository}@${digest}`, context(), { projectId: 'any' })
      await expect(other).rejects.toMatchObject({ code: 'image_not_found' })
    })

    it('does not give the name of a deleted project to another project', async () => {
      const gone = (await ann.post('/v1/projects', { name: 'Short lived' })).body
      const token = await accessToken(ann, ['admin'])
      await push(token, `${gone.tenant_id}/app:v1`)
      await ann.delete(`/v1/projects/${gone.tenant_id}`)
      await expect(read(token, `${gone.tenant_id}/app:v1`)).rejects.toThrow(/denied|unauthorized/i)
      const isRemoved = statement<{ n: number }>(
        'test.registry.gone',
        `SELECT count(*)::int AS n FROM project WHERE id = $1`,
      )
      const removed = async () => (await own.system.database.db.one(isRemoved, [gone.id])).n === 0
      await until(removed, { what: 'the project to be removed' })
      const again = (await bob.post('/v1/projects', { name: 'Short lived' })).body
      expect(again.tenant_id).toMatch(/^short-lived-[0-9a-f]{4}$/)
    })

    it('runs as an unprivileged account, and is started again after it was killed', async () => {
      const first = own.registry.pid()
      const status = await readFile(`/proc/${first}/status`, 'utf8')
      expect(status).toMatch(/NoNewPrivs:\t1/)
      if (process.getuid?.() === 0) expect(status).toMatch(/Uid:\t(?!0\t)\d+[^]*CapBnd:\t0{16}/)
      process.kill(first, 'SIGKILL')
      const answers = async () =>
        own.registry.pid() !== first && (await fetch(`http://${own.host}/v2/`).catch(() => undefined))?.status === 401
      await until(answers, { what: 'the registry to answer again' })
    })
  },
)
