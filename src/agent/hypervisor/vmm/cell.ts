import { realpath } from 'node:fs/promises'
import { join } from 'node:path'
import { showFile, type VmUser } from '../isolation.ts'

/**
 * The jail directory of one VMM process: its root directory with Firecracker's jailer, otherwise its working
 * directory. It contains all files and sockets of the VMM, which opens them by relative names.
 */
export interface VmmCell {
  readonly dir: string
  /** The user that the VMM runs as; undefined if it runs as the agent's user. */
  readonly user: VmUser | undefined
}

/** Names in the jail directory of the files that every guest needs to start. */
export const cellFiles = {
  kernel: 'vmlinux',
  initrd: 'init.cpio',
  base: 'base.img',
  scratch: 'scratch.img',
  config: 'config.img',
} as const

/** Name in the jail directory of the VM's additional drive with this index. */
export const driveFile = (index: number) => `drive-${index}.img`

/** Makes a file available in the jail directory under this name. With `write`, the VMM's user becomes its owner. */
export async function place(cell: VmmCell, from: string, name: string, access: 'read' | 'write'): Promise<void> {
  await showFile(await realpath(from), join(cell.dir, name), cell.user, access)
}
