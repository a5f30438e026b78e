// Not repeated on the distribution's PostgreSQL: this file tests real VMs, not the database.
/**
 * Volumes that move between hosts through the API: detached, with simulated VMs that stop for the move, and with a real
 * VM that keeps running.
 */
import { open, readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { writeSampleImage } from '../../src/agent/image/sample.ts'
import { vmmsIn } from '../support/agent/agent.ts'
import { hasProgram } from '../../src/lib/programs.ts'
import { type TestSystem, type TestUser, testSystem } from '../support/system.ts'
import { until } from '../support/wait.ts'

interface Host {
  readonly id: string
  readonly name: string
}

/** Returns helpers for tests with simulated VMs and with real VMs. */
function helpersFor(system: () => TestSystem, user: () => TestUser) {
  const hosts = async (): Promise<Host[]> => (await user().get('/v1/admin/hosts')).body
  const at = (app: string, job: string, path = '') => `/v1/apps/${app}/deployments/${job}${path && `/${path}`}`
  const volumeDir = (host: Host) => join(system().dir, host.name, 'volumes', 'local')
  return {
    hosts,
    at,
    volumeDir,
    onDisk: (host: Host): Promise<string[]> => readdir(volumeDir(host)).catch((): string[] => []),
    volume: async (id: string) => (await user().get('/v1/volumes')).body.find((one: { id: string }) => one.id === id),
    vmHost: async (app: string, job: string): Promise<Host | undefined> => {
      const { host_id } = (await user().get(at(app, job))).body
      return (await hosts()).find(host => host.id === host_id)
    },
    runs: (app: string, job: string, timeoutMs = 30_000) =>
      until(async () => (await user().get(at(app, job))).body.status === 'running', { timeoutMs, what: `${app} runs` }),
    migrated: async (app: string, job: string, timeoutMs = 30_000) => {
      const status = async () => (await user().get(at(app, job, 'migration/status'))).body
      const over = async () => /completed|failed|cancelled/.test((await status()).status)
      await until(over, { timeoutMs, what: `the migration of ${app} to end` })
      return status()
    },
  }
}

describe('volume moves with simulated VMs', () => {
  let system: TestSystem
  let user: TestUser
  beforeAll(async () => {
    system = await testSystem({ agents: 2 })
    user = await system.user()
  })
  afterAll(async () => system[Symbol.asyncDispose]())
  const { hosts, at, volumeDir, onDisk, volume, vmHost, runs, migrated } = helpersFor(
    () => system,
    () => user,
  )
  let made = 0

  /** Creates an app whose VM has a volume with data. */
  async function appWithVolume() {
    const [app, name] = [`mover-${++made}`, `data-${made}`]
    const { id } = (await user.post('/v1/volumes', { name, size_mib: 32 })).body
    const { id: appId } = (await user.post('/v1/apps', { name: app, git_url: '', drain_timeout: 0 })).body
    await user.post(`/v1/apps/${appId}/volumes/attach`, { volume_id: id, mount_point: '/data' })
    const { job_id: job } = (await user.post(`/v1/apps/${app}/deploy`, { image: 'example/app:1' })).body
    await runs(app, job)
    const host = await vmHost(app, job)
    if (!host) throw new Error('the VM has no host')
    const file = await open(join(volumeDir(host), `${id}.raw`), 'r+')
    await file.write('what was written', 16 << 20)
    await file.close()
    return { app, job, id, host }
  }
  const isThere = async (id: string, host: Host) =>
    expect((await readFile(join(volumeDir(host), `${id}.raw`))).includes('what was written')).toBe(true)
  const other = async (host: Host) => (await hosts()).find(one => one.id !== host.id) as Host

  it('a detached volume moves with its snapshots; moving an attached one is rejected with advice', async () => {
    const { app, job, id, host } = await appWithVolume()
    const target = await other(host)
    const refused = await user.post(`/v1/volumes/${id}/move`, { target_host: target.name })
    expect(refused.body).toMatchObject({ code: 'volume_in_use', error: expect.stringContaining('moves with it') })
    await user.post(`/v1/volumes/${id}/snapshots`, { name: 'kept' })
    await until(async () => (await user.get(`/v1/volumes/${id}/snapshots`)).body[0]?.status === 'ready', {
      what: 'kept',
    })
    await user.delete(at(app, job))
    let answer = ''
    const free = async () => {
      const { status, body } = await user.post(`/v1/volumes/${id}/move`, { target_host: target.name })
      answer = JSON.stringify(body)
      return status === 200
    }
    await until(free, { what: 'the volume to be detached' }).catch((cause: unknown) => {
      throw new Error(`the last answer was ${answer}`, { cause })
    })
    const status = async () => (await user.get(`/v1/volumes/${id}/move`)).body
    await until(async () => (await status()).ended_at !== null, { what: 'the move to end' })
    expect(await status()).toMatchObject({ status: 'completed', error: null, percent: 100, target_host: target.id })
    await until(async () => (await volume(id)).status === 'ready', {
      what: 'the volume to be ready',
    })
    await isThere(id, target)
    expect((await onDisk(target)).filter(name => name.startsWith(id)).sort()).toEqual([`${id}.raw`, `${id}.snapshots`])
    expect((await onDisk(host)).filter(name => name.startsWith(id))).toEqual([])
    expect((await user.post(`/v1/volumes/${id}/move/cancel`)).body.code).toBe('invalid_state')
    expect((await user.post(`/v1/volumes/${id}/move`, { target_host: target.name })).status).toBe(400)
    // The next VM of the app starts on the volume's new host.
    const { job_id: again } = (await user.post(`/v1/apps/${app}/deploy`, { image: 'example/app:1' })).body
    await runs(app, again)
    expect((await vmHost(app, again))?.id).toBe(target.id)
  }, 90_000)

  it('a VM with a volume is stopped, moved and restarted on the target, and the status reports it', async () => {
    const { app, job, id, host } = await appWithVolume()
    const target = await other(host)
    const begun = await user.post(at(app, job, 'migration/start'), { target_host: target.name, target_uri: '' })
    expect(begun.body).toMatchObject({ method: 'stop-and-copy', with_volumes: true })
    const ended = await migrated(app, job)
    expect(ended).toMatchObject({ status: 'completed', percent: 100, error: null })
    expect(ended.downtime_ms).toBeGreaterThan(0)
    expect(ended.total_bytes).toBeGreaterThan(0)
    await runs(app, job)
    expect((await vmHost(app, job))?.id).toBe(target.id)
    await isThere(id, target)
    const left = async () => (await onDisk(host)).filter(name => name.startsWith(id))
    await until(async () => (await left()).length === 0, { what: 'the source to delete its copy' })
  }, 90_000)

  it('a drained host ends up with no VMs or volumes', async () => {
    const [one, two] = [await appWithVolume(), await appWithVolume()]
    await user.delete(at(two.app, two.job))
    await user.post(`/v1/admin/hosts/${one.host.id}/drain`)
    if (two.host.id !== one.host.id) await user.post(`/v1/admin/hosts/${two.host.id}/uncordon`)
    const target = await other(one.host)
    await until(async () => (await onDisk(one.host)).length === 0, { timeoutMs: 90_000, what: 'the host to be empty' })
    await runs(one.app, one.job)
    expect((await vmHost(one.app, one.job))?.id).toBe(target.id)
    for (const { id } of [one, two]) await isThere(id, target)
    await user.post(`/v1/admin/hosts/${one.host.id}/uncordon`)
  }, 150_000)
})

const needed = ['qemu-system-x86_64', 'mke2fs', 'umoci', 'skopeo']
const present = await Promise.all(needed.map(hasProgram))
const missing = needed.filter((_, n) => !present[n])
const reason = missing.length > 0 ? `skipped, not installed: ${missing.join(', ')}` : ''

describe.skipIf(missing.length > 0)(`volume moves with real VMs ${reason}`, { timeout: 240_000 }, () => {
  let system: TestSystem
  let user: TestUser
  beforeAll(async () => {
    system = await testSystem({ agents: 0 })
    for (const name of ['host-1', 'host-2']) {
      await writeSampleImage(join(system.dir, name, 'images', 'hello'))
      await system.addAgent({ hypervisor: 'qemu', network: process.getuid?.() === 0 ? 'tap' : 'user' })
    }
    user = await system.user()
    const offers = async () => {
      const all: { hypervisors: { available: boolean }[] }[] = (await user.get('/v1/admin/hosts')).body
      return all.length === 2 && all.every(host => host.hypervisors[0]?.available === true)
    }
    await until(offers, { timeoutMs: 120_000, what: 'the hosts to offer QEMU' })
  }, 180_000)
  afterAll(async () => system[Symbol.asyncDispose](), 60_000)
  const { at, onDisk, vmHost, runs, migrated, hosts } = helpersFor(
    () => system,
    () => user,
  )

  it('draining the host of a VM that writes to its volume loses no acknowledged write', async () => {
    const { id } = (await user.post('/v1/volumes', { name: 'data', size_mib: 64 })).body
    const settings = { name: 'writer', git_url: '', health_check_path: '/health', drain_timeout: 0 }
    const { id: appId } = (await user.post('/v1/apps', settings)).body
    await user.post(`/v1/apps/${appId}/volumes/attach`, { volume_id: id, mount_point: '/data' })
    const { job_id: job } = (await user.post('/v1/apps/writer/deploy', { image: 'oci:hello' })).body
    await runs('writer', job, 120_000)
    const source = (await vmHost('writer', job)) as Host
    const sh = async (script: string) =>
      (await user.post(at('writer', job, 'exec'), { command: ['sh', '-c', script] })).body as {
        exit_code?: number
        stdout?: string
      }
    const hash = 'sha256sum < /data/blob'
    const known = (await sh(`head -c 3000000 /dev/urandom > /data/blob && sync && ${hash}`)).stdout
    await user.post(at('writer', job, 'snapshot'), { snapshot_name: 'kept' })
    const kept = async () => (await user.get(at('writer', job, 'snapshots'))).body[0]
    await until(async () => (await kept()).status === 'ready', { timeoutMs: 60_000, what: 'the snapshot to be ready' })
    const acknowledged: number[] = []
    const stop = new AbortController()
    const writing = (async () => {
      for (let n = 1; !stop.signal.aborted; n++)
        if ((await sh(`echo ${n} >> /data/written && sync`)).exit_code === 0) acknowledged.push(n)
    })()
    await until(() => acknowledged.length > 1, { what: 'it writes' })
    await user.post(`/v1/admin/hosts/${source.id}/drain`)
    const begun = async () => (await user.get(at('writer', job, 'migration/status'))).body.status !== 'none'
    await until(begun, { timeoutMs: 60_000, what: 'it leaves' })
    const ended = await migrated('writer', job, 120_000)
    expect(ended).toMatchObject({ status: 'completed', method: 'live', with_volumes: true, error: null })
    const before = acknowledged.length
    await until(() => acknowledged.length > before + 1, { timeoutMs: 30_000, what: 'writes on the target' })
    stop.abort()
    await writing
    const written = (await sh('cat /data/written')).stdout?.trim().split('\n').map(Number) ?? []
    expect(acknowledged.filter(n => !written.includes(n))).toEqual([])
    expect((await vmHost('writer', job))?.id).toBe((await hosts()).find(host => host.id !== source.id)?.id)
    await until(async () => (await onDisk(source)).length === 0, {
      what: 'the source to delete the volume',
    })
    expect(await vmmsIn(join(system.dir, source.name))).toEqual([])

    // The VM's snapshots have moved, too: the VM can be restored from them, and forked into another app.
    const snapshots = join(system.dir, source.name, 'snapshots')
    const left = async () => (await readdir(snapshots)).length
    await until(async () => (await left()) === 0, { timeoutMs: 60_000, what: 'the source to delete the snapshot' })
    expect(await kept()).toMatchObject({ status: 'ready', host_id: (await vmHost('writer', job))?.id })
    await sh('echo later > /data/blob && sync')
    const forked = await user.post(at('writer', job, 'snapshot/kept/fork'), { app_name: 'fork' })
    expect(forked.body).toMatchObject({ status: 'pending', volumes: [{ of: id }] })
    const { job_id: fork } = forked.body
    await runs('fork', fork, 120_000)
    const command = ['sh', '-c', hash]
    const found = (await user.post(at('fork', fork, 'exec'), { command })).body
    expect(found).toMatchObject({ exit_code: 0, stdout: known })
    await user.post(at('writer', job, 'snapshot/kept/restore'))
    await until(async () => (await sh(hash)).stdout === known, { timeoutMs: 120_000, what: 'the restored content' })
  })
})
