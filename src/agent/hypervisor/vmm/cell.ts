import { realpath } from 'node:fs/promises'
import { join } from 'node:path'
import { showFile, type VmUser } from '../isolation.ts'

/** The place that one VMM's process was given: all its files and sockets are here, and their names are relative to it. */
export interface VmmCell {
  readonly dir: string
  /** Whose rights the process has; undefined: the agent's. */
  readonly user: VmUser | undefined
}

/** What every guest is started from, under the names that its VMM knows. */
export const cellFiles = {
  kernel: 'vmlinux',
  initrd: 'init.cpio',
  base: 'base.img',
  scratch: 'scratch.img',
  config: 'config.img',
} as const

/** A drive that comes with the VM, under a name that no other file in a cell has. */
export const driveFile = (index: number) => `drive-${index}.img`

/** Shows a file in the cell under this name. `write`: it becomes the VMM's own. */
export async function place(cell: VmmCell, from: string, name: string, access: 'read' | 'write'): Promise<void> {
  await showFile(await realpath(from), join(cell.dir, name), cell.user, access)
}
