import { resolve } from 'node:path'
import { type AgentConfig, agentConfig } from '../config.ts'
import { createDrivers } from '../drivers.ts'
import { openNetwork } from '../net/open.ts'
import { testDir } from '../testing.ts'

/** The programs that tests use; their variables are those of the settings. */
export const vmmPrograms = {
  firecracker: process.env.MOTE_FIRECRACKER_BIN ?? null,
  jailer: process.env.MOTE_JAILER_BIN ?? null,
  cloudHypervisor: process.env.MOTE_CLOUD_HYPERVISOR_BIN ?? null,
} as const

/** How to run tests with a real VMM, and why not: it is not named, or its proof boot fails here. */
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
  const drivers = await createDrivers(whole, network, () => undefined, undefined)
  const probe = await drivers.get(name)?.probe(AbortSignal.timeout(60_000))
  await network.close()
  return { why: probe?.available ? '' : (probe?.detail ?? 'no such driver'), config }
}
