import { statSync } from 'node:fs'
import { chmod, mkdir, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Frame } from '../../../src/agent/guest/frames.ts'
import type { RunConfig } from '../../../src/agent/image/config.ts'
import type { Network } from '../../../src/agent/net/net.ts'
import { userNetwork } from '../../../src/agent/net/user.ts'
import { testSpec } from './agent.ts'
import { cloudHypervisorPlatform } from '../../../src/agent/hypervisor/cloud-hypervisor/platform.ts'
import type { Driver, RunningVm, VmHome, Watcher } from '../../../src/agent/hypervisor/driver.ts'
import type { PrepareContext } from '../../../src/agent/base/prepare-context.ts'
import { firecrackerPlatform } from '../../../src/agent/hypervisor/firecracker/platform.ts'
import { type Isolation, noIsolation } from '../../../src/agent/hypervisor/isolation.ts'
import { type VmmDriverDeps, vmmDriver } from '../../../src/agent/hypervisor/vmm/driver.ts'

/**
 * Runs the Firecracker and Cloud Hypervisor drivers with strict fakes of these programs, because CI has neither the
 * real programs nor KVM. Other tests compare the fakes with recorded transcripts of the real programs.
 */
export const fakedVmms = [
  {
    name: 'firecracker',
    platform: (dataDir: string, program: string) =>
      firecrackerPlatform({ dataDir, programs: { firecracker: program, jailer: undefined } }),
  },
  {
    name: 'cloud-hypervisor',
    platform: (_dataDir: string, program: string) => cloudHypervisorPlatform({ program }),
  },
] as const

/**
 * Returns why a fake cannot run as its VM's user, or undefined if it can. That user cannot run Node from a home
 * directory that only its owner may enter. The real VMM does not have this problem, because it is copied into its VM's
 * directory.
 */
export function unreachable({ name }: (typeof fakedVmms)[number]): string | undefined {
  if (name !== 'firecracker') return undefined // only Firecracker runs as the VM's user
  for (let dir = dirname(process.execPath); dir !== '/'; dir = dirname(dir))
    if ((statSync(dir).mode & 0o001) === 0) return `other users cannot enter ${dir}`
  return undefined
}

/** Returns a driver that runs the fake program, with files below `root`. */
export async function fakedHost(
  { name, platform }: (typeof fakedVmms)[number],
  root: string,
  isolation = noIsolation,
  network: Network = loopback(),
): Promise<{ driver: Driver; program: string }> {
  const program = join(root, `${name}-fake`)
  const child = fileURLToPath(new URL(`./hypervisor/${name}-child.ts`, import.meta.url))
  await writeFile(program, `#!/bin/sh\nexec '${process.execPath}' '${child}' "$@"\n`)
  await chmod(program, 0o755)
  for (const file of ['vmlinux', 'init.cpio', 'base.erofs']) await writeFile(join(root, file), 'fake')
  return { driver: vmmDriver(depsIn(root, isolation, network), platform(root, program)), program }
}

/** Returns the driver's dependencies, as the agent would pass them, but with a fake image, kernel and network. */
function depsIn(root: string, isolation: Isolation, network: Network): VmmDriverDeps {
  const config: RunConfig = {
    digest: 'sha256:0',
    baseType: 'erofs',
    argv: { entrypoint: ['/bin/app'], cmd: [] },
    env: {},
    cwd: '/',
    uid: 1,
    gid: 1,
    groups: [],
    stopSignal: 15,
  }
  return {
    cacheDir: root,
    isolation,
    bootLimitMs: 30_000,
    migrationHost: () => '127.0.0.1',
    images: { base: async () => ({ file: join(root, 'base.erofs'), config }) },
    network,
    kernel: async () => ({
      kernel: join(root, 'vmlinux'),
      initrd: join(root, 'init.cpio'),
      version: '0',
      devices: 'acpi',
    }),
    ports: 'vsock',
  }
}

/** Returns a network in which every VM's device is the host's loopback, so that the driver can read its counters. */
function loopback(): Network {
  const network = userNetwork()
  return { ...network, mode: 'tap', connect: async (id, port) => ({ ...(await network.connect(id, port)), tap: 'lo' }) }
}

export async function homeIn(root: string, vmId: string): Promise<VmHome> {
  const dir = join(root, 'vms', vmId)
  await mkdir(dir, { recursive: true })
  return { vmId, dir, spec: testSpec({ diskMib: 16 }) }
}

export function context(steps: string[] = []): PrepareContext {
  return {
    time: (name, step) => {
      steps.push(name)
      return step()
    },
    say: () => undefined,
    signal: new AbortController().signal,
  }
}

export async function bring(
  driver: Driver,
  home: VmHome,
  observed: Watcher,
): Promise<{ runningVm: RunningVm; steps: string[] }> {
  const steps: string[] = []
  const prepared = await driver.prepare(home, context())
  return { runningVm: await driver.boot(home, prepared, 1, observed, context(steps)), steps }
}

export function watcher(): Watcher & { lines: Frame[]; gone: string[] } {
  const lines: Frame[] = []
  const gone: string[] = []
  return {
    lines,
    gone,
    onFrames: frames => void lines.push(...frames),
    onExit: () => undefined,
    onBroken: () => undefined,
    onGone: detail => void gone.push(detail),
  }
}
