import { resolve } from 'node:path'
import type { HypervisorName } from '../contract/agent.ts'
import type { AgentConfig } from './config.ts'
import { ensureKernel, type GuestKernel } from './guest/kernel.ts'
import type { Driver } from './hypervisor/driver.ts'
import { fakeDriver } from './hypervisor/fake/driver.ts'
import { createFakeHost, type FakeHost } from './hypervisor/fake/host.ts'
import { qemuDriver } from './hypervisor/qemu/driver.ts'
import { imageStore } from './image/store.ts'
import { openNetwork } from './net/open.ts'

/** The hypervisors this agent offers, by the configuration. */
export async function createDrivers(
  config: AgentConfig,
  onProgress: (line: string) => void,
  fake: FakeHost | undefined,
): Promise<ReadonlyMap<HypervisorName, Driver>> {
  if (config.hypervisor === 'fake') {
    return new Map([['fake', fakeDriver(fake ?? createFakeHost(config.fake), resolve(config.dataDir))]])
  }
  const cacheDir = resolve(config.cacheDir)
  const images = imageStore({ ...config, cacheDir, imageDir: resolve(config.imageDir) })
  const network = await openNetwork(config)
  const kernel = retriable(() => ensureKernel(cacheDir, onProgress, config.kernelDir ?? undefined))
  const { bootLimitMs, migrationHost } = config
  return new Map([['qemu', qemuDriver({ cacheDir, images, network, kernel, bootLimitMs, migrationHost })]])
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
