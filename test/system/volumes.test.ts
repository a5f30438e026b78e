/** Volumes through the API, with real agents and simulated VMs: the volumes are real files with real locks. */
import { readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { newId } from '../../src/lib/ids.ts'
import { type TestSystem, type TestUser, testSystem } from '../support/system.ts'
import { until } from '../support/wait.ts'

let system: TestSystem
let user: TestUser

beforeAll(async () => {
  system = await testSystem()
  user = await system.user()
})
afterAll(async () => system[Symbol.asyncDispose]())

let made = 0
const create = async (size_mib = 32): Promise<{ id: string; name: string }> =>
  (await user.post('/v1/volumes', { name: `v${++made}`, size_mib })).body
const app = async (): Promise<{ id: string; name: string }> =>
  (await user.post('/v1/apps', { name: `app-${++made}`, git_url: '', drain_timeout: 0 })).body
const deploy = async (name: string, timeoutMs = 30_000): Promise<string> => {
  const { job_id } = (await user.post(`/v1/apps/${name}/deploy`, { image: 'example/app:1' })).body
  const status = async () => (await user.get(`/v1/apps/${name}/deployments/${job_id}`)).body.status
  await until(async () => (await status()) === 'running', { timeoutMs, what: `${name} runs` })
  return job_id
}
const attach = (appId: string, body: object) => user.post(`/v1/apps/${appId}/volumes/attach`, body)
const detach = (appId: string, volumeId: string) => user.delete(`/v1/apps/${appId}/volumes/${volumeId}/detach`)
const listed = async (id: string) => (await user.get('/v1/volumes')).body.find((one: { id: string }) => one.id === id)
const snapshots = async (id: string) => (await user.get(`/v1/volumes/${id}/snapshots`)).body
const status = async (id: string) => (await listed(id))?.status
const becomes = (id: string, wanted: string | undefined) =>
  until(async () => (await status(id)) === wanted, { what: `the volume to be ${wanted}` })
const snapshotReady = async (id: string, name: string) => {
  const taken = (await user.post(`/v1/volumes/${id}/snapshots`, { name })).body
  const find = async () => (await snapshots(id)).find((one: { name: string }) => one.name === name)
  await until(async () => (await find())?.status === 'ready', {
    what: `snapshot ${name} to be ready`,
  })
  return { ...taken, ...(await find()) }
}
const onDisk = (): Promise<string[]> =>
  readdir(join(system.dir, 'host-1', 'volumes', 'local')).catch((): string[] => [])

describe('volumes', () => {
  it('are created, listed and deleted, and get a file on a host only at first use', async () => {
    const made_ = await user.post('/v1/volumes', { name: 'data', size_mib: 64 })
    expect(made_.status).toBe(200)
    expect(made_.body).toMatchObject({ name: 'data', size_mib: 64, pool_name: '', status: 'pending', message: null })
    expect((await user.post('/v1/volumes', { name: 'data', size_mib: 64 })).body.code).toBe('name_taken')
    expect(await listed(made_.body.id)).toMatchObject({ attachments: [] })
    expect((await user.get(`/v1/volumes/${made_.body.id}/usage`)).body).toEqual({
      volume_id: made_.body.id,
      size_bytes: 64 << 20,
      used_bytes: 0,
      snapshot_bytes: 0,
      measured_at: null,
    })
    expect(await onDisk()).toEqual([])
    expect((await user.delete(`/v1/volumes/${made_.body.id}`)).body).toEqual({ status: 'deleting' })
    await becomes(made_.body.id, undefined)
    expect((await user.delete(`/v1/volumes/${made_.body.id}`)).status).toBe(404)
  })

  it.each([
    [{ name: 'x', size_mib: 0 }, 'size_mib'],
    [{ name: 'x', size_mib: -1 }, 'size_mib'],
    [{ name: 'x', size_mib: 15 }, 'size_mib'],
    [{ name: '../x', size_mib: 64 }, 'name'],
    [{ name: 'x', size_mib: 64, pool_name: '../x' }, 'pool_name'],
  ])('are not created with %j', async (body, field) => {
    const answer = await user.post('/v1/volumes', body)
    expect(answer.status).toBe(400)
    expect(answer.body.details[0].field).toBe(field)
  })

  it('grow while attached, within the plan and only for their own tenant, and never shrink', async () => {
    const { id, name } = await create(32)
    const own = await app()
    await attach(own.id, { volume_id: id })
    await deploy(own.name)
    const patch = (size_mib: number, by = user) => by.call('PATCH', `/v1/volumes/${id}`, { size_mib })
    expect((await patch(48)).body).toMatchObject({ name, size_mib: 48, message: null })
    await becomes(id, 'ready')
    expect((await stat(join(system.dir, 'host-1', 'volumes', 'local', `${id}.raw`))).size).toBe(48 << 20)
    expect((await user.get(`/v1/volumes/${id}/usage`)).body.size_bytes).toBe(48 << 20)
    const refused = await patch(47)
    expect(refused.status).toBe(400)
    expect(refused.body.details).toEqual([{ field: 'size_mib', message: expect.stringContaining('at least 48') }])
    expect((await patch(64, await system.user())).status).toBe(404)
    const poor = await system.user()
    await system.database.db.run({ name: 'test.plan', text: `UPDATE project SET plan = 'free' WHERE slug = $1` }, [
      poor.project,
    ])
    const theirs = (await poor.post('/v1/volumes', { name: 'small', size_mib: 32 })).body.id
    expect((await poor.call('PATCH', `/v1/volumes/${theirs}`, { size_mib: 11 * 1024 })).body).toMatchObject({
      code: 'plan_limit_exceeded',
      limit: 'max_storage_gb_total',
    })
    const audit = JSON.stringify((await user.get('/v1/audit-logs?action=volume.grow')).body)
    expect(audit).toContain('"before_mib":32')
    await user.delete(`/v1/apps/${own.name}`)
  })

  it('of one tenant are invisible to others', async () => {
    const { id } = await create()
    const own = await app()
    const other = await system.user()
    for (const path of [`/v1/volumes/${id}/usage`, `/v1/volumes/${id}/snapshots`])
      expect((await other.get(path)).status).toBe(404)
    expect((await other.delete(`/v1/volumes/${id}`)).status).toBe(404)
    expect((await other.post(`/v1/apps/${own.id}/volumes/attach`, { volume_id: id })).status).toBe(404)
    const foreign = (await other.post('/v1/apps', { name: 'mine', git_url: '' })).body
    expect((await other.post(`/v1/apps/${foreign.id}/volumes/attach`, { volume_id: id })).status).toBe(404)
    expect((await other.get('/v1/volumes')).body).toEqual([])
  })

  it('stay within the plan under concurrent requests', async () => {
    const poor = await system.user()
    await system.database.db.run({ name: 'test.plan', text: `UPDATE project SET plan = 'free' WHERE slug = $1` }, [
      poor.project,
    ])
    const tries = await Promise.all(
      Array.from({ length: 8 }, (_, n) => poor.post('/v1/volumes', { name: `v${n}`, size_mib: 1024 })),
    )
    expect(tries.filter(one => one.status === 200)).toHaveLength(3)
    expect(tries.find(one => one.status === 403)?.body).toMatchObject({
      code: 'plan_limit_exceeded',
      limit: 'max_volumes',
    })
    for (const { id } of (await poor.get('/v1/volumes')).body) await poor.delete(`/v1/volumes/${id}`)
    const large = await poor.post('/v1/volumes', { name: 'large', size_mib: 10 * 1024 + 1 })
    expect(large.body).toMatchObject({ limit: 'max_storage_gb_total', max: 10 })
    expect((await poor.post('/v1/volumes', { name: 'large', size_mib: 10 * 1024 })).status).toBe(200)
  })
})

describe('attaching a volume', () => {
  it('mounts it at /data by default, from the next start of a VM on', async () => {
    const [{ id, name }, { id: appId, name: appName }] = [await create(), await app()]
    const attached = await attach(appId, { volume_id: id })
    expect(attached.body).toMatchObject({ id, name, mount_point: '/data', access_mode: 0, status: 'waiting' })
    expect(await listed(id)).toMatchObject({
      attachments: [{ access_mode: 0, app_id: appId, app_name: appName, mount_point: '/data' }],
    })
    const job = await deploy(appName)
    const ofApp = async () => (await user.get(`/v1/apps/${appId}/volumes`)).body[0]
    await until(async () => (await ofApp()).status === 'attached', { what: 'the volume to be attached' })
    expect(await ofApp()).toMatchObject({ id, pool_name: 'local', message: null })
    await until(async () => (await user.get(`/v1/volumes/${id}/usage`)).body.measured_at !== null, {
      what: 'the usage to be measured',
    })

    expect((await user.delete(`/v1/volumes/${id}`)).body.code).toBe('volume_in_use')
    const second = await deploy(appName)
    expect(second).not.toBe(job)
    await until(async () => (await ofApp()).status === 'attached', { what: 'the next VM to have the volume' })
    expect(['detached', 'detaching']).toContain((await detach(appId, id)).body.status)
    await until(async () => (await listed(id)).attachments.length === 0, { what: 'the volume to be detached' })
    expect((await user.delete(`/v1/volumes/${id}`)).status).toBe(200)
  })

  it.each([
    ['data', 'absolute'],
    ['/', 'system'],
    ['/etc', 'system'],
    ['/proc/x', 'system'],
    ['/data/../etc', 'normalized'],
    ['/data//x', 'normalized'],
    ['/data/', 'normalized'],
    ['/./data', 'normalized'],
    ['/da ta', 'letters'],
    [`/${'x'.repeat(300)}`, 'at most'],
  ])('at %j is rejected', async (mount_point, why) => {
    const [{ id }, { id: appId }] = [await create(), await app()]
    const answer = await attach(appId, { volume_id: id, mount_point })
    expect(answer.status).toBe(400)
    expect(answer.body.details[0]).toMatchObject({ field: 'mount_point', message: expect.stringContaining(why) })
  })

  it('is allowed for one app that writes, or for several that only read', async () => {
    const [{ id }, one, two] = [await create(), await app(), await app()]
    const answers = await Promise.all([one, two].map(({ id: appId }) => attach(appId, { volume_id: id })))
    expect(answers.map(answer => answer.status).sort()).toEqual([200, 409])
    expect(answers.find(answer => answer.status === 409)?.body.code).toBe('volume_in_use')
    const [winner, loser] = answers[0]?.status === 200 ? [one, two] : [two, one]
    expect((await attach(loser.id, { volume_id: id, access_mode: 1 })).body.code).toBe('volume_in_use')
    expect((await detach(winner.id, id)).body).toEqual({ status: 'detached', message: null })
    for (const { id: appId } of [one, two])
      expect((await attach(appId, { volume_id: id, access_mode: 1 })).status).toBe(200)
  })

  it('requires an app with at most one VM, and prevents scaling it up', async () => {
    const [{ id }, { id: appId, name }] = [await create(), await app()]
    const scale = (body: object) => user.call('PATCH', `/v1/apps/${name}/scale`, body)
    await scale({ desired_replicas: 2, max_replicas: 2 })
    expect((await attach(appId, { volume_id: id })).body.error).toContain('Scale it to one first')
    await scale({ desired_replicas: 1, max_replicas: 1 })
    expect((await attach(appId, { volume_id: id })).status).toBe(200)
    const refused = await scale({ desired_replicas: 2, max_replicas: 2 })
    expect(refused.body).toMatchObject({
      code: 'invalid_state',
      error: expect.stringContaining('max_replicas must be 1'),
    })
  })

  it('rejects overlapping mount points', async () => {
    const [first, second, { id: appId }] = [await create(), await create(), await app()]
    await attach(appId, { volume_id: first.id, mount_point: '/data/a' })
    for (const mount_point of ['/data/a', '/data', '/data/a/b'])
      expect((await attach(appId, { volume_id: second.id, mount_point })).body.code).toBe('volume_in_use')
    expect((await attach(appId, { volume_id: second.id, mount_point: '/data/ab' })).status).toBe(200)
  })

  it('is undone when the app is deleted', async () => {
    const [{ id }, { id: appId, name }] = [await create(), await app()]
    await attach(appId, { volume_id: id })
    await deploy(name)
    await user.delete(`/v1/apps/${name}`)
    await until(async () => (await listed(id)).attachments.length === 0, {
      what: 'the volume to be detached',
    })
    expect((await user.delete(`/v1/volumes/${id}`)).status).toBe(200)
  })
})

describe('a running VM', () => {
  it('attaches and detaches a volume, which is also detached when the VM is deleted', async () => {
    const [{ id }, { id: appId, name }] = [await create(), await app()]
    const job = await deploy(name)
    const at = (verb: string) => `/v1/apps/${name}/deployments/${job}/volumes/${verb}`
    const mounted = { volume_id: id, mount_point: '/srv/files' }
    expect((await user.post(at('attach'), mounted)).body).toMatchObject({ status: 'attaching', read_only: false })
    const ofApp = async () => (await user.get(`/v1/apps/${appId}/volumes`)).body[0]
    await until(async () => (await ofApp())?.status === 'attached', {
      what: 'the volume to be attached',
    })
    // A volume that is attached to a running VM can be attached neither to another app nor to the same VM again.
    expect((await attach((await app()).id, { volume_id: id })).body.code).toBe('volume_in_use')
    expect((await user.post(at('attach'), mounted)).body.code).toBe('volume_in_use')
    expect((await user.post(at('detach'), {})).status).toBe(400)
    expect((await user.post(at('detach'), { mount_point: '/other' })).status).toBe(404)
    expect((await user.post(at('detach'), { mount_point: '/srv/files' })).body).toMatchObject({
      volume_id: id,
      status: 'detaching',
      message: expect.stringMatching(
        /^The VM unmounts \/srv\/files first\. While a program in the VM has a file open there/,
      ),
    })
    await until(async () => (await ofApp()) === undefined, { what: 'the volume to be detached' })

    expect((await user.post(at('attach'), { ...mounted, read_only: true })).status).toBe(200)
    await until(async () => (await ofApp())?.status === 'attached', {
      what: 'the volume to be attached',
    })
    expect(await ofApp()).toMatchObject({ access_mode: 1 })
    await user.delete(`/v1/apps/${name}/deployments/${job}`)
    await until(async () => (await ofApp()) === undefined, {
      what: 'the attachment to end with the deployment',
    })
  })

  it('competes with another app for a volume, and exactly one of them gets it', async () => {
    const [one, two] = [await app(), await app()]
    const job = await deploy(one.name)
    for (let round = 0; round < 5; round++) {
      const { id } = await create()
      const answers = await Promise.all([
        user.post(`/v1/apps/${one.name}/deployments/${job}/volumes/attach`, {
          volume_id: id,
          mount_point: `/srv/${round}`,
        }),
        attach(two.id, { volume_id: id, mount_point: `/srv/${round}` }),
      ])
      expect(answers.map(answer => answer.body.code ?? answer.status).toSorted()).toEqual([200, 'volume_in_use'])
    }
    await user.delete(`/v1/apps/${one.name}`)
  })

  it('is saved, restored and forked together with its volumes', async () => {
    const [{ id }, { id: appId, name }] = [await create(), await app()]
    const job = await deploy(name)
    const at = (path: string) => `/v1/apps/${name}/deployments/${job}/${path}`
    await user.post(at('volumes/attach'), { volume_id: id, mount_point: '/data' })
    const ready = async () => (await user.get(at('snapshots'))).body[0]?.status === 'ready'
    const attached = async () => (await user.get(`/v1/apps/${appId}/volumes`)).body[0]?.status === 'attached'
    await until(attached, { what: 'the volume to be attached' })
    await user.post(at('snapshot'), { snapshot_name: 'one' })
    await until(ready, { what: 'the snapshot' })
    expect((await user.get(at('snapshots'))).body[0].volumes).toEqual([
      { volume_id: id, mount_point: '/data', read_only: false },
    ])
    const forkAs = (app_name: string, replicas = 1) => user.post(at('snapshot/one/fork'), { app_name, replicas })
    expect((await forkAs(`${name}-two`, 2)).body).toMatchObject({ code: 'invalid_state' })
    const fork = (await forkAs(`${name}-fork`)).body
    expect(fork.volumes).toEqual([
      {
        volume_id: expect.any(String),
        name: `${name}-fork-v${made - 1}`,
        of: id,
        mount_point: '/data',
        read_only: false,
      },
    ])
    const [{ volume_id: own }] = fork.volumes
    const forkRuns = async () =>
      (await user.get(`/v1/apps/${name}-fork/deployments/${fork.job_id}`)).body.status === 'running'
    await until(forkRuns, { what: 'the fork to run' })
    expect(await listed(own)).toMatchObject({
      status: 'ready',
      size_mib: 32,
      attachments: [{ app_name: `${name}-fork`, mount_point: '/data', access_mode: 0 }],
    })
    expect(await onDisk()).toContain(`${own}.raw`)
    // The fork's volume outlives its app. A second fork with the same name gets a volume with another name.
    await user.delete(`/v1/apps/${name}-fork`)
    await until(async () => (await listed(own)).attachments.length === 0, {
      what: 'the volume to be detached',
    })
    const [{ volume_id: second, name: secondName }] = (await forkAs(`${name}-fork`)).body.volumes
    expect(secondName).toBe(`${name}-fork-v${made - 1}-2`)
    await becomes(second, 'ready')
    await user.delete(`/v1/apps/${name}-fork`)
    expect((await user.post(at('snapshot/one/restore'), {})).body).toMatchObject({ status: 'restoring' })
    const before = async () => (await user.get(`/v1/volumes/${id}/snapshots`)).body[0]
    await until(async () => (await before())?.status === 'ready', {
      what: 'the snapshot of the previous state',
    })
    expect((await before()).name).toMatch(/^before-restore-/)
    const runs = async () => (await user.get(`/v1/apps/${name}/deployments/${job}`)).body.status === 'running'
    await until(runs, { what: 'the VM to run again' })
    const back = { target_host: 'host-1', target_uri: '' }
    const refusal = async () => (await user.post(at('migration/start'), back)).body.details?.[0]?.message
    // While the restore or the fork is in progress, moves are rejected for that reason instead.
    await until(async () => /is already on host-1/.test(await refusal()), {
      what: 'the move to be rejected only for its target',
    })
  })

  it('is forked only within the limits of the plan, and only from a complete snapshot', async () => {
    const poor = await system.user()
    const base = `/v1/apps/own/deployments`
    const volumeOf = async (name: string) => (await poor.post('/v1/volumes', { name, size_mib: 32 })).body.id
    await poor.post('/v1/apps', { name: 'own', git_url: '', drain_timeout: 0 })
    const { job_id } = (await poor.post('/v1/apps/own/deploy', { image: 'example/app:1' })).body
    const runs = async () => (await poor.get(`${base}/${job_id}`)).body.status === 'running'
    await until(runs, { what: 'it runs' })
    const ids = [await volumeOf('one'), await volumeOf('two')]
    for (const [n, volume_id] of ids.entries())
      await poor.post(`${base}/${job_id}/volumes/attach`, { volume_id, mount_point: `/data/${n}` })
    const snapshot = async () => (await poor.get(`${base}/${job_id}/snapshots`)).body[0]
    const keep = async () => {
      await poor.post(`${base}/${job_id}/snapshot`, { snapshot_name: 'one' })
      await until(async () => ['ready', 'failed'].includes((await snapshot())?.status), { what: 'the snapshot' })
      if ((await snapshot()).volumes.length === 2) return true
      await poor.delete(`${base}/${job_id}/snapshot/one`)
      return false
    }
    await until(keep, { what: 'a snapshot with both volumes' })
    await system.database.db.run({ name: 'test.plan', text: `UPDATE project SET plan = 'free' WHERE slug = $1` }, [
      poor.project,
    ])
    const before = (await poor.get('/v1/volumes')).body.length
    const fork = () => poor.post(`${base}/${job_id}/snapshot/one/fork`, { app_name: 'twin' })
    expect((await fork()).body).toMatchObject({ code: 'plan_limit_exceeded', limit: 'max_volumes' })
    expect((await poor.get('/v1/volumes')).body).toHaveLength(before)
    expect((await poor.get('/v1/apps/twin')).status).toBe(404)
    expect((await (await system.user()).post(`${base}/${job_id}/snapshot/one/fork`, { app_name: 'x' })).status).toBe(
      404,
    )

    await poor.post(`${base}/${job_id}/volumes/detach`, { volume_id: ids[0] })
    const gone = async () => (await poor.delete(`/v1/volumes/${ids[0]}`)).status === 200
    await until(gone, { what: 'one copy to be deleted' })
    expect((await fork()).body).toMatchObject({ code: 'invalid_state', error: expect.stringContaining('deleted') })
    await poor.delete('/v1/apps/own')
  })
})

describe('volume snapshots', () => {
  it('can be taken, restored, cloned and deleted', async () => {
    const { id } = await create()
    const taken = await snapshotReady(id, 'first')
    expect(taken).toMatchObject({ volume_id: id, name: 'first', pause_ms: 0, error: null })
    expect((await user.post(`/v1/volumes/${id}/snapshots`, { name: 'first' })).body.code).toBe('name_taken')
    expect(await onDisk()).toContain(`${id}.raw`)
    expect((await user.post(`/v1/volumes/${id}/restore`, { snapshot_name: 'none' })).status).toBe(404)
    expect((await user.post(`/v1/volumes/${id}/restore`, { snapshot_name: 'first' })).body.status).toBe('restoring')
    await becomes(id, 'ready')
    const clone = await user.post(`/v1/volumes/${id}/clone`, { name: `v${++made}`, snapshot_name: 'first' })
    expect(clone.body).toMatchObject({ size_mib: 32, pool_name: 'local' })
    await becomes(clone.body.id, 'ready')
    expect((await user.delete(`/v1/snapshots/${taken.id}`)).body).toEqual({ status: 'deleting' })
    expect((await user.delete(`/v1/snapshots/${newId()}`)).status).toBe(404)
    expect(await snapshots(id)).toEqual([])
    await user.delete(`/v1/volumes/${id}`)
    await until(async () => !(await onDisk()).some(name => name.startsWith(id)), { what: 'its files to be deleted' })
    expect(await onDisk()).toContain(`${clone.body.id}.raw`)
  })

  it('a volume attached to a stopped app can be restored, remains attached, and the next VM waits for it', async () => {
    const [{ id, name: volume }, { id: appId, name }] = [await create(), await app()]
    await attach(appId, { volume_id: id, mount_point: '/srv/files' })
    await deploy(name)
    await snapshotReady(id, 'first')
    const [{ job_id }] = (await user.get(`/v1/apps/${name}/deployments`)).body
    const held = await user.post(`/v1/volumes/${id}/restore`, { snapshot_name: 'first' })
    expect(held.body.error).toBe(
      `Volume ${volume} is in use by a VM of ${name}. Stop the deployment, or detach the volume, before you restore it.`,
    )
    await user.delete(`/v1/apps/${name}/deployments/${job_id}`)
    await until(async () => (await user.get(`/v1/apps/${name}/deployments`)).body[0].status === 'stopped', {
      what: 'the app to stop',
    })
    expect((await user.post(`/v1/volumes/${id}/restore`, { snapshot_name: 'first' })).body.status).toBe('restoring')
    await deploy(name)
    const [attached] = (await user.get(`/v1/apps/${appId}/volumes`)).body
    expect(attached).toMatchObject({ id, mount_point: '/srv/files', status: 'attached', message: null })
  })

  it('of an attached volume report how long the VM was paused, and cannot be restored while the VM runs', async () => {
    const [{ id }, { id: appId, name }] = [await create(), await app()]
    await attach(appId, { volume_id: id })
    await deploy(name)
    expect((await snapshotReady(id, 'live')).pause_ms).toBeGreaterThan(0)
    const refused = await user.post(`/v1/volumes/${id}/restore`, { snapshot_name: 'live' })
    expect(refused.body).toMatchObject({ code: 'volume_in_use', error: expect.stringContaining(name) })
  })
})

it('deleting a project deletes its volumes', async () => {
  const owner = await system.user()
  const { id } = (await owner.post('/v1/volumes', { name: 'data', size_mib: 32 })).body
  const { id: appId, name } = (await owner.post('/v1/apps', { name: 'app', git_url: '', drain_timeout: 0 })).body
  await owner.post(`/v1/apps/${appId}/volumes/attach`, { volume_id: id })
  await owner.post(`/v1/apps/${name}/deploy`, { image: 'example/app:1' })
  await until(async () => (await onDisk()).includes(`${id}.raw`), { what: 'the file to exist' })
  expect((await owner.delete(`/v1/projects/${owner.project}`)).status).toBe(200)
  await until(async () => !(await onDisk()).includes(`${id}.raw`), {
    what: 'the file to be deleted',
  })
})

it('an encrypted pool has one key per volume, which only the host receives', async () => {
  await system.addAgent({ pools: [{ name: 'safe', kind: 'dir-luks', place: '' }] })
  const { id } = (await user.post('/v1/volumes', { name: `v${++made}`, size_mib: 32, pool_name: 'safe' })).body
  const { id: appId, name } = await app()
  await attach(appId, { volume_id: id })
  // Long timeout: to calibrate the key derivation, qemu-img takes 2.3 s of CPU time, whatever duration is requested.
  await deploy(name, 120_000)
  await until(async () => (await user.get(`/v1/apps/${appId}/volumes`)).body[0]?.status === 'attached', {
    timeoutMs: 30_000,
    what: 'the volume to be attached',
  })
  const keys = `SELECT key FROM volume WHERE id = $1 AND key IS NOT NULL`
  expect(await system.database.db.rows({ name: 'test.key', text: keys }, [id])).toHaveLength(1)
  expect(JSON.stringify((await user.get('/v1/volumes')).body)).not.toContain('key')
  expect(await listed(id)).toMatchObject({ pool_name: 'safe', status: 'ready' })
}, 180_000)

it('every requested app and volume has an audit row of its creation, however it was created', async () => {
  const { rows } = system.database.db
  const made = await rows<{ type: string; id: string; audited: boolean }>({
    name: 'test.created',
    text: `SELECT r.type, r.id, EXISTS (
             SELECT FROM audit_log l WHERE l.resource_id = r.id::text AND l.action = r.type || '.create') AS audited
           FROM (SELECT 'app' AS type, id FROM app WHERE owner = 'user'
                 UNION ALL SELECT 'volume', id FROM volume WHERE owner = 'user') r`,
  })
  expect(new Set(made.map(({ type }) => type))).toEqual(new Set(['app', 'volume']))
  expect(made.filter(({ audited }) => !audited)).toEqual([])
})
