/** Tests that a VM without a process leaves no mounts and files on its host, no matter when its agent stops. */
import { mkdir, readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import type { VmObserved } from '../../contract/agent.ts'
import { until } from '../../../test/support/wait.ts'
import { bind, mountedBelow, unbindBelow } from '../hypervisor/bind.ts'
import { createFakeHost, type FakeHost } from '../hypervisor/fake/host.ts'
import { runDir } from '../hypervisor/isolation.ts'
import { type TestAgent, testAgent, testDir, testSpec } from '../../../test/support/agent/agent.ts'

const isRoot = process.getuid?.() === 0
const instant = { imageMs: 0, bootMs: 0, healthyMs: 0, stopMs: 0, logEveryMs: 0 }
const spec = testSpec({ hypervisor: 'fake' })

/** Creates a simulated host on which one operation blocks until the test releases it. */
function heldAt(verb: string): { host: FakeHost; reached: Promise<void>; go: () => void } {
  const host = createFakeHost(instant)
  const [reached, gate] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const pass = host.pass.bind(host)
  host.pass = async (called, ...rest) => {
    if (called === verb) {
      reached.resolve()
      await gate.promise
    }
    return pass(called, ...rest)
  }
  return { host, reached: reached.promise, go: gate.resolve }
}

async function mountableDir(): Promise<{ path: string } & AsyncDisposable> {
  const dir = await testDir()
  return {
    path: dir.path,
    async [Symbol.asyncDispose]() {
      await unbindBelow(dir.path) // mounts that a failed test left
      await dir[Symbol.asyncDispose]()
    },
  }
}

/** Mounts a volume below the VM's directory, as a driver does for its VMM. */
async function showVolume({ config }: TestAgent, vmId: string): Promise<void> {
  const run = join(config.dataDir, 'vms', vmId, runDir)
  await mkdir(run, { recursive: true })
  const file = join(config.dataDir, `volume-of-${vmId}`)
  await writeFile(file, 'data')
  await bind(file, join(run, 'v-1'))
}

const runVm = async (host: TestAgent, vmId: string) => {
  await host.put({ vmId, generation: 1, want: 'running', spec })
  await host.until(vmId, 'healthy', vm => vm.healthy)
}

describe('an agent that stops while a VM is being deleted', () => {
  test.each(['stop', 'release'])('releases the VM before the agent exits (agent stopped during "%s")', async verb => {
    const held = heldAt(verb)
    await using dir = await mountableDir()
    await using host = await testAgent({ hypervisor: 'fake', dataDir: dir.path }, held.host)
    await runVm(host, 'vm-1')
    await host.put({ vmId: 'vm-1', generation: 2, want: 'absent', spec })
    await held.reached
    const stopped = host.agent.stop()
    held.go()
    await stopped
    expect(await readdir(join(dir.path, 'vms')), 'directory of the VM').toEqual([])
    expect(await readdir(join(dir.path, 'leaving')), 'directories that are being removed').toEqual([])
    await host.restart()
  })

  test.skipIf(!isRoot)("removes the mounts of that VM's volumes (needs root)", async () => {
    const held = heldAt('stop')
    await using dir = await mountableDir()
    await using host = await testAgent({ hypervisor: 'fake', dataDir: dir.path }, held.host)
    await runVm(host, 'vm-1')
    await showVolume(host, 'vm-1')
    await host.put({ vmId: 'vm-1', generation: 2, want: 'absent', spec })
    await held.reached
    const stopped = host.agent.stop()
    held.go()
    await stopped
    expect(await mountedBelow(dir.path)).toEqual([])
    await host.restart()
  })
})

describe('a VM that is being deleted', () => {
  const vmIds = Array.from({ length: 40 }, (_, n) => `vm-${n}`)

  test('leaves no files behind if its deletion is requested repeatedly', async () => {
    await using dir = await testDir()
    await using host = await testAgent({ hypervisor: 'fake', dataDir: dir.path }, createFakeHost(instant))
    await Promise.all(
      vmIds.map(async vmId => {
        await runVm(host, vmId)
        await host.put({ vmId, generation: 2, want: 'absent', spec })
        const isGone = async () => ((await host.request('vm.forget', { vmId, generation: 2 })) as VmObserved).state
        while ((await isGone()) !== 'absent');
      }),
    )
    expect(await readdir(join(dir.path, 'vms'))).toEqual([])
  })

  test('runs again if the desired state changes back to running at any point of the deletion', async () => {
    await using dir = await testDir()
    await using host = await testAgent({ hypervisor: 'fake', dataDir: dir.path }, createFakeHost(instant))
    await Promise.all(
      vmIds.map(async (vmId, n) => {
        await runVm(host, vmId)
        await host.put({ vmId, generation: 2, want: 'absent', spec })
        for (let asked = 0; asked < n % 8; asked++) await host.request('vm.get', { vmId })
        await host.put({ vmId, generation: 3, want: 'running', spec })
        await host.until(vmId, 'healthy', vm => vm.healthy && vm.generation === 3)
      }),
    )
    await host.restart()
    for (const vmId of vmIds) await host.until(vmId, 'healthy after a restart of the agent', vm => vm.healthy)
  })
})

test.skipIf(!isRoot)(
  'an agent that stops its VMs leaves no mounts of VMs that are to start again (needs root)',
  async () => {
    await using dir = await mountableDir()
    const fake = createFakeHost(instant)
    const released: string[] = []
    const pass = fake.pass.bind(fake)
    fake.pass = async (verb, vmId, ...rest) => {
      if (verb === 'release') released.push(vmId)
      return pass(verb, vmId, ...rest)
    }
    await using host = await testAgent({ hypervisor: 'fake', dataDir: dir.path }, fake)
    await runVm(host, 'vm-1')
    await showVolume(host, 'vm-1')
    await host.agent.stop({ stopVms: true })
    expect(await mountedBelow(dir.path)).toEqual([])
    expect(released, 'taps, rules and cgroups').toEqual(['vm-1'])
    await host.restart()
    await host.until('vm-1', 'healthy', vm => vm.healthy)
  },
)

describe.skipIf(!isRoot)('mounts of a VM without a process (needs root)', () => {
  test.each(['stopped', 'crashed'] as const)(
    'are removed when the VM is %s, not only when it is deleted',
    async state => {
      await using dir = await mountableDir()
      const fake = createFakeHost(instant)
      await using host = await testAgent({ hypervisor: 'fake', dataDir: dir.path }, fake)
      await runVm(host, 'vm-1')
      await showVolume(host, 'vm-1')
      if (state === 'stopped') await host.put({ vmId: 'vm-1', generation: 2, want: 'stopped', spec })
      else fake.vms.get('vm-1')?.die('asked to')
      await host.until('vm-1', state, vm => vm.state === state)
      await until(async () => (await mountedBelow(dir.path)).length === 0, { what: 'no mount is left' })
    },
  )

  test('are removed by the next agent if the previous agent was killed', async () => {
    await using dir = await mountableDir()
    await using host = await testAgent({ hypervisor: 'fake', dataDir: dir.path }, createFakeHost(instant))
    await host.put({ vmId: 'vm-1', generation: 1, want: 'stopped', spec })
    await host.until('vm-1', 'stopped', vm => vm.state === 'stopped')
    await host.agent.stop()
    await showVolume(host, 'vm-1')
    await host.restart()
    await until(async () => (await mountedBelow(dir.path)).length === 0, { what: 'no mount is left' })
  })
})
