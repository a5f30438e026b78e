// Not repeated on the distribution's PostgreSQL: this file tests real VMs, not the database.
/**
 * A volume snapshot on a file system without reflinks: QEMU copies the volume while its VM keeps writing, and the copy
 * contains the state of one instant.
 */
import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { loopFileSystem, whyNoLoop } from '../support/agent/disk.ts'
import { writeSampleImage } from '../../src/agent/image/sample.ts'
import { vmmsIn } from '../support/agent/agent.ts'
import { run } from '../../src/lib/exec.ts'
import { hasProgram } from '../../src/lib/programs.ts'
import { type TestSystem, type TestUser, testSystem } from '../support/system.ts'
import { until } from '../support/wait.ts'

const needed = ['qemu-system-x86_64', 'mke2fs', 'umoci', 'skopeo']
const present = await Promise.all(needed.map(hasProgram))
const missing = needed.filter((_, n) => !present[n])
const noLoop = await whyNoLoop('ext4')
if (noLoop) missing.push(noLoop)
const reason = missing.length > 0 ? `skipped, missing: ${missing.join(', ')}` : ''

describe.skipIf(missing.length > 0)(`a volume that is copied while its VM runs ${reason}`, { timeout: 300_000 }, () => {
  const stack = new AsyncDisposableStack()
  let system: TestSystem
  let user: TestUser
  let poolDir: string

  beforeAll(async () => {
    const dir = await mkdtemp(join(tmpdir(), 'mote-pool-'))
    stack.defer(() => rm(dir, { recursive: true }))
    const place = stack.use(await loopFileSystem('ext4', dir, 2000))
    system = await testSystem({ agents: 0 })
    const dataDir = join(system.dir, 'host-1')
    await mkdir(dataDir)
    stack.defer(async () => system[Symbol.asyncDispose]())
    poolDir = place.path
    await writeSampleImage(join(dataDir, 'images', 'hello'))
    const network = process.getuid?.() === 0 ? 'tap' : 'user'
    const pools = [{ name: 'local', kind: 'dir' as const, place: poolDir }]
    await system.addAgent({ dataDir, hypervisor: 'qemu', network, pools })
    user = await system.user()
  }, 180_000)
  afterAll(() => stack.disposeAsync(), 120_000)

  const volumes = async (): Promise<{ id: string; status: string }[]> => (await user.get('/v1/volumes')).body
  const deployed = async (name: string, volumeId: string) => {
    const { id } = (await user.post('/v1/apps', { name, git_url: '', health_check_path: '/health' })).body
    await user.post(`/v1/apps/${id}/volumes/attach`, { volume_id: volumeId })
    const { job_id } = (await user.post(`/v1/apps/${name}/deploy`, { image: 'oci:hello' })).body
    const at = `/v1/apps/${name}/deployments/${job_id}`
    await until(async () => (await user.get(at)).body.status === 'running', {
      timeoutMs: 120_000,
      what: `${name} runs`,
    })
    return async (script: string) => {
      const { stdout, error } = (await user.post(`${at}/exec`, { command: ['sh', '-c', script] })).body
      return String(stdout ?? error).trim()
    }
  }

  it('has a copy that contains its state at one instant, and pauses its VM for less time than the copying takes', async () => {
    const id = (await user.post('/v1/volumes', { name: 'data', size_mib: 512 })).body.id
    const sh = await deployed('writer', id)
    await sh('yes something | head -c 200000000 > /data/bulk && sync')
    const bulk = await sh('sha256sum < /data/bulk')
    // Write each number to the file `first`, and then to `second`. At any instant, `second` has the same numbers as
    // `first`, or all but the newest.
    await sh(
      `cat > /tmp/count <<'END'
n=0; while :; do n=$((n+1)); echo $n >> /data/first; sync; echo $n >> /data/second; sync; done
END
setsid sh /tmp/count >/dev/null 2>&1 & sleep 0.1`,
    )
    const last = async () => Number(await sh('tail -n 1 /data/second'))
    await until(async () => (await last()) > 3, { timeoutMs: 60_000, what: 'the VM to write' })

    /** Takes a snapshot, and returns the VM's pause divided by the duration of a plain copy right afterwards. */
    const pauseOf = async (snapshotName: string): Promise<number> => {
      await user.post(`/v1/volumes/${id}/snapshots`, { name: snapshotName })
      const snapshot = async () =>
        (await user.get(`/v1/volumes/${id}/snapshots`)).body.find((one: { name: string }) => one.name === snapshotName)
      await until(async () => (await snapshot()).status !== 'creating', {
        timeoutMs: 120_000,
        what: 'the snapshot to end',
      })
      expect(await snapshot()).toMatchObject({ status: 'ready', error: null, pause_ms: expect.any(Number) })
      expect((await snapshot()).size_bytes).toBeLessThan(300 * 2 ** 20)
      const { id: snapshotId, pause_ms } = await snapshot()
      const beganMs = performance.now()
      await run('cp', ['--sparse=always', join(poolDir, `${id}.raw`), join(poolDir, 'measured')])
      const share = pause_ms / (performance.now() - beganMs)
      await rm(join(poolDir, 'measured'))
      if (snapshotName === 'again') {
        await user.delete(`/v1/snapshots/${snapshotId}`)
        await until(async () => (await snapshot()) === undefined, { what: 'the snapshot to be deleted' })
      }
      return share
    }
    // Use the smallest of up to eight measurements: on a busy machine the pause may be long by chance, but if the VM
    // were paused for the whole copy, it would be long each time.
    const shares = [await pauseOf('then')]
    while (Math.min(...shares) >= 1 && shares.length < 8) shares.push(await pauseOf('again'))
    expect(Math.min(...shares)).toBeLessThan(1)
    expect(Math.min(...shares)).toBeGreaterThan(0)
    const then = await last()
    await until(async () => (await last()) > then, { timeoutMs: 60_000, what: 'the VM to keep writing' })

    await user.post(`/v1/volumes/${id}/clone`, { name: 'copy', snapshot_name: 'then' })
    const clone = (await volumes()).find(one => one.id !== id)?.id ?? ''
    const read = await deployed('reader', clone)
    expect(await read('sha256sum < /data/bulk')).toBe(bulk)
    const [first = '', second = ''] = (await read('cat /data/first; echo; echo -; cat /data/second')).split('-')
    const [one, two] = [numbers(first), numbers(second)]
    expect(one).toEqual(one.map((_, n) => n + 1))
    expect(two).toEqual(one.slice(0, two.length))
    expect(one.length - two.length).toBeLessThanOrEqual(1)
    expect(two.length).toBeGreaterThan(3)
    expect(then).toBeGreaterThanOrEqual(two.length)
    for (const name of ['writer', 'reader']) await user.delete(`/v1/apps/${name}`)
    const left = async () => (await vmmsIn(system.dir)).length
    await until(async () => (await left()) === 0, { timeoutMs: 60_000, what: 'every VM to be removed' })
  })
})

const numbers = (text: string) => text.trim().split('\n').map(Number)
