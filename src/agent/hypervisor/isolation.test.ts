import { existsSync, readFileSync, statSync } from 'node:fs'
import { spawn } from 'node:child_process'
import { chmod, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { until } from '../../../test/support/wait.ts'
import { identifyProcess, isRunning } from '../../lib/process-identity.ts'
import { testDir } from '../../../test/support/agent/agent.ts'
import { limitsOf, openCgroups } from './cgroups.ts'
import type { RunningVm } from './driver.ts'
import { deviceGroup, openIsolation, showFile } from './isolation.ts'
import { endProcess } from './process.ts'
import {
  bring,
  fakedHost,
  fakedVmms,
  homeIn,
  unreachable,
  watcher,
} from '../../../test/support/agent/hypervisor-drivers.ts'

const root = process.getuid?.() === 0
const mounted = /^\S+ (\S+) cgroup2 /m.exec(readFileSync('/proc/self/mounts', 'utf8'))?.[1]
const hasGroups = root && mounted !== undefined

test('a VM is limited to its vCPUs plus half a CPU, its memory, and a number of tasks, as far as controllers are available', () => {
  const limits = { vcpus: 2, memoryMib: 640 }
  expect(limitsOf(limits, ['cpu', 'memory', 'pids'])).toEqual([
    ['cpu.max', '250000 100000'],
    ['memory.max', '671088640'],
    ['memory.oom.group', '1'],
    ['pids.max', '256'],
  ])
  expect(limitsOf({ ...limits, vmmCpus: 0 }, ['cpu'])).toEqual([['cpu.max', '200000 100000']])
  expect(limitsOf({ ...limits, tasks: 4096 }, ['pids'])).toEqual([['pids.max', '4096']])
  expect(limitsOf(limits, ['pids'])).toEqual([['pids.max', '256']])
  expect(limitsOf(limits, [])).toEqual([])
})

test('every VM of every agent has a different user, which is the same at every start (needs root)', async ({
  skip,
}) => {
  skip(!root, 'needs root')
  const [one, two] = [await openIsolation('/var/lib/a'), await openIsolation('/var/lib/b')]
  const uids = [one.userOf('vm-1'), one.userOf('vm-2'), two.userOf('vm-1')].map(user => user?.uid ?? 0)
  expect(new Set(uids).size).toBe(3)
  expect(one.userOf('vm-1')).toEqual((await openIsolation('/var/lib/a')).userOf('vm-1'))
  for (const uid of uids) {
    expect(uid).toBeGreaterThanOrEqual(1_900_000_000)
    expect(uid).toBeLessThan(2 ** 31)
  }
})

test("a VM's cgroup has its limits and counts CPU time; reclaiming it kills its processes (needs root and cgroup2)", async ({
  skip,
}) => {
  skip(!hasGroups, 'needs root and cgroup2')
  await using dir = await testDir()
  const groups = await openCgroups(dir.path)
  if (!groups) throw new Error(`cannot write to ${mounted}`)
  const busy = spawn(process.execPath, ['-e', 'for (;;);'], { stdio: 'ignore' })
  using _ends = { [Symbol.dispose]: () => void busy.kill('SIGKILL') }
  const identity = identifyProcess(busy.pid ?? 0)
  if (!identity) throw new Error('it ended')
  await groups.confine('vm-1', identity.pid, { vcpus: 1, memoryMib: 256 })
  await groups.confine('vm-1', identity.pid, { vcpus: 1, memoryMib: 256 })
  const path = /^0::(.*)$/m.exec(await readFile(`/proc/${identity.pid}/cgroup`, 'utf8'))?.[1] ?? ''
  expect(path).toMatch(/\/mote\/[0-9a-f]{16}\/[0-9a-f]{16}$/)
  for (const [file, value] of limitsOf({ vcpus: 1, memoryMib: 256 }, groups.controllers))
    expect((await readFile(join(mounted ?? '', path, file), 'utf8')).trim()).toBe(value)
  await until(() => (groups.cpuSeconds('vm-1') ?? 0) > 0.01, { what: 'cpu time', timeoutMs: 30_000 })
  expect(groups.cpuSeconds('vm-2')).toBeUndefined()

  const again = await openCgroups(dir.path)
  await again?.reclaim(new Set(['vm-1']))
  expect(isRunning(identity)).toBe(true)
  await again?.reclaim(new Set())
  await until(() => !isRunning(identity), { what: 'its end' })
  expect(groups.cpuSeconds('vm-1')).toBeUndefined()
  await groups.release('vm-1')
  await groups.close()
  expect(existsSync(join(mounted ?? '', path, '..'))).toBe(false)
})

test("showFile makes a file available without a copy; the VM's user can read or owns it", async ({ skip }) => {
  skip(!root, 'needs root')
  await using dir = await testDir()
  const [from, to] = [join(dir.path, 'from'), join(dir.path, 'to')]
  await writeFile(from, 'x', { mode: 0o400 })
  const user = { uid: 1_999_999_003, gid: 1_999_999_003 }
  await showFile(from, to, user, 'read')
  expect(statSync(to).mode & 0o777).toBe(0o444)
  expect(statSync(to).ino).toBe(statSync(from).ino)
  await showFile(from, to, user, 'write')
  expect(statSync(to).uid).toBe(user.uid)
  expect(deviceGroup(['/dev/null'], 42)).toBe(42)
  expect(deviceGroup([join(dir.path, 'no-such-device'), '/dev/null'], 42), 'a device that is not there').toBe(42)
  expect(deviceGroup([from], 42)).toBeUndefined()
})

test.skipIf(!root).for(fakedVmms)(
  '$name with a fake VMM: each VM has its own user and cgroup, and leaves no cgroup behind (needs root)',
  { timeout: 120_000 },
  async (fake, { skip }) => {
    const reason = unreachable(fake)
    skip(reason !== undefined, reason)
    await using dir = await testDir()
    await chmod(dir.path, 0o755)
    const isolation = await openIsolation(dir.path)
    const { driver } = await fakedHost(fake, dir.path, isolation)
    const vms = ['vm-1', 'vm-2']
    const runningVms: RunningVm[] = []
    try {
      for (const vmId of vms) runningVms.push((await bring(driver, await homeIn(dir.path, vmId), watcher())).runningVm)
      const pids = runningVms.map(({ running }) => running.process.pid)
      const uids = await Promise.all(pids.map(uidOf))
      const users = vms.map(vmId => isolation.userOf(vmId))
      expect(new Set(users.map(user => user?.uid)).size).toBe(2)
      // Firecracker's jailer creates its own device nodes. Cloud Hypervisor opens the host's nodes, which may be
      // root-only.
      const hasUsers = fake.name === 'firecracker' || deviceGroup(['/dev/kvm', '/dev/net/tun'], 1) !== undefined
      expect(uids).toEqual(users.map(user => (hasUsers ? user?.uid : 0)))
      const groups = await Promise.all(pids.map(groupOf))
      if (hasGroups) expect(new Set(groups).size).toBe(2)
      for (const [index, runningVm] of runningVms.entries()) {
        await runningVm.stop(500)
        await driver.release(vms[index] ?? '', join(dir.path, 'vms', vms[index] ?? ''))
      }
      if (hasGroups) for (const group of groups) expect(existsSync(join(mounted ?? '', group))).toBe(false)
    } finally {
      for (const { running } of runningVms) await endProcess(running)
      await driver.close()
    }
  },
)

async function uidOf(pid: number): Promise<number> {
  return Number(/^Uid:\s+\d+\s+(\d+)/m.exec(await readFile(`/proc/${pid}/status`, 'utf8'))?.[1])
}

async function groupOf(pid: number): Promise<string> {
  const group = /^0::(.*)$/m.exec(await readFile(`/proc/${pid}/cgroup`, 'utf8'))?.[1] ?? ''
  if (hasGroups) expect(group).toMatch(/\/mote\/[0-9a-f]{16}\/[0-9a-f]{16}$/)
  return group
}
