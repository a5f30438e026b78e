/** VMs of real agents whose QEMU has waited for them. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { until } from '../../../../../test/support/wait.ts'
import { identifyProcess } from '../../../../lib/process-identity.ts'
import { testAgent, testDir, testSpec, vmmsIn } from '../../../../../test/support/agent/agent.ts'
import { groupOf, waitingIn } from './testing.ts'

const hasQemu = existsSync('/usr/bin/qemu-system-x86_64')
const root = process.getuid?.() === 0
const hasGroups = root && /^\S+ \S+ cgroup2 /m.test(readFileSync('/proc/self/mounts', 'utf8'))
const config = { hypervisor: 'qemu', network: root ? 'tap' : 'user' } as const
const child = fileURLToPath(new URL('./testing-child.ts', import.meta.url))
const desired = (vmId: string, generation = 1) => ({
  vmId,
  generation,
  want: 'running' as const,
  spec: testSpec({ hostname: vmId }),
})

const processOf = async (dataDir: string, vmId: string): Promise<{ pid: number; startTicks: number }> =>
  JSON.parse(await readFile(join(dataDir, 'vms', vmId, 'record.json'), 'utf8')).running.process

const untilWaiting = (dataDir: string, count: number) =>
  until(
    async () => {
      const pids = await waitingIn(dataDir)
      return pids.length === count ? pids : undefined
    },
    { what: `${count} that wait`, timeoutMs: 40_000 },
  )

test.skipIf(!hasQemu)(
  'two starts at once, one that waits: it becomes one of them; an agent that starts anew knows both (needs qemu)',
  { timeout: 120_000 },
  async () => {
    await using host = await testAgent({ ...config, vmmPool: 1 })
    const { dataDir } = host.config
    const healthy = (vmId: string) => host.until(vmId, 'healthy', vm => vm.healthy)
    // It leaves a template; the others go on from there.
    await host.put(desired('first'))
    await healthy('first')
    const [waits = 0] = await untilWaiting(dataDir, 1)
    const identity = identifyProcess(waits)
    if (hasGroups) expect(await groupOf(waits)).toMatch(/\/mote\/[0-9a-f]{16}\/waiting$/)
    expect(await vmmsIn(dataDir)).toHaveLength(1)

    await Promise.all(['one', 'two'].map(vmId => host.put(desired(vmId))))
    const observed = await Promise.all(['one', 'two'].map(healthy))
    const pids = await Promise.all(['first', 'one', 'two'].map(vmId => processOf(dataDir, vmId)))
    expect(pids.filter(({ pid }) => pid === waits)).toEqual([identity])
    expect(new Set(await vmmsIn(dataDir))).toEqual(new Set(pids.map(({ pid }) => pid)))
    for (const { endpoint } of observed)
      expect(await (await fetch(`http://${endpoint?.host}:${endpoint?.port}/`)).text()).toContain('Hello from')
    if (hasGroups) {
      const groups = await Promise.all(pids.map(({ pid }) => groupOf(pid)))
      for (const group of groups) expect(group).toMatch(/\/mote\/[0-9a-f]{16}\/[0-9a-f]{16}$/)
      expect(new Set(groups).size).toBe(3)
    }
    const [next = 0] = await untilWaiting(dataDir, 1)
    expect(next).not.toBe(waits)

    await host.agent.stop()
    expect(await waitingIn(dataDir)).toEqual([])
    expect(identifyProcess(next)).toBeUndefined()
    await host.restart()
    await Promise.all(['first', 'one', 'two'].map(healthy))
    expect(await Promise.all(['first', 'one', 'two'].map(vmId => processOf(dataDir, vmId)))).toEqual(pids)
    await untilWaiting(dataDir, 1)
    await host.request('vm.forget', { vmId: 'one', generation: 2 })
    await host.until('one', 'absent', vm => vm.state === 'absent')
    expect(await vmmsIn(dataDir)).toHaveLength(2)
  },
)

test.skipIf(!hasQemu)(
  'one that cannot become the VM is given up, and the VM starts all the same (needs qemu)',
  { timeout: 120_000 },
  async () => {
    await using host = await testAgent({ ...config, vmmPool: 1 })
    const { dataDir } = host.config
    await host.put(desired('first'))
    await host.until('first', 'healthy', vm => vm.healthy)
    const [waits = 0] = await untilWaiting(dataDir, 1)
    process.kill(waits, 'SIGSTOP')
    await host.put(desired('second'))
    await host.until('second', 'healthy', vm => vm.healthy)
    expect(identifyProcess(waits)).toBeUndefined()
    expect((await processOf(dataDir, 'second')).pid).not.toBe(waits)
    expect(await vmmsIn(dataDir)).toHaveLength(2)
  },
)

test.skipIf(!hasQemu)(
  'kill -9 of the agent: those that wait end by themselves, and are no VMs to the next one (needs qemu)',
  { timeout: 120_000 },
  async () => {
    await using dir = await testDir()
    const dataDir = join(dir.path, 'data')
    await using first = await startChild(dataDir)
    await first.kill()
    await until(() => first.waiting.every(pid => identifyProcess(pid) === undefined), { what: 'their end' })
    await using host = await testAgent({ ...config, dataDir, vmmPool: 2 })
    await host.until('vm-1', 'healthy', vm => vm.healthy)
    expect(await vmmsIn(dataDir)).toEqual([(await processOf(dataDir, 'vm-1')).pid])
    await untilWaiting(dataDir, 2)
  },
)

test.skipIf(!hasQemu)(
  'kill -9 while one is to become a VM: it ends, and the next agent starts the VM once (needs qemu)',
  { timeout: 120_000 },
  async () => {
    await using dir = await testDir()
    const dataDir = join(dir.path, 'data')
    // Both stand still, and one of them has been told what it shall be.
    await using first = await startChild(dataDir, 'hand-over')
    await first.kill()
    // One may have ended already: the kernel kills it with its parent.
    for (const pid of first.waiting) if (identifyProcess(pid)) process.kill(pid, 'SIGCONT')
    await until(() => first.waiting.every(pid => identifyProcess(pid) === undefined), { what: 'their end' })
    await using host = await testAgent({ ...config, dataDir })
    await Promise.all(['vm-1', 'vm-2'].map(vmId => host.until(vmId, 'healthy', vm => vm.healthy)))
    const pids = await Promise.all(['vm-1', 'vm-2'].map(vmId => processOf(dataDir, vmId)))
    expect(new Set(await vmmsIn(dataDir))).toEqual(new Set(pids.map(({ pid }) => pid)))
  },
)

async function startChild(dataDir: string, then = '') {
  const agent = spawn(process.execPath, [child, dataDir, then], { stdio: ['ignore', 'pipe', 'inherit'] })
  const exited = once(agent, 'exit')
  const kill = async () => {
    agent.kill('SIGKILL')
    await exited
  }
  for await (const line of createInterface(agent.stdout)) {
    const waiting: number[] = JSON.parse(line)
    return { waiting, kill, [Symbol.asyncDispose]: kill }
  }
  throw new Error('the child ended without a word')
}
