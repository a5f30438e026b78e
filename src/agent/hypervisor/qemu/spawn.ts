import { childEnv } from '../../../lib/child-env.ts'
import type { Launcher } from '../../launcher/launcher.ts'
import { tapFd, withoutNetwork } from '../netless.ts'
import { launchVmm, type VmmProcess } from '../process.ts'

export const qemuBinary = 'qemu-system-x86_64'

export interface QemuStart {
  readonly dir: string
  readonly args: readonly string[]
  readonly env?: Readonly<Record<string, string>>
  /** If absent, QEMU stays in the host's network namespace. */
  readonly apart?: ApartFromHost
  /** See `launchVmm`. */
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

/** QEMU runs in a network namespace of its own, with the tap as `tapNetdev`. */
export interface ApartFromHost {
  readonly netless: string
  readonly tap: string
}

export const tapNetdev = `tap,id=n0,fd=${tapFd}`
