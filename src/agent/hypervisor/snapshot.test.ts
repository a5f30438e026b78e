import { existsSync } from 'node:fs'
import { appendFile, chmod, readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { runsAll } from '../../../test/support/all-examples.ts'
import { until } from '../../../test/support/wait.ts'
import { type HostHeartbeat, type LogBatch, subjects, type VmSpec, type VmWant } from '../../contract/agent.ts'
import { type TestAgent, testAgent, testSpec } from '../../../test/support/agent/agent.ts'

const hasQemu = existsSync('/usr/bin/qemu-system-x86_64')
const limit = { timeout: 120_000 }
const network = process.getuid?.() === 0 ? 'tap' : 'user'
const qemu = { hypervisor: 'qemu', network } as const

const desired = (generation: number, change: Partial<VmSpec> = {}, vmId = 'vm-1', want: VmWant = 'running') => ({
  vmId,
  generation,
  want,
  spec: testSpec(change),
})
const healthy = (host: TestAgent, vmId = 'vm-1') => host.until(vmId, 'healthy', vm => vm.healthy)
const fetchText = async (endpoint: { host: string; port: number } | null) =>
  (await fetch(`http://${endpoint?.host}:${endpoint?.port}/`)).text()

test.skipIf(!hasQemu)(
  'restored VMs and clones continue from the snapshot with different identities (needs qemu)',
  limit,
  async () => {
    await using host = await testAgent(qemu)
    await host.put(desired(1))
    await healthy(host)
    await host.exec('vm-1', [
      'sh',
      '-c',
      'echo before > /tmp/state; dd if=/dev/zero of=/tmp/big bs=1M count=8 2>/dev/null',
    ])
    const dropped: number[] = []
    await host.bus.subscribe('log.>', ({ data }) => void dropped.push((data as LogBatch).dropped))
    const snapshot = await host.snapshot('snap-1', 'vm-1')
    expect(snapshot).toMatchObject({ state: 'ready', error: null })
    expect(snapshot.sha256).toMatch(/^[0-9a-f]{64}$/)
    await host.exec('vm-1', ['sh', '-c', 'echo after > /tmp/state'])
    await healthy(host)

    await host.put(desired(2, {}, 'vm-1', 'stopped'))
    await host.until('vm-1', 'stopped', vm => vm.state === 'stopped')
    await host.put(desired(3, { from: { snapshotId: 'snap-1', renew: false } }))
    const restored = await healthy(host)
    expect((await host.exec('vm-1', ['cat', '/tmp/state'])).stdout).toBe('before\n')
    expect(await fetchText(restored.endpoint)).toContain('Hello from hello-1')
    // The log continues after a restore. Lines before the snapshot do not count as dropped, although the first line
    // number is not 1.
    await until(async () => (await host.logs('vm-1')).at(-1)?.line.includes('url:/') === true, { what: 'the log' })
    expect(dropped.reduce((sum, lines) => sum + lines, 0)).toBe(0)
    const skewS = Number((await host.exec('vm-1', ['sh', '-c', 'date +%s'])).stdout) - Date.now() / 1000
    expect(Math.abs(skewS)).toBeLessThan(3)

    // Only partly in `npm test`: two clones cover the third, because all start from the same snapshot.
    const clones = ['clone-1', 'clone-2', 'clone-3'].slice(0, runsAll ? 3 : 2)
    await Promise.all(
      clones.map(id => host.put(desired(1, { hostname: id, from: { snapshotId: 'snap-1', renew: true } }, id))),
    )
    const observed = await Promise.all(clones.map(id => healthy(host, id)))
    const identity = async (id: string) =>
      (
        await host.exec(id, [
          'sh',
          '-c',
          'hostname; cat /etc/machine-id /sys/class/net/eth0/address; head -c 16 /dev/urandom | od -An -tx1',
        ])
      ).stdout.split('\n')
    const identities = await Promise.all(['vm-1', ...clones].map(identity))
    for (const column of [0, 1, 2, 3])
      expect(new Set(identities.map(lines => lines[column])).size).toBe(identities.length)
    for (const [index, vm] of observed.entries())
      expect(await fetchText(vm.endpoint)).toContain(`Hello from ${clones[index]}`)

    // A clone that frees memory must not change the shared snapshot files.
    await host.put(
      desired(2, { hostname: 'clone-1', balloonTargetMib: 80, from: { snapshotId: 'snap-1', renew: true } }, 'clone-1'),
    )
    await until(async () => (await balloonOf(host, 'clone-1')) < 128, { what: 'a smaller clone' })
    await host.restart()
    await host.put(desired(1, { from: { snapshotId: 'snap-1', renew: true } }, 'clone-4'))
    await healthy(host, 'clone-4')
    clones.push('clone-4')

    await host.request('snapshot.put', { snapshotId: 'snap-1', vmId: 'vm-1', generation: 2, want: 'absent' })
    expect(await host.request('snapshot.get', { snapshotId: 'snap-1' })).toMatchObject({ state: 'removing' })
    for (const id of [...clones, 'vm-1']) await host.request('vm.forget', { vmId: id, generation: 9 })
    const removed = async () => (await readdir(join(host.config.dataDir, 'snapshots'))).length === 0
    await until(removed, { what: 'the snapshot gone' })
  },
)

test.skipIf(!hasQemu)(
  'a snapshot that is damaged or was made by another VMM is refused with the reason (needs qemu)',
  limit,
  async () => {
    await using host = await testAgent(qemu)
    await host.put(desired(1))
    await healthy(host)
    expect((await host.snapshot('none', 'vm-2')).state).toBe('failed')
    await host.snapshot('snap-1', 'vm-1')
    const dir = join(host.config.dataDir, 'snapshots/snap-1')
    const outcome = await readFile(join(dir, 'outcome.json'), 'utf8')
    await writeFile(join(dir, 'outcome.json'), outcome.replace(/qemu \d+/, 'qemu 6'))
    const start = async (vmId: string) => {
      await host.restart()
      await host.put(desired(1, { from: { snapshotId: 'snap-1', renew: true } }, vmId))
      return (await host.until(vmId, 'crashed', vm => vm.state === 'crashed')).error
    }
    expect(await start('clone-1')).toMatchObject({
      code: 'snapshot_mismatch',
      message: expect.stringContaining('qemu 6'),
    })
    await writeFile(join(dir, 'outcome.json'), outcome)
    await chmod(join(dir, 'files/state'), 0o600)
    await appendFile(join(dir, 'files/state'), 'x')
    expect(await start('clone-2')).toMatchObject({ code: 'snapshot_damaged' })
  },
)

async function balloonOf(host: TestAgent, vmId: string): Promise<number> {
  const heartbeat = Promise.withResolvers<HostHeartbeat>()
  const subject = subjects.heartbeat(host.agent.hostId)
  const subscription = await host.bus.subscribe(subject, ({ data }) => heartbeat.resolve(data as HostHeartbeat))
  const { stats } = await heartbeat.promise
  await subscription.stop()
  return stats.find(one => one.vmId === vmId)?.balloonActualMib ?? Number.POSITIVE_INFINITY
}
