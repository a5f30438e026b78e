/** Few hosts have all hypervisors installed, so each driver must work without its program. */
import { join } from 'node:path'
import { expect, test, vi } from 'vitest'
import { testDir } from '../../../test/support/agent/agent.ts'
import { type AgentConfig, agentConfig } from '../base/config.ts'
import { createDrivers } from '../drivers.ts'
import { userNetwork } from '../net/user.ts'

const none: AgentConfig['programs'] = { firecracker: null, jailer: null, cloudHypervisor: null, runsc: null }
const paths = (dir: string): AgentConfig['programs'] => ({
  firecracker: join(dir, 'firecracker'),
  jailer: join(dir, 'jailer'),
  cloudHypervisor: join(dir, 'cloud-hypervisor'),
  runsc: join(dir, 'runsc'),
})

test.each([
  ['missing on the PATH', () => none],
  ['configured with paths that do not exist', paths],
])('if programs are %s, every driver is unavailable, but can still release VMs', async (_where, programs) => {
  await using dir = await testDir()
  vi.stubEnv('PATH', join(dir.path, 'empty'))
  try {
    const config = agentConfig({
      dataDir: dir.path,
      imageDir: join(dir.path, 'images'),
      cacheDir: join(dir.path, 'cache'),
      hostName: 'bare',
      hypervisor: 'auto',
      programs: programs(dir.path),
    })
    const drivers = await createDrivers(config, userNetwork(), () => undefined)
    expect([...drivers.keys()].sort()).toEqual(['cloud-hypervisor', 'firecracker', 'gvisor', 'qemu'])
    for (const [name, driver] of drivers) {
      await driver.reclaim(new Set())
      await driver.release('vm_1', join(dir.path, 'vms', 'vm_1'))
      const { available, detail } = await driver.probe(AbortSignal.timeout(10_000))
      expect([name, available, detail]).toEqual([name, false, expect.stringMatching(/./)])
    }
    for (const driver of drivers.values()) await driver.close()
  } finally {
    vi.unstubAllEnvs()
  }
})
