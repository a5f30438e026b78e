import { tapFd, withoutNetwork } from '../netless.ts'
import { spawnVmm, type VmmProcess } from '../process.ts'

export const qemuBinary = 'qemu-system-x86_64'

/**
 * Starts QEMU in a session of its own, so that it outlives the agent, with the VM's directory as working directory.
 * @param apart left out: it stays in the host's network namespace
 * @throws Error when the program is not installed.
 */
export function spawnQemu(
  dir: string,
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
  apart?: ApartFromHost,
): Promise<VmmProcess> {
  const command = apart ? withoutNetwork(apart.netless, apart.tap, qemuBinary, args) : { program: qemuBinary, args }
  return spawnVmm({ name: 'QEMU', ...command, dir, env: { ...process.env, ...env } })
}

/** In a network namespace of its own, with the tap as `tapNetdev`. */
export interface ApartFromHost {
  readonly netless: string
  readonly tap: string
}

export const tapNetdev = `tap,id=n0,fd=${tapFd}`
