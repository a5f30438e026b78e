/**
 * Not repeated on the distribution's PostgreSQL: this file tests real VMs, not the database. All operations on one VM
 * through the API, with two agents: deploy, pause, resume, snapshot, restore, attach and detach a volume, balloon,
 * live migration under load, stop, delete. Afterwards nothing of the VM is left.
 */
import { execFile } from 'node:child_process'
import { readdir, readFile } from 'node:fs/promises'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { writeSampleImage } from '../../src/agent/image/sample.ts'
import type { Agent } from '../../src/agent/main.ts'
import { vmmsIn } from '../support/agent/agent.ts'
import { hasProgram } from '../../src/lib/programs.ts'
import { viaGateway } from '../support/http.ts'
import { type TestSystem, type TestUser, testSystem } from '../support/system.ts'
import { until } from '../support/wait.ts'

const needed = ['qemu-system-x86_64', 'skopeo', 'umoci', 'mke2fs']
const present = await Promise.all(needed.map(hasProgram))
const missing = needed.filter((_, n) => !present[n])
const why = missing.length > 0 ? `skipped, not installed: ${missing.join(', ')}` : ''
const network = process.getuid?.() === 0 ? 'tap' : 'user'
/** Long timeout, because emulated guests share the cores with other tests. */
const patient = { timeoutMs: 90_000, everyMs: 20 }

