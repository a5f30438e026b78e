import { realpath } from 'node:fs/promises'
import { join } from 'node:path'
import { showFile, type VmUser } from '../isolation.ts'

/**
 * The jail directory ("cell") of one VMM process: its root directory with Firecracker's jailer, otherwise its working
 * directory. It contains all its files and sockets, which the VMM opens by relative names.
 */
export interface VmmCell {
  readonly dir: string
  /** User of the process; undefined if it is the agent's. */
  readonly user: VmUser | undefined
}

/** Names in the jail directory of the files that every guest starts from. */
export const cellFiles = {
  kernel: 'vmlinux',
  initrd: 'init.cpio',
  base: 'base.img',
  scratch: 'scratch.img',
  config: 'config.img',
} as const

/** Name in the jail directory of a VM's additional drive. */
export const driveFile = (index: number) => `drive-${index}.img`

/** Makes a file available in the jail directory under this name. With `write`, the VMM's user becomes its owner. */
export async function place(cell: VmmCell, from: string, name: string, access: 'read' | 'write'): Promise<void> {
  await showFile(await realpath(from), join(cell.dir, name), cell.user, access)
}
