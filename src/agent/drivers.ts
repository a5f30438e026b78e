import { resolve } from 'node:path'
import type { HypervisorName } from '../contract/agent.ts'
import { privateDir } from '../lib/files.ts'
import { findProgram } from '../lib/programs.ts'
import type { AgentConfig } from './base/config.ts'
import { ensureKernel, type GuestKernel } from './guest/kernel.ts'
import type { Driver } from './hypervisor/driver.ts'
import { fakeDriver } from './hypervisor/fake/driver.ts'
import { cloudHypervisorPlatform } from './hypervisor/cloud-hypervisor/platform.ts'
import type { FirecrackerPrograms } from './hypervisor/firecracker/cell.ts'
import { firecrackerPlatform } from './hypervisor/firecracker/platform.ts'
import { createFakeHost, type FakeHost } from './hypervisor/fake/host.ts'
import { openIsolation } from './hypervisor/isolation.ts'
import { buildNetless } from './hypervisor/netless.ts'
import { qemuDriver } from './hypervisor/qemu/driver.ts'
import { vmmDriver } from './hypervisor/vmm/driver.ts'
import type { Platform } from './hypervisor/vmm/platform.ts'
import { gvisorDriver } from './hypervisor/gvisor/driver.ts'
import { installedRunsc } from './hypervisor/gvisor/install.ts'
import type { AskLogin } from './image/access.ts'
import { imageStore } from './image/store.ts'
import { type Launcher, noLauncher } from './launcher/launcher.ts'
import type { Network } from './net/net.ts'

export interface DriverParts {
  readonly fake?: FakeHost | undefined
  readonly launcher?: Launcher
  readonly askLogin?: AskLogin
}

/** Creates the drivers of the hypervisors that this agent offers according to its configuration. */
export async function createDrivers(
  config: AgentConfig,
  network: Network,
  onProgress: (line: string) => void,
  { fake, launcher = noLauncher, askLogin }: DriverParts = {},
): Promise<ReadonlyMap<HypervisorName, Driver>> {
  if (config.hypervisor === 'fake') {
    return new Map([['fake', fakeDriver(fake ?? createFakeHost(config.fake), resolve(config.dataDir))]])
  }
  const cacheDir = resolve(config.cacheDir)
  const imageDir = resolve(config.imageDir)
  await privateDir(imageDir)
  const images = imageStore({ ...config, cacheDir, imageDir, ...(askLogin ? { askLogin } : {}) })
  const kernel = retriable(() => ensureKernel(cacheDir, onProgress, config.kernel))
  const { bootLimitMs } = config
  const migrationHost = () => arrivalHost(config, network)
  const dataDir = resolve(config.dataDir)
  const isolation = await openIsolation(dataDir, await netlessFor(network, cacheDir, onProgress), config.diskLimits)
  const shared = { cacheDir, dataDir, images, network: closedOnce(network), bootLimitMs, migrationHost, isolation }
  const all: readonly Driver[] = [
    qemuDriver({
      ...shared,
      launcher,
      kernel,
      templateMib: config.templateMib,
      onError: error => onProgress(`a VM template is not used: ${String(error)}`),
    }),
    ...(await vmmPlatforms(config)).map(platform => vmmDriver({ ...shared, ports: 'vsock', kernel }, platform)),
    gvisorDriver({
      ...shared,
      launcher,
      kernel: undefined,
      program: await runscOf(config),
      onProgress,
    }),
  ]
  const offered = all.filter(({ name }) => config.hypervisor === 'auto' || config.hypervisor === name)
  return new Map(offered.map(driver => [driver.name, driver]))
}

/**
 * Returns the program that starts a VMM in its own network namespace; undefined if it cannot be compiled. VMMs then run
 * in the host's namespace, where the firewall drops the packets of their users.
 */
async function netlessFor({ mode }: Network, cacheDir: string, onProgress: (line: string) => void) {
  if (mode !== 'tap') return undefined
  return buildNetless(cacheDir).catch((error: unknown) => {
    onProgress(`VMMs stay in the network namespace of the host: ${String(error)}`)
    return undefined
  })
}

/**
 * Returns the address on which this host receives VMs. In a mesh, it is an address that the mesh routes to this host,
 * because other hosts cannot reach the default, loopback.
 */
export function arrivalHost({ migrationHost, meshEndpoint }: AgentConfig, { ipv4 }: Network): string {
  return meshEndpoint !== null && ipv4 && migrationHost === '127.0.0.1' ? ipv4.gateway : migrationHost
}

/** Returns the platforms of the VMMs with an API socket: Firecracker and Cloud Hypervisor. */
export async function vmmPlatforms(config: Pick<AgentConfig, 'dataDir' | 'programs'>): Promise<readonly Platform[]> {
  const programs = await firecrackerPrograms(config)
  const program = await programOf(config.programs.cloudHypervisor, 'cloud-hypervisor')
  return [firecrackerPlatform({ dataDir: resolve(config.dataDir), programs }), cloudHypervisorPlatform({ program })]
}

async function firecrackerPrograms({
  programs,
}: Pick<AgentConfig, 'programs'>): Promise<FirecrackerPrograms | undefined> {
  const firecracker = await programOf(programs.firecracker, 'firecracker')
  if (firecracker === undefined) return undefined
  return { firecracker, jailer: await programOf(programs.jailer, 'jailer') }
}

/** Returns an absolute path, because VMMs are started in their own directories. */
async function programOf(given: string | null, name: string): Promise<string | undefined> {
  return given === null ? findProgram(name) : resolve(given)
}

/** Returns the path of runsc: the configured one, the one that Mote installed, or the one on the PATH. */
export async function runscOf({
  programs,
  cacheDir,
}: Pick<AgentConfig, 'programs' | 'cacheDir'>): Promise<string | undefined> {
  if (programs.runsc !== null) return resolve(programs.runsc)
  return installedRunsc(resolve(cacheDir)) ?? (await findProgram('runsc'))
}

/** Makes `close` of the network take effect only once: all drivers share the network, and each of them closes it. */
function closedOnce(network: Network): Network {
  let closing: Promise<void> | undefined
  return {
    ...network,
    get probeFrom() {
      return network.probeFrom
    },
    get ipv4() {
      return network.ipv4
    },
    get resolver() {
      return network.resolver
    },
    close: () => (closing ??= network.close()),
  }
}

/** Returns a function that calls `make` once and shares its result. After a failure, the next call tries again. */
function retriable(make: () => Promise<GuestKernel>): () => Promise<GuestKernel> {
  let made: Promise<GuestKernel> | undefined
  return () => {
    made ??= make().catch((error: unknown) => {
      made = undefined
      throw error
    })
    return made
  }
}
