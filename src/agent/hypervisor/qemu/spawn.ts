import { spawnVmm, type VmmProcess } from '../process.ts'

export const qemuBinary = 'qemu-system-x86_64'

/**
 * Starts QEMU in a session of its own, so that it outlives the agent, with the VM's directory as working directory.
 * @throws Error when the program is not installed.
 */
export function spawnQemu(
  dir: string,
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<VmmProcess> {
  return spawnVmm({ name: 'QEMU', program: qemuBinary, args, dir, env: { ...process.env, ...env } })
}