describe.skipIf(why !== '')(`a VM on ${network} ${why}`, { timeout: 240_000 }, () => {
  let system: TestSystem
  let user: TestUser
  let agents: Agent[]
  let hostname: string
  let job: string

  const dirOf = (name: string) => join(system.dir, name)
  const at = (path = '') => `/v1/apps/hello/deployments/${job}${path && `/${path}`}`
  const status = async () => (await user.get(at())).body
  const reaches = (wanted: string) =>
    until(async () => (await status()).status === wanted, { ...patient, what: `the VM to be ${wanted}` })
  const ask = async (path = '/') => (await viaGateway(system.gateway.port, hostname, path)).status
  const answers = () => until(async () => (await ask()) === 200, { ...patient, what: 'an answer through the gateway' })
  const sh = async (script: string) => (await user.post(at('exec'), { command: ['sh', '-c', script] })).body.stdout
  /** Tap devices that VMs of this test have used, as other tests have taps on this machine at the same time. */
  const taps = new Set<string>()
  const noteTaps = async () => {
    for (const dir of ['host-1', 'host-2'].map(name => join(dirOf(name), 'vms')))
      for (const vm of await readdir(dir).catch(() => [])) {
        // The host may just be removing the directory of a VM that has moved away.
        const record = await readFile(join(dir, vm, 'record.json'), 'utf8').catch(() => '{}')
        const { running } = JSON.parse(record)
        if (running?.prepared.notes.tap) taps.add(running.prepared.notes.tap)
      }
  }
  const interfaces = async () => (await promisify(execFile)('ip', ['-o', 'link'])).stdout

  beforeAll(async () => {
    system = await testSystem({ agents: 0, gateway: { wakeTimeoutMs: 20_000 } })
    user = await system.user()
    await writeSampleImage(join(system.dir, 'images', 'hello'))
    // Use the machine's cache, so that the guest kernel need not be unpacked again.
    const cacheDir = join(homedir(), '.cache', 'mote')
    const real = { hypervisor: 'qemu', network, cacheDir, imageDir: join(system.dir, 'images') } as const
    agents = [await system.addAgent(real), await system.addAgent(real)]
    const ready = async () =>
      (await user.get('/v1/admin/hosts')).body.filter((host: { hypervisors: { available: boolean }[] }) =>
        host.hypervisors.some(one => one.available),
      ).length === 2
    await until(ready, { ...patient, what: 'both hosts to offer QEMU' })
  }, 180_000)
  afterAll(async () => system[Symbol.asyncDispose]())

  it('serves after it was deployed', async () => {
    const app = { name: 'hello', git_url: '', health_check_path: '/health', drain_timeout: 0 }
    hostname = (await user.post('/v1/apps', app)).body.hostname
    job = (await user.post('/v1/apps/hello/deploy', { image: 'oci:hello' })).body.job_id
    await reaches('running')
    await answers()
    expect(await status()).toMatchObject({ hypervisor: 'qemu', error_message: '' })
    await noteTaps()
  })

  it('serves again after a pause', async () => {
    await sh('echo before > /tmp/life')
    await user.post(at('pause'))
    await reaches('paused')
    await user.post(at('resume'))
    await reaches('running')
    await answers()
    expect(await sh('cat /tmp/life')).toBe('before\n')
  })

  it('continues with the memory and disk of a restored snapshot', async () => {
    expect((await user.post(at('snapshot'), { snapshot_name: 'good' })).status).toBe(200)
    const snapshot = async () => (await user.get(at('snapshots'))).body[0]
    await until(async () => (await snapshot()).status !== 'creating', { ...patient, what: 'the snapshot to end' })
    expect(await snapshot()).toMatchObject({
      status: 'ready',
      error: null,
      sha256: expect.stringMatching(/^[0-9a-f]{64}$/),
    })
    await sh('echo after > /tmp/life')
    expect((await user.post(at('snapshot/good/restore'))).status).toBe(200)
    await until(async () => (await sh('cat /tmp/life').catch(() => '')) === 'before\n', {
      ...patient,
      what: 'the restored memory content',
    })
    await reaches('running')
    await answers()
  })

  it('attaches and detaches a volume while it runs', async () => {
    const { id } = (await user.post('/v1/volumes', { name: 'attic', size_mib: 32 })).body
    const mount = { volume_id: id, mount_point: '/attic' }
    const volume = async () => (await user.get('/v1/volumes')).body.find((one: { id: string }) => one.id === id)
    for (const things of ['old', 'new']) {
      expect((await user.post(at('volumes/attach'), mount)).status).toBe(200)
      const mounted = async () => (await sh('grep -c " /attic ext4 rw" /proc/mounts')) === '1\n'
      await until(mounted, { ...patient, what: 'the volume to be mounted' })
      await sh(`echo ${things} >> /attic/things`)
      if (things === 'new') expect(await sh('cat /attic/things')).toBe('old\nnew\n')
      expect((await user.post(at('volumes/detach'), mount)).status).toBe(200)
      const free = async () => (await volume()).attachments.length === 0
      await until(free, { ...patient, what: 'the volume to be detached' })
      expect(await sh('ls /attic')).toBe('')
    }
    await user.delete(`/v1/volumes/${id}`)
    await until(async () => (await volume()) === undefined, { ...patient, what: 'the volume to be deleted' })
    expect(await ask()).toBe(200)
  })

  it('shrinks and grows its memory with the balloon', async () => {
    const actual = async () => (await user.get(at('balloon'))).body.actual_memory_mib
    await user.post(at('balloon'), { target_memory_mib: 256 })
    await until(async () => (await actual()) <= 260, { ...patient, what: 'the guest to shrink' })
    await user.post(at('balloon'), { target_memory_mib: 512 })
    await until(async () => (await actual()) >= 500, { ...patient, what: 'the guest to grow' })
    expect(await ask()).toBe(200)
  })

  it('moves to the other host under load without a failed request', async () => {
    const from = (await status()).host_id
    const target = agents.find(agent => agent.hostId !== from)
    const failures: string[] = []
    let asked = 0
    let longestMs = 0
    const end = new AbortController()
    const load = (async () => {
      while (!end.signal.aborted) {
        const began = performance.now()
        // The response has a Content-Length, so the gateway buffers it completely before it forwards it. A chunked
        // response could be cut off by the move.
        const outcome = await ask('/health').catch((cause: unknown) => String(cause))
        longestMs = Math.max(longestMs, performance.now() - began)
        asked++
        if (outcome !== 200) failures.push(String(outcome))
      }
    })()
    await user.post(at('migration/start'), { target_host: target?.hostId, target_uri: '' })
    const migration = async () => (await user.get(at('migration/status'))).body
    await until(async () => (await migration()).ended_at !== null, { ...patient, what: 'the move to end' })
    await answers()
    end.abort()
    await load
    const { downtime_ms } = await migration()
    console.info(
      `moved: ${asked} requests, ${failures.length} failed, the longest took ${longestMs.toFixed(0)} ms, downtime ${downtime_ms} ms`,
    )
    expect(await migration()).toMatchObject({ status: 'completed', error: null, percent: 100 })
    expect(failures).toEqual([])
    expect((await status()).host_id).toBe(target?.hostId)
    await noteTaps()
    expect(await sh('cat /tmp/life')).toBe('before\n')
    // The disk is writable on the target, right after the source has written to it.
    expect(await sh('echo moved > /tmp/life && sync && cat /tmp/life')).toBe('moved\n')
  })

  it('leaves no row, file or process after its deletion', async () => {
    await user.delete(at())
    await reaches('stopped')
    await user.delete('/v1/apps/hello')
    const left = async () => {
      const { db } = system.database
      const rows = await db.rows<{ readonly what: string }>({
        name: 'test.left',
        text: `SELECT 'VM ' || id AS what FROM vm
               UNION ALL SELECT 'snapshot ' || id FROM vm_snapshot
               UNION ALL SELECT 'deployment ' || id FROM deployment
               UNION ALL SELECT 'used room on host ' || id FROM host
                         WHERE used_vcpus + used_memory_mib + used_disk_mib > 0`,
      })
      const files = await Promise.all(
        ['host-1', 'host-2'].flatMap(name =>
          ['vms', 'snapshots'].map(async dir => {
            const names = await readdir(join(dirOf(name), dir)).catch(() => [])
            return names.map(file => `${name}/${dir}/${file}`)
          }),
        ),
      )
      return [...rows.map(({ what }) => what), ...files.flat(), ...(await vmmsIn(system.dir))]
    }
    const nothing = async () => {
      expect(await left()).toEqual([])
      return true
    }
    await until(nothing, { ...patient, what: 'every row, file and process to be removed' })
    const mine = await readdir(system.dir)
    expect(mine.filter(name => name.startsWith('host-')).sort()).toEqual(['host-1', 'host-2'])
  })

  it('leaves no network interfaces on the hosts', async () => {
    for (const agent of agents.splice(0)) await agent.stop({ stopVms: true })
    expect(await vmmsIn(system.dir)).toEqual([])
    if (network !== 'tap') return
    expect(taps.size).toBeGreaterThan(1)
    const left = async () => {
      const all = await interfaces()
      return [...taps].filter(name => all.includes(` ${name}:`))
    }
    await until(async () => (await left()).length === 0, { ...patient, what: `${[...taps].join(', ')} are gone` })
  })
})
