import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { readFile, readlink, truncate, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { describe, expect, test } from 'vitest'
import { findDisk } from '../build/scripts.ts'
import { runInVm } from '../build/vm.ts'
import { agentConfig } from '../base/config.ts'
import { createDrivers } from '../drivers.ts'
import { writeSampleImage } from '../image/sample.ts'
import { openNetwork } from '../net/open.ts'
import { semaphore } from '../../lib/semaphore.ts'
import { testAgent, testDir, testSpec, vmmsIn } from '../../../test/support/agent/agent.ts'
import { openIsolation, vmUsers } from './isolation.ts'
import { driverCases, type DriverCase } from '../../../test/support/agent/hypervisor.ts'
import { devicesOf } from '../../../test/support/agent/hypervisor-tap.ts'

/** All drivers that start processes. The tests check each VM's user, cgroup, namespace and drives on the host. */
const cases = (await driverCases()).filter(({ name }) => name !== 'fake')
const cgroupMount = /^\S+ (\S+) cgroup2 /m.exec(readFileSync('/proc/self/mounts', 'utf8'))?.[1]

describe.each(cases)('driver $name', ({ config, spec, skip }) => {
  test.skipIf(skip || process.getuid?.() !== 0)(
    'each VM has its own user, cgroup, system call filter and (with taps) network namespace, and leaves nothing behind (needs root)',
    { timeout: 180_000 },
    async () => {
      await using host = await testAgent(config)
      const isolation = await openIsolation(host.config.dataDir)
      const found = await Promise.all(['vm-1', 'vm-2'].map(vmId => start(vmId)))
      const [pids, uids, groups] = [found.map(one => one.pid), found.map(one => one.uid), found.map(one => one.group)]
      // Every gVisor sandbox runs as the user nobody, in a user namespace of its own.
      const users = ['vm-1', 'vm-2'].map(vmId => (spec.hypervisor === 'gvisor' ? 65_534 : isolation.userOf(vmId)?.uid))
      expect(uids).toEqual(users)
      expect(new Set(pids).size).toBe(2)
      if (cgroupMount !== undefined) {
        expect(new Set(groups).size).toBe(2)
        for (const group of groups) expect(group).toMatch(/\/mote\/[0-9a-f]{16}\/[0-9a-f]{16}$/)
      }
      // Cloud Hypervisor's first thread only waits for the other threads, and has no system call filter.
      const first = spec.hypervisor === 'cloud-hypervisor' ? 1 : 0
      for (const { filtered } of found) {
        expect(filtered.slice(first)).toContain(true)
        expect(filtered.slice(first)).not.toContain(false)
      }
      for (const vmId of ['vm-1', 'vm-2']) {
        await host.request('vm.forget', { vmId, generation: 1 })
        await host.until(vmId, 'absent', vm => vm.state === 'absent')
      }
      for (const group of groups) expect(existsSync(`${cgroupMount}${group}`)).toBe(false)
      expect(await vmmsIn(host.config.dataDir)).toEqual([])

      async function start(vmId: string) {
        await host.put({ vmId, generation: 1, want: 'running', spec: testSpec({ ...spec, hostname: vmId }) })
        await host.until(vmId, 'healthy', vm => vm.healthy)
        const { pid } = JSON.parse(await readFile(join(host.config.dataDir, 'vms', vmId, 'record.json'), 'utf8'))
          .running.process
        const status = await readFile(`/proc/${pid}/status`, 'utf8')
        const filtered = readdirSync(`/proc/${pid}/task`).map(thread => isFiltered(`/proc/${pid}/task/${thread}`))
        if (config.network === 'tap')
          expect(await devicesOf(pid), 'its network').toMatchObject(devicesInside(spec.hypervisor))
        const group = /^0::(.*)$/m.exec(await readFile(`/proc/${pid}/cgroup`, 'utf8'))?.[1] ?? ''
        return { pid, filtered, group, uid: Number(/^Uid:\s+\d+\s+(\d+)/m.exec(status)?.[1]) }
      }
    },
  )

  test.skipIf(skip)('a VM finds its additional drives, reads one and writes to the other', { timeout: 120_000 }, () =>
    readAndWrite({ config, spec }),
  )
})

/**
 * The network devices expected in a VM's namespace: loopback, and with gVisor an eth0 without addresses, because gVisor
 * takes over the addresses of eth0.
 */
const devicesInside = (hypervisor: string | undefined) =>
  hypervisor === 'gvisor'
    ? [{ ifname: 'lo' }, { ifname: 'eth0', addr_info: [] }]
    : [{ ifname: 'lo', operstate: 'DOWN', addr_info: [] }]

/** True if the thread has a system call filter (proc_pid_status(5)). */
function isFiltered(task: string): boolean {
  return /^Seccomp:\s+2$/m.test(readFileSync(join(task, 'status'), 'utf8'))
}

async function readAndWrite({ config, spec }: Pick<DriverCase, 'config' | 'spec'>): Promise<void> {
  await using dir = await testDir()
  const whole = agentConfig({ dataDir: resolve(dir.path), hostName: 'drives', ...config })
  await writeSampleImage(join(whole.imageDir, 'hello'), { user: 'root' })
  const userOf = vmUsers(whole.dataDir)
  const network = await openNetwork(whole, { ownerOf: vmId => userOf(vmId)?.uid })
  const drivers = await createDrivers(whole, network, () => undefined)
  const driver = drivers.get(spec.hypervisor ?? 'qemu')
  if (!driver) throw new Error('no such driver')
  const [source, output] = [join(dir.path, 'source'), join(dir.path, 'output')]
  await writeFile(source, 'what is read\n')
  for (const file of [source, output]) await truncate(file, 2 ** 20).catch(() => writeFile(file, Buffer.alloc(2 ** 20)))
  const script = `${findDisk}
head -c 13 "$(disk source)" | dd of="$(disk output)" conv=fsync
echo no > "$(disk source)" && exit 9
(disk absent) || exit 7`
  try {
    const vm = {
      vmId: 'builder',
      dir: join(dir.path, 'vm'),
      spec: testSpec({ ...spec, command: ['/bin/sh', '-c', script], healthCheckPath: null }),
      drives: [
        { serial: 'source', file: source, readOnly: true },
        { serial: 'output', file: output, readOnly: false },
      ],
      onFrames: () => undefined,
      say: () => undefined,
    }
    const code = await runInVm({ driver, bootSlots: semaphore(1) }, vm, AbortSignal.timeout(100_000))
    expect(code).toBe(7)
    expect((await readFile(output, 'utf8')).slice(0, 13)).toBe('what is read\n')
    expect((await readFile(source, 'utf8')).slice(0, 13)).toBe('what is read\n')
    expect(await readlink(join(dir.path, 'vm')).catch(error => error.code)).toBe('ENOENT')
  } finally {
    await driver.close()
  }
}
