import { existsSync } from 'node:fs'
import { join, resolve } from 'node:path'
import type { VmSpec } from '../../../src/contract/agent.ts'
import { type AgentConfig, agentConfig } from '../../../src/agent/base/config.ts'
import { createDrivers } from '../../../src/agent/drivers.ts'
import { installRunsc } from '../../../src/agent/hypervisor/gvisor/install.ts'
import { openNetwork } from '../../../src/agent/net/open.ts'
import { once } from '../../../src/lib/once.ts'
import { minutes } from '../../../src/lib/duration.ts'
import { homeDir } from '../../../src/lib/home.ts'
import { runsAll } from '../all-examples.ts'
import { testDir } from './agent.ts'

/** Paths of VMM programs for tests, from the environment variables of the agent's settings. */
export const vmmPrograms = {
  firecracker: process.env.MOTE_FIRECRACKER_BIN ?? null,
  jailer: process.env.MOTE_JAILER_BIN ?? null,
  cloudHypervisor: process.env.MOTE_CLOUD_HYPERVISOR_BIN ?? null,
  runsc: process.env.MOTE_RUNSC_BIN ?? null,
} as const

/**
 * Returns the configuration for tests with a real VMM, and why they cannot run on this machine: no program is
 * configured, or its test boot fails.
 */
export async function realVmmConfig(
  name: 'firecracker' | 'cloud-hypervisor',
): Promise<{ why: string; config: Partial<AgentConfig> }> {
  const config: Partial<AgentConfig> = { hypervisor: name, network: 'tap', programs: vmmPrograms }
  const variable = name === 'firecracker' ? 'MOTE_FIRECRACKER_BIN' : 'MOTE_CLOUD_HYPERVISOR_BIN'
  const program = name === 'firecracker' ? vmmPrograms.firecracker : vmmPrograms.cloudHypervisor
  if (program === null) return { why: `set ${variable}`, config }
  if (process.getuid?.() !== 0) return { why: 'needs root', config }
  await using dir = await testDir()
  const whole = agentConfig({ dataDir: resolve(dir.path), hostName: 'probe', ...config })
  const network = await openNetwork(whole)
  const drivers = await createDrivers(whole, network, () => undefined)
  const probe = await drivers.get(name)?.probe(AbortSignal.timeout(60_000))
  await network.close()
  return { why: probe?.available ? '' : (probe?.detail ?? 'no such driver'), config }
}

/** A hypervisor driver to test, with a configuration that this machine supports. */
export interface DriverCase {
  /** Name for test titles, which includes the reason if the case is skipped. */
  readonly name: string
  readonly skip: boolean
  readonly config: Partial<AgentConfig>
  readonly spec: Partial<VmSpec>
}

/** Returns the case of a real VMM (`MOTE_FIRECRACKER_BIN`, `MOTE_CLOUD_HYPERVISOR_BIN`), which needs KVM. */
async function realVmm(name: 'firecracker' | 'cloud-hypervisor'): Promise<DriverCase> {
  const { why, config } = await realVmmConfig(name)
  const spec = { hypervisor: name }
  return { name: why === '' ? name : `${name} (skipped: ${why})`, skip: why !== '', config, spec }
}

/** Returns the case of gVisor, which needs no KVM. */
async function gvisorCase(): Promise<DriverCase> {
  const { why, config } = await gvisorConfig()
  return {
    name: why === '' ? 'gvisor' : `gvisor (skipped: ${why})`,
    skip: why !== '',
    config,
    spec: { hypervisor: 'gvisor' },
  }
}

/**
 * Returns the path of gVisor's program: `MOTE_RUNSC_BIN`, or one that is downloaded once. It is not stored in the
 * agents' cache, because agents of other tests would then use gVisor, too.
 */
async function testRunsc(): Promise<{ runsc: string | null; why: string }> {
  if (vmmPrograms.runsc !== null) return { runsc: vmmPrograms.runsc, why: '' }
  const say = (line: string) => process.stderr.write(`${line}\n`)
  const limit = AbortSignal.timeout(minutes(15))
  return installRunsc(join(homeDir(), '.cache/mote-tests'), say, limit).then(
    runsc => ({ runsc, why: '' }),
    (error: unknown) => ({ runsc: null, why: error instanceof Error ? error.message : String(error) }),
  )
}

/** Returns the configuration for tests on gVisor, and why they cannot run on this machine. */
async function gvisorConfig(): Promise<{ why: string; config: Partial<AgentConfig> }> {
  if (process.getuid?.() !== 0) return { why: 'needs root', config: {} }
  const runsc = await testRunsc()
  const config: Partial<AgentConfig> = { hypervisor: 'gvisor', network: 'tap', programs: { ...vmmPrograms, ...runsc } }
  if (runsc.runsc === null) return { why: runsc.why, config }
  await using dir = await testDir()
  const whole = agentConfig({ dataDir: resolve(dir.path), hostName: 'probe', ...config })
  const network = await openNetwork(whole)
  const drivers = await createDrivers(whole, network, () => undefined)
  const probe = await drivers.get('gvisor')?.probe(AbortSignal.timeout(60_000))
  await network.close()
  return { why: probe?.available ? '' : (probe?.detail ?? 'no such driver'), config }
}

/** Returns a case for each driver, for tests of behavior that all drivers share. Cached, because it boots probe VMs. */
export const driverCases = once(async (): Promise<readonly DriverCase[]> => {
  const root = process.getuid?.() === 0
  const hasQemu = ['/usr/bin/qemu-system-x86_64', '/usr/local/bin/qemu-system-x86_64'].some(existsSync)
  const qemuSkip = hasQemu ? '' : ' (skipped: install qemu-system-x86 skopeo umoci)'
  const withTap = hasQemu && root
  // With every change, migration-volumes.test.ts and the tests of builds boot guests with a user network. So where taps
  // work, this case runs only in `npm run test:all`.
  const userNetwork: DriverCase = {
    name: `qemu, user network${qemuSkip}`,
    skip: !hasQemu,
    spec: {},
    config: { hypervisor: 'qemu', network: 'user' },
  }
  return [
    { name: 'fake', skip: false, config: { hypervisor: 'fake' }, spec: { hypervisor: 'fake' } },
    ...(withTap && !runsAll ? [] : [userNetwork]),
    {
      name: `qemu, tap${root ? qemuSkip : ' (skipped: needs root)'}`,
      skip: !withTap,
      spec: {},
      config: { hypervisor: 'qemu', network: 'tap' },
    },
    await realVmm('firecracker'),
    await realVmm('cloud-hypervisor'),
    await gvisorCase(),
  ]
})
