import { existsSync } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { until } from '../../../test/support/wait.ts'
import { type DiskSpec, type HostBeat, subjects, type VmSpec, type VmWant } from '../../contract/agent.ts'
import { type TestAgent, testAgent, testSpec, vmmsIn } from '../testing.ts'

/** What a running VM of a real hypervisor can be asked for. */
const hasQemu = existsSync('/usr/bin/qemu-system-x86_64')
const limit = { timeout: 120_000 }
const network = process.getuid?.() === 0 ? 'tap' : 'user'
const qemu = { hypervisor: 'qemu', network } as const

const wish = (generation: number, change: Partial<VmSpec> = {}, vmId = 'vm-1', want: VmWant = 'running') => ({
  ...{ vmId, generation, want, spec: testSpec(change) },
})
const healthy = (host: TestAgent, vmId = 'vm-1') => host.until(vmId, 'healthy', vm => vm.healthy)
const fetchText = async (endpoint: { host: string; port: number } | null) =>
  (await fetch(`http://${endpoint?.host}:${endpoint?.port}/`)).text()

test.skipIf(!hasQemu)('exec: as the image user, without a shell, bounded, timed out, several at once (needs qemu)', limit, async () => {
  await using host = await testAgent(qemu)
  await host.put(wish(1, { env: { GREETING: 'good day' } }))
  await healthy(host)
  expect(await host.exec('vm-1', ['id', '-un'])).toEqual({ exitCode: 0, stdout: 'web\n', stderr: '', truncated: false })
  const odd = ['sh', '-c', 'printf "%s|" "$@" "$GREETING"; pwd >&2; exit 7', 'sh', 'a b', '', '100%\n$(id)', 'ü']
  expect(await host.exec('vm-1', odd)).toEqual({
    ...{ exitCode: 7, stdout: 'a b||100%\n$(id)|ü|good day|', stderr: '/app\n', truncated: false },
  })
  expect((await host.exec('vm-1', ['no-such-program'])).exitCode).toBe(127)
  const loud = await host.exec('vm-1', ['sh', '-c', 'while :; do echo 0123456789012345678901234567890123456789; done | head -c 1500000'], 30_000)
  expect(loud).toMatchObject({ exitCode: 0, truncated: true, stderr: '' })
  expect(loud.stdout.length).toBe(1 << 20)
  const late = await host.exec('vm-1', ['sh', '-c', 'echo begun; sleep 60; echo done'], 300)
  expect(late).toMatchObject({ exitCode: 124, stdout: 'begun\n' })
  const many = await Promise.all([1, 2, 3, 4, 5, 6].map(n => host.exec('vm-1', ['sh', '-c', `sleep 0.2; echo ${n}`])))
  expect(many.map(({ stdout }) => stdout)).toEqual(['1\n', '2\n', '3\n', '4\n', '5\n', '6\n'])
  await expect(host.exec('vm-2', ['id'])).rejects.toMatchObject({ remoteCode: 'vm_not_running' })
})

test.skipIf(!hasQemu)('balloon: the target is followed without a reboot, and keeps a floor (needs qemu)', limit, async () => {
  await using host = await testAgent(qemu)
  const actual: number[] = []
  await host.bus.subscribe(subjects.beat(host.agent.hostId), ({ data }) => {
    for (const { balloonActualMib } of (data as HostBeat).stats) actual.push(balloonActualMib ?? -1)
  })
  const reached = (mib: number) =>
    until(() => actual.at(-1) === mib, { what: `a balloon of ${mib} MiB`, timeoutMs: 20_000 })
  const memory = { memoryMib: 512 }
  await host.put(wish(1, memory))
  const { startedAtMs } = await healthy(host)
  await reached(512)
  await host.put(wish(2, { ...memory, balloonTargetMib: 200 }))
  await reached(200)
  await host.put(wish(3, { ...memory, balloonTargetMib: 1 }))
  await reached(128)
  await host.restart()
  await host.put(wish(4, memory))
  await reached(512)
  expect((await host.get('vm-1')).startedAtMs).toBe(startedAtMs)
})

