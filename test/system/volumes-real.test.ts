// Not repeated on the distribution's PostgreSQL: this file tests real VMs, not the database.
/** Volumes of real VMs, from the API to the disk, on a file system with reflinks if possible. */
import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { itInAll } from '../support/all-examples.ts'
import { loopFileSystem, whyNoLoop } from '../support/agent/disk.ts'
import { writeSampleImage } from '../../src/agent/image/sample.ts'
import { vmmsIn } from '../support/agent/agent.ts'
import { hasProgram } from '../../src/lib/programs.ts'
import { type TestSystem, type TestUser, testSystem } from '../support/system.ts'
import { until } from '../support/wait.ts'

const needed = ['qemu-system-x86_64', 'mke2fs', 'umoci', 'skopeo']
const present = await Promise.all(needed.map(hasProgram))
const missing = needed.filter((_, n) => !present[n])
const reason = missing.length > 0 ? `skipped, not installed: ${missing.join(', ')}` : ''

describe.skipIf(missing.length > 0)(`a real VM with a volume ${reason}`, { timeout: 240_000 }, () => {
  let system: TestSystem
  let user: TestUser
  const releases: (() => Promise<unknown>)[] = []

  beforeAll(async () => {
    system = await testSystem({ agents: 0 })
    releases.push(async () => system[Symbol.asyncDispose]())
    const dataDir = join(system.dir, 'host-1')
    await mkdir(dataDir)
    const poolDir = await reflinks(dataDir)
    await writeSampleImage(join(dataDir, 'images', 'hello'))
    await system.addAgent({
      dataDir,
      hypervisor: 'qemu',
      network: process.getuid?.() === 0 ? 'tap' : 'user',
      pools: [{ name: 'local', kind: 'dir', place: poolDir }],
    })
    user = await system.user()
    const offers = async () => (await user.get('/v1/admin/hosts')).body[0]?.hypervisors?.[0]?.available === true
    await until(offers, { timeoutMs: 120_000, what: 'the host to offer QEMU' })
  }, 180_000)
  afterAll(async () => {
    for (const release of releases.splice(0).reverse()) await release()
  }, 60_000)

  /**
   * Returns the directory of the storage pool. Only root can mount a file system with reflinks (copy on write);
   * otherwise snapshots are full copies, which only makes the test slower.
   */
  async function reflinks(dataDir: string): Promise<string> {
    if (await whyNoLoop('xfs')) return join(dataDir, 'pool')
    const dir = await mkdtemp(join(tmpdir(), 'mote-pool-'))
    const place = await loopFileSystem('xfs', dir, 640)
    // Unmount last, because the agent uses the directory.
    releases.unshift(async () => {
      await place[Symbol.asyncDispose]()
      await rm(dir, { recursive: true })
    })
    return place.path
  }

  const deploy = async (name: string): Promise<string> => {
    const { job_id } = (await user.post(`/v1/apps/${name}/deploy`, { image: 'oci:hello' })).body
    await running(name, job_id)
    return job_id
  }
  const running = (name: string, job: string) =>
    until(async () => (await user.get(`/v1/apps/${name}/deployments/${job}`)).body.status === 'running', {
      timeoutMs: 90_000,
      what: `${name} runs`,
    })
  const sh = async (name: string, job: string, script: string) => {
    const answer = await user.post(`/v1/apps/${name}/deployments/${job}/exec`, { command: ['sh', '-c', script] })
    return String(answer.body.stdout ?? answer.body.error).trim()
  }
  const create = async (name: string): Promise<string> =>
    (await user.post('/v1/volumes', { name, size_mib: 64 })).body.id
  const app = async (name: string): Promise<string> =>
    (await user.post('/v1/apps', { name, git_url: '', health_check_path: '/health', drain_timeout: 0 })).body.id
  const attach = (appId: string, volume_id: string) => user.post(`/v1/apps/${appId}/volumes/attach`, { volume_id })
  const free = async (id: string) =>
    until(
      async () =>
        (await user.get('/v1/volumes')).body.find((one: { id: string }) => one.id === id).attachments.length === 0,
      { timeoutMs: 30_000, what: 'the volume to be detached' },
    )
  const ready = async (id: string) =>
    until(
      async () => (await user.get('/v1/volumes')).body.find((one: { id: string }) => one.id === id).status === 'ready',
      { timeoutMs: 30_000, what: 'the volume to be ready' },
    )

  it('keeps the data across a redeployment, kill -9 of the VMM, snapshot, restore and clone', async () => {
    const id = await create('data')
    const appId = await app('keeper')
    await attach(appId, id)
    const first = await deploy('keeper')
    expect(await sh('keeper', first, 'echo one > /data/file && sync && cat /data/file')).toBe('one')

    const second = await deploy('keeper')
    expect(await sh('keeper', second, 'cat /data/file')).toBe('one')

    const [pid] = await vmmsIn(system.dir)
    await sh('keeper', second, 'echo two > /data/file && sync')
    process.kill(pid ?? 0, 'SIGKILL')
    await until(async () => !(await vmmsIn(system.dir)).includes(pid ?? 0), { what: 'the VMM to end' })
    await until(async () => (await sh('keeper', second, 'cat /data/file')) === 'two', {
      timeoutMs: 90_000,
      what: 'the restarted VM with its data',
    })

    await user.post(`/v1/volumes/${id}/snapshots`, { name: 'then' })
    const snapshot = async () => (await user.get(`/v1/volumes/${id}/snapshots`)).body[0]
    await until(async () => (await snapshot()).status === 'ready', { timeoutMs: 30_000, what: 'the snapshot' })
    expect((await snapshot()).pause_ms).toBeGreaterThan(0)
    await sh('keeper', second, 'echo three > /data/file && sync')
    expect((await user.post(`/v1/volumes/${id}/restore`, { snapshot_name: 'then' })).body.code).toBe('volume_in_use')

    const clone = (await user.post(`/v1/volumes/${id}/clone`, { name: 'copy', snapshot_name: 'then' })).body.id
    await user.delete(`/v1/apps/keeper/deployments/${second}`)
    await user.delete(`/v1/apps/${appId}/volumes/${id}/detach`)
    await free(id)
    expect((await user.post(`/v1/volumes/${id}/restore`, { snapshot_name: 'then' })).status).toBe(200)
    await ready(id)
    await attach(appId, id)
    const third = await deploy('keeper')
    expect(await sh('keeper', third, 'cat /data/file')).toBe('two')

    const mount = { volume_id: clone, mount_point: '/srv/copy' }
    const at = (verb: string) => `/v1/apps/keeper/deployments/${third}/volumes/${verb}`
    expect((await user.post(at('attach'), mount)).body.status).toBe('attaching')
    await until(async () => (await sh('keeper', third, 'cat /srv/copy/file')) === 'two', {
      timeoutMs: 30_000,
      what: 'the clone to be ready',
    })
    await sh('keeper', third, 'echo clone > /srv/copy/file && sync')
    expect(await sh('keeper', third, 'cat /data/file')).toBe('two')
    expect((await user.post(at('detach'), mount)).status).toBe(200)
    await free(clone)
    expect(await sh('keeper', third, 'ls /srv/copy')).toBe('')
    await user.post(at('attach'), { ...mount, read_only: true })
    await until(async () => (await sh('keeper', third, 'cat /srv/copy/file')) === 'clone', {
      timeoutMs: 30_000,
      what: 'the clone to be restored',
    })
    expect(await sh('keeper', third, 'touch /srv/copy/x 2>&1 || echo refused')).toContain('refused')
    await until(async () => (await user.get(`/v1/volumes/${id}/usage`)).body.used_bytes > 0, {
      timeoutMs: 40_000,
      what: 'the usage to be measured',
    })
  })

  // Not in `npm test`: src/agent/hypervisor/contract.test.ts grows a volume of a real VM, and volumes.test.ts
  // does so through the API.
  itInAll('has a volume that grows while it is mounted, and while it is detached', async () => {
    const id = await create('small')
    const appId = await app('grower')
    await attach(appId, id)
    const job = await deploy('grower')
    const mib = async () => Number((await sh('grower', job, 'df -Pm /data | tail -n 1')).split(/ +/)[1])
    expect(await mib()).toBeLessThan(64)
    await sh('grower', job, 'echo kept > /data/file && sync')
    const before = await sh('grower', job, 'cat /proc/sys/kernel/random/boot_id')
    const grow = (size_mib: number) => user.call('PATCH', `/v1/volumes/${id}`, { size_mib })
    expect((await grow(160)).body).toMatchObject({ size_mib: 160, status: 'growing' })
    await ready(id)
    expect(await mib()).toBeGreaterThan(140)
    expect(await sh('grower', job, 'cat /data/file; cat /proc/sys/kernel/random/boot_id')).toBe(`kept\n${before}`)
    await user.delete(`/v1/apps/grower/deployments/${job}`)
    await user.delete(`/v1/apps/${appId}/volumes/${id}/detach`)
    await free(id)
    await grow(224)
    await ready(id)
    await attach(appId, id)
    const next = await deploy('grower')
    expect(Number((await sh('grower', next, 'df -Pm /data | tail -n 1')).split(/ +/)[1])).toBeGreaterThan(200)
    expect(await sh('grower', next, 'cat /data/file')).toBe('kept')
    await user.delete('/v1/apps/grower')
    await free(id)
    await user.delete(`/v1/volumes/${id}`)
  })

  // Not in `npm test`: src/agent/snapshot/volumes.test.ts restores a real VM with its volume, and volumes.test.ts
  // does so through the API.
  itInAll('is restored from a VM snapshot together with its volume, and continues from that state', async () => {
    const id = await create('with-vm')
    const appId = await app('returner')
    await attach(appId, id)
    const job = await deploy('returner')
    const at = (path: string) => `/v1/apps/returner/deployments/${job}/${path}`
    const boot = await sh(
      'returner',
      job,
      'echo then > /data/file; echo then > /tmp/file; cat /proc/sys/kernel/random/boot_id',
    )
    await user.post(at('snapshot'), { snapshot_name: 'then' })
    const kept = async () => (await user.get(at('snapshots'))).body[0]
    await until(async () => (await kept())?.status === 'ready', { timeoutMs: 30_000, what: 'the snapshot' })
    expect((await kept()).volumes).toEqual([{ volume_id: id, mount_point: '/data', read_only: false }])
    await sh('returner', job, 'echo now > /data/file; echo now > /tmp/file; sync')
    // A fork of the snapshot continues from the same state, with its own copy of the volume.
    const fork = (await user.post(at('snapshot/then/fork'), { app_name: 'twin' })).body
    const [{ volume_id: own, name }] = fork.volumes
    expect(name).toBe('twin-with-vm')
    await running('twin', fork.job_id)
    const read = 'cat /data/file /tmp/file /proc/sys/kernel/random/boot_id'
    expect(await sh('twin', fork.job_id, read)).toBe(`then\nthen\n${boot}`)
    await sh('twin', fork.job_id, 'echo twin > /data/file; sync; echo 3 > /proc/sys/vm/drop_caches')
    expect(await sh('twin', fork.job_id, 'cat /data/file')).toBe('twin')
    expect(await sh('returner', job, 'cat /data/file')).toBe('now')
    await user.delete('/v1/apps/twin')
    await free(own)
    await user.delete(`/v1/volumes/${own}`)
    await user.post(at('snapshot/then/restore'), {})
    const back = async () => (await sh('returner', job, 'cat /tmp/file')) === 'then'
    await until(back, { timeoutMs: 60_000, what: 'the VM to be restored' })
    expect(await sh('returner', job, 'cat /data/file /proc/sys/kernel/random/boot_id')).toBe(`then\n${boot}`)
    // A volume snapshot keeps the data from before the restore.
    const before = (await user.get(`/v1/volumes/${id}/snapshots`)).body[0]
    expect(before).toMatchObject({ status: 'ready', name: expect.stringMatching(/^before-restore-/) })
    const copy = (await user.post(`/v1/volumes/${id}/clone`, { name: 'before', snapshot_name: before.name })).body.id
    const mount = { volume_id: copy, mount_point: '/srv/before', read_only: true }
    await user.post(at('volumes/attach'), mount)
    const observed = async () => (await sh('returner', job, 'cat /srv/before/file')) === 'now'
    await until(observed, { timeoutMs: 30_000, what: 'its clone to be attached' })
    await user.delete('/v1/apps/returner')
    for (const volume of [copy, id]) {
      await free(volume)
      await user.delete(`/v1/volumes/${volume}`)
    }
  })

  it('leaves no VM or volume after its deletion', async () => {
    await user.delete('/v1/apps/keeper')
    await until(async () => (await user.get('/v1/apps')).body.length === 0, {
      timeoutMs: 60_000,
      what: 'the app to be deleted',
    })
    for (const { id } of (await user.get('/v1/volumes')).body) {
      await free(id)
      expect((await user.delete(`/v1/volumes/${id}`)).status).toBe(200)
    }
    await until(async () => (await user.get('/v1/volumes')).body.length === 0, { what: 'every volume to be deleted' })
    await until(async () => (await vmmsIn(system.dir)).length === 0, {
      timeoutMs: 30_000,
      what: 'every VM to be removed',
    })
  })
})
