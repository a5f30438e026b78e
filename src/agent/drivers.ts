import { resolve } from 'node:path'
import type { HypervisorName } from '../contract/agent.ts'
import { findProgram } from '../lib/programs.ts'
import type { AgentConfig } from './config.ts'
import { ensureKernel, type GuestKernel } from './guest/kernel.ts'
import type { Driver } from './hypervisor/driver.ts'
import { fakeDriver } from './hypervisor/fake/driver.ts'
import { cloudHypervisorDriver } from './hypervisor/cloud-hypervisor/driver.ts'
import type { FirecrackerPrograms } from './hypervisor/firecracker/cell.ts'
import { firecrackerDriver } from './hypervisor/firecracker/driver.ts'
import { createFakeHost, type FakeHost } from './hypervisor/fake/host.ts'
import { openIsolation } from './hypervisor/isolation.ts'
import { qemuDriver } from './hypervisor/qemu/driver.ts'
import { imageStore } from './image/store.ts'
import type { Network } from './net/net.ts'

/** The hypervisors this agent offers, by the configuration. */
export async function createDrivers(
  config: AgentConfig,
  network: Network,
  onProgress: (line: string) => void,
  fake: FakeHost | undefined,
): Promise<ReadonlyMap<HypervisorName, Driver>> {
  if (config.hypervisor === 'fake') {
    return new Map([['fake', fakeDriver(fake ?? createFakeHost(config.fake), resolve(config.dataDir))]])
  }
  const cacheDir = resolve(config.cacheDir)
  const images = imageStore({ ...config, cacheDir, imageDir: resolve(config.imageDir) })
  const kernelWith = (...needs: readonly string[]) =>
    retriable(() => ensureKernel(cacheDir, onProgress, config.kernelDir ?? undefined, needs))
  const { bootLimitMs, migrationHost } = config
  const dataDir = resolve(config.dataDir)
  const isolation = await openIsolation(dataDir)
  const shared = { cacheDir, dataDir, images, network: closedOnce(network), bootLimitMs, migrationHost, isolation }
  const all: readonly Driver[] = [
    qemuDriver({ ...shared, kernel: kernelWith() }),
    firecrackerDriver({
      ...{ ...shared, ports: 'vsock', programs: await firecrackerPrograms(config) },
      kernel: kernelWith('CONFIG_VIRTIO_VSOCKETS', 'CONFIG_VIRTIO_MMIO'),
    }),
    cloudHypervisorDriver({
      ...{ ...shared, ports: 'vsock', program: await programOf(config.programs.cloudHypervisor, 'cloud-hypervisor') },
      kernel: kernelWith('CONFIG_VIRTIO_VSOCKETS', 'CONFIG_VIRTIO_PCI', 'CONFIG_ACPI'),
    }),
  ]
  const offered = all.filter(({ name }) => config.hypervisor === 'auto' || config.hypervisor === name)
  return new Map(offered.map(driver => [driver.name, driver]))
}

async function firecrackerPrograms({ programs }: AgentConfig): Promise<FirecrackerPrograms | undefined> {
  const firecracker = await programOf(programs.firecracker, 'firecracker')
  if (firecracker === undefined) return undefined
  return { firecracker, jailer: await programOf(programs.jailer, 'jailer') }
}

/** An absolute path: VMMs are started in directories of their own. */
async function programOf(given: string | null, name: string): Promise<string | undefined> {
  return given === null ? findProgram(name) : resolve(given)
}

/** The drivers share it, and each closes what it was given. */
function closedOnce(network: Network): Network {
  let closing: Promise<void> | undefined
  return { ...network, close: () => (closing ??= network.close()) }
}

/** One result for all callers; a failure is not kept, so that the next caller tries again. */
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