test.skipIf(!hasQemu)('snapshot, restore and clones: state goes on, identities differ (needs qemu)', limit, async () => {
  await using host = await testAgent(qemu)
  await host.put(wish(1))
  await healthy(host)
  await host.exec('vm-1', ['sh', '-c', 'echo before > /tmp/state; dd if=/dev/zero of=/tmp/big bs=1M count=8 2>/dev/null'])
  const snapshot = await host.snapshot('snap-1', 'vm-1')
  expect(snapshot).toMatchObject({ state: 'ready', error: null })
  expect(snapshot.sha256).toMatch(/^[0-9a-f]{64}$/)
  console.log(snapshot)
  await host.exec('vm-1', ['sh', '-c', 'echo after > /tmp/state'])
  await healthy(host)

  await host.put(wish(2, {}, 'vm-1', 'stopped'))
  await host.until('vm-1', 'stopped', vm => vm.state === 'stopped')
  const startedMs = performance.now()
  await host.put(wish(3, { from: { snapshotId: 'snap-1', renew: false } }))
  const restored = await healthy(host)
  console.log('restored in', performance.now() - startedMs, restored.steps)
  expect((await host.exec('vm-1', ['cat', '/tmp/state'])).stdout).toBe('before\n')
  expect(await fetchText(restored.endpoint)).toContain('Hello from hello-1')
  const skewS = Number((await host.exec('vm-1', ['sh', '-c', 'date +%s'])).stdout) - Date.now() / 1000
  expect(Math.abs(skewS)).toBeLessThan(3)

  const clones = ['clone-1', 'clone-2', 'clone-3']
  const cloneMs = performance.now()
  await Promise.all(clones.map(id => host.put(wish(1, { hostname: id, from: { snapshotId: 'snap-1', renew: true } }, id))))
  const seen = await Promise.all(clones.map(id => healthy(host, id)))
  console.log('clones in', performance.now() - cloneMs, seen.map(vm => vm.steps))
  const identity = async (id: string) =>
    (await host.exec(id, ['sh', '-c', 'hostname; cat /etc/machine-id /sys/class/net/eth0/address; head -c 16 /dev/urandom | od -An -tx1'])).stdout.split('\n')
  const identities = await Promise.all(['vm-1', ...clones].map(identity))
  for (const column of [0, 1, 2, 3]) expect(new Set(identities.map(lines => lines[column])).size).toBe(4)
  for (const [index, vm] of seen.entries()) expect(await fetchText(vm.endpoint)).toContain(`Hello from ${clones[index]}`)

  await host.request('snapshot.put', { snapshotId: 'snap-1', vmId: 'vm-1', generation: 2, want: 'absent' })
  expect(await host.request('snapshot.get', { snapshotId: 'snap-1' })).toMatchObject({ state: 'removing' })
  for (const id of [...clones, 'vm-1']) await host.request('vm.forget', { vmId: id, generation: 9 })
  const removed = async () => (await readdir(join(host.config.dataDir, 'snapshots'))).length === 0
  await until(removed, { what: 'the snapshot gone', timeoutMs: 20_000 })
})

const disk = (generation: number, change: Partial<DiskSpec> = {}): DiskSpec => ({
  ...{ volumeId: '0b6f6a5e-7d1c-4f0e-9d5b-3c1f4e8a9b21', pool: 'local', sizeMib: 32, generation },
  ...{ mountPoint: '/data', readOnly: false },
  ...change,
})
const attached = (host: TestAgent, generation: number) =>
  host.until('vm-1', 'attached', vm => vm.disks?.[0]?.state === 'attached' && vm.disks[0].generation === generation)

test.skipIf(!hasQemu)('volumes come and go while the VM runs, and keep what was written (needs qemu)', limit, async () => {
  await using host = await testAgent(qemu)
  const sh = async (script: string) => host.exec('vm-1', ['sh', '-c', script])
  await host.put(wish(1))
  const { startedAtMs } = await healthy(host)
  await host.put(wish(2, { disks: [disk(1)] }))
  await attached(host, 1)
  expect(await sh('echo kept > /data/file')).toMatchObject({ exitCode: 0, stderr: '' })
  await host.restart()
  await host.put(wish(3))
  await host.until('vm-1', 'detached', vm => vm.disks === undefined)
  expect((await sh('cat /data/file')).exitCode).toBe(1)

  await host.put(wish(4, { disks: [disk(2, { readOnly: true, mountPoint: '/srv/deep' })] }))
  await attached(host, 2)
  expect((await sh('cat /srv/deep/file; echo new > /srv/deep/file')).stdout).toBe('kept\n')
  expect((await sh('cat /srv/deep/file')).stdout).toBe('kept\n')

  // In use: it stays until nobody needs it, and says why.
  const sleeper = host.exec('vm-1', ['sh', '-c', 'cd /srv/deep; sleep 2'])
  await host.put(wish(5, { disks: [disk(1)] }))
  const busy = await host.until('vm-1', 'busy', vm => vm.disks?.[0]?.error !== null)
  expect(busy.disks?.[0]).toMatchObject({ state: 'detaching', error: expect.stringContaining('busy') })
  await sleeper
  // An older attachment than this host has seen.
  const stale = await host.until('vm-1', 'refused', vm => vm.error?.code === 'stale_volume_generation')
  expect(stale.disks?.[0]?.state).toBe('failed')
  expect((await host.get('vm-1')).startedAtMs).toBe(startedAtMs)
})

