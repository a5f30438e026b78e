import { childEnv } from '../../../lib/child-env.ts'
import type { Launcher } from '../../launcher/launcher.ts'
import { tapFd, withoutNetwork } from '../netless.ts'
import { launchVmm, type VmmProcess } from '../process.ts'

export const qemuBinary = 'qemu-system-x86_64'

export interface QemuStart {
  readonly dir: string
  readonly args: readonly string[]
  readonly env?: Readonly<Record<string, string>>
  /** Set if QEMU runs in its own network namespace; otherwise QEMU runs in the host's. */
  readonly apart?: ApartFromHost
  /** Directory of the cgroup in which QEMU starts (see `launchVmm`). */
  readonly cgroup?: string
}

/**
 * Starts QEMU in its own session, so that it outlives the agent. Its working directory is the VM's directory.
 * @throws Error when the program is not installed.
 */
export function spawnQemu(launcher: Launcher, { dir, args, env, apart, cgroup }: QemuStart): Promise<VmmProcess> {
  const command = apart ? withoutNetwork(apart.netless, apart.tap, qemuBinary, args) : { program: qemuBinary, args }
  return launchVmm(launcher, { name: 'QEMU', ...command, dir, env: childEnv(qemuBinary, { own: env }) }, cgroup)
}

/** What QEMU needs to run in its own network namespace: the program that creates it, and the VM's tap. */
export interface ApartFromHost {
  readonly netless: string
  readonly tap: string
}

export const tapNetdev = `tap,id=n0,fd=${tapFd}`