test.skipIf(!hasQemu)('a volume is there before the workload starts, also when the VM is made anew (needs qemu)', limit, async () => {
  await using host = await testAgent(qemu)
  const command = ['sh', '-c', 'echo start >> /data/starts && cat /data/starts && exec sleep 600']
  const spec = { command, healthCheckPath: null, disks: [disk(1)] }
  const starts = async () => (await host.logs('vm-1')).filter(({ line }) => line === 'start').length
  await host.put(wish(1, spec))
  await until(async () => (await starts()) === 1, { what: 'the first start', timeoutMs: 30_000 })
  await host.put(wish(2, spec, 'vm-1', 'stopped'))
  await host.until('vm-1', 'stopped', vm => vm.state === 'stopped')
  await host.put(wish(3, spec))
  await until(async () => (await starts()) === 3, { what: 'the second start', timeoutMs: 30_000 })
})

test.skipIf(!hasQemu)('migration: a VM moves to another agent and answers all the while (needs qemu)', limit, async () => {
  await using source = await testAgent({ hypervisor: 'qemu', network: 'user' })
  await using target = await testAgent({ hypervisor: 'qemu', network: 'user' })
  await source.put(wish(1))
  const before = await healthy(source)
  await source.exec('vm-1', ['sh', '-c', 'echo moved > /tmp/state; dd if=/dev/urandom of=/tmp/big bs=1M count=16 2>/dev/null'])
  const sum = (await source.exec('vm-1', ['md5sum', '/tmp/big'])).stdout

  await target.put(wish(1, { incoming: { migrationId: 'm-1' } }))
  const listening = await target.until('vm-1', 'listening', vm => vm.migration?.phase === 'listening')
  const asking = new AbortController()
  const gaps = longestGap([before.endpoint, listening.endpoint], asking.signal)
  const uri = listening.migration?.uri ?? ''
  await source.put(wish(2, { outgoing: { migrationId: 'm-1', uri } }))
  const left = await source.until('vm-1', 'switched', vm => vm.migration?.phase === 'switched')
  expect(left).toMatchObject({ healthy: false, endpoint: null, migration: { role: 'source', percent: 100, error: null } })
  const arrived = await healthy(target)
  asking.abort()
  console.log('migration', left.migration, 'gap ms', await gaps)
  expect(await gaps).toBeLessThan(1_500)
  expect(arrived).toMatchObject({ state: 'running', migration: { role: 'target', phase: 'switched' } })
  expect((await target.exec('vm-1', ['cat', '/tmp/state'])).stdout).toBe('moved\n')
  expect((await target.exec('vm-1', ['md5sum', '/tmp/big'])).stdout).toBe(sum)
  expect((await source.until('vm-1', 'stopped', vm => vm.state === 'stopped')).endpoint).toBeNull()
  expect(await vmmsIn(source.config.dataDir)).toEqual([])
  await target.restart()
  await healthy(target)
})

test.skipIf(!hasQemu)('migration: what fails or is cancelled leaves exactly one running (needs qemu)', limit, async () => {
  await using source = await testAgent({ hypervisor: 'qemu', network: 'user' })
  await using target = await testAgent({ hypervisor: 'qemu', network: 'user' })
  await source.put(wish(1))
  const { startedAtMs } = await healthy(source)
  const nobody = { migrationId: 'm-0', uri: 'tcp://127.0.0.1:1?disk=1' }
  await source.put(wish(2, { outgoing: nobody }))
  const failed = await source.until('vm-1', 'failed', vm => vm.migration?.phase === 'failed')
  expect(failed).toMatchObject({ state: 'running', migration: { error: expect.stringContaining('QEMU') } })

  await target.put(wish(1, { incoming: { migrationId: 'm-1' } }))
  const { migration } = await target.until('vm-1', 'listening', vm => vm.migration?.phase === 'listening')
  await source.exec('vm-1', ['dd', 'if=/dev/urandom', 'of=/tmp/big', 'bs=1M', 'count=30'])
  await source.put(wish(3, { outgoing: { migrationId: 'm-1', uri: migration?.uri ?? '' } }))
  await source.until('vm-1', 'copying', vm => vm.migration?.migrationId === 'm-1')
  await source.put(wish(4))
  const cancelled = await source.until('vm-1', 'cancelled', vm => vm.migration?.phase === 'cancelled')
  expect(cancelled.startedAtMs).toBe(startedAtMs)
  await target.put(wish(2, {}, 'vm-1', 'absent'))
  await target.until('vm-1', 'absent', vm => vm.state === 'absent')
  expect(await vmmsIn(target.config.dataDir)).toEqual([])
  expect((await source.exec('vm-1', ['echo', 'here'])).stdout).toBe('here\n')
  await healthy(source)
})

/** Asks the addresses in turn and answers the longest time without an answer from any, ms. */
async function longestGap(endpoints: ReadonlyArray<{ host: string; port: number } | null>, signal: AbortSignal): Promise<number> {
  let [longest, lastMs] = [0, performance.now()]
  while (!signal.aborted) {
    for (const endpoint of endpoints) {
      const url = `http://${endpoint?.host}:${endpoint?.port}/health`
      const answered = await fetch(url, { signal: AbortSignal.timeout(200) }).then(({ ok }) => ok, () => false)
      if (!answered) continue
      longest = Math.max(longest, performance.now() - lastMs)
      lastMs = performance.now()
    }
  }
  return longest
}
