import { createHash } from 'node:crypto'
import { chown, mkdir, readdir, readFile, rm, stat, symlink, truncate, writeFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { hasCode } from '../../../lib/files.ts'
import { identifyProcess, type ProcessIdentity } from '../../../lib/process-identity.ts'
import { unbindBelow } from '../bind.ts'
import type { VmUser } from '../isolation.ts'
import { spawnVmm, type VmmNetwork, type VmmProcess } from '../process.ts'
import type { VmmCell } from '../vmm/cell.ts'

/** Absolute paths of the programs. Without a jailer, the agent itself starts Firecracker as the VM's user. */
export interface FirecrackerPrograms {
  readonly firecracker: string
  readonly jailer: string | undefined
}

/** Jail directory of a Firecracker process: with the jailer its root directory, otherwise its working directory. */
export interface Cell extends VmmCell {
  /** Value of Firecracker's `--id`, which identifies the VM among all processes of the host. */
  readonly id: string
}

export const title = 'Firecracker'

/** Name of the jail directory in the VM's directory; with the jailer, a link to the nested directory it requires. */
export const cellName = 'cell'
const jailName = 'jail'
export const apiSocket = 'api.sock'
export const vsockSocket = 'vsock.sock'
export const consoleFile = 'console'
/** File of the placeholder drives to which no volume is attached. */
export const emptyDrive = 'empty.img'
const emptyBytes = 2 ** 20

/**
 * Returns Firecracker's `--id` for a VM: at most 64 letters, digits and hyphens (Firecracker docs/jailer.md). The first
 * half identifies the agent.
 */
export function cellId(dataDir: string, vmId: string): string {
  return `${agentPrefix(dataDir)}${hash(vmId).slice(0, 20)}`
}

function agentPrefix(dataDir: string): string {
  return `mote-${hash(dataDir).slice(0, 12)}-`
}

/** Creates an empty jail directory in the VM's directory. Removes an existing one first. */
export async function makeCell(
  { dir, id }: { readonly dir: string; readonly id: string },
  { firecracker, jailer }: FirecrackerPrograms,
  user: VmUser | undefined,
): Promise<Cell> {
  const cell = join(dir, cellName)
  await removeCell(dir)
  const inside = jailer && user ? join(jailName, basename(firecracker), id, 'root') : undefined
  if (inside) {
    await mkdir(join(dir, inside), { recursive: true, mode: 0o700 })
    await symlink(inside, cell)
  } else await mkdir(cell, { mode: 0o700 })
  if (user) await chown(cell, user.uid, user.gid)
  await writeFile(join(cell, consoleFile), '', { mode: 0o600 })
  await writeFile(join(cell, emptyDrive), '', { mode: 0o600 })
  await truncate(join(cell, emptyDrive), emptyBytes)
  if (user) for (const name of [consoleFile, emptyDrive]) await chown(join(cell, name), user.uid, user.gid)
  return { dir: cell, user, id }
}

export async function removeCell(dir: string): Promise<void> {
  for (const name of [cellName, jailName]) {
    await unbindBelow(join(dir, name))
    await rm(join(dir, name), { recursive: true, force: true })
  }
}

/**
 * Starts Firecracker in its jail directory. The jailer, if installed, gives Firecracker its own root directory, device
 * nodes and user. Firecracker's seccomp filters are on by default.
 */
export async function spawnFirecracker(
  vmDir: string,
  cell: Cell,
  { firecracker, jailer }: FirecrackerPrograms,
  network: VmmNetwork,
): Promise<VmmProcess> {
  const own = ['--api-sock', apiSocket, '--level', 'Error']
  const common = { name: title, dir: vmDir, env: {}, network }
  if (!jailer || !cell.user) {
    const args = ['--id', cell.id, ...own]
    return spawnVmm({ ...common, program: firecracker, args, cwd: cell.dir, ...(cell.user ? { user: cell.user } : {}) })
  }
  const { uid, gid } = cell.user
  const args = [
    ...['--id', cell.id, '--exec-file', firecracker, '--uid', String(uid), '--gid', String(gid)],
    ...['--chroot-base-dir', join(vmDir, jailName), '--cgroup-version', '2', '--parent-cgroup', 'mote-none'],
    ...['--resource-limit', 'no-file=256', '--', ...own],
  ]
  return spawnVmm({ ...common, program: jailer, args })
}

/**
 * Finds the Firecrackers of this agent by `--id` on their command line. With the jailer, a process cannot be found by
 * its working directory.
 */
export async function findCells(dataDir: string): Promise<Array<{ id: string; process: ProcessIdentity }>> {
  const found: Array<{ id: string; process: ProcessIdentity }> = []
  for (const name of await readdir('/proc')) {
    const pid = Number(name)
    if (!Number.isInteger(pid)) continue
    const args = (await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')).split('\0')
    const id = args[args.indexOf('--id') + 1] ?? ''
    const process = args.includes('--id') && id.startsWith(agentPrefix(dataDir)) ? identifyProcess(pid) : undefined
    if (process) found.push({ id, process })
  }
  return found
}

/**
 * Returns the serial that Firecracker assigns to a drive: device, device type and inode of the drive's file, truncated
 * to 20 bytes (`build_device_id` of its virtio block device). Firecracker has no option for another serial.
 */
export async function driveSerial(file: string): Promise<string> {
  const { dev, rdev, ino } = await stat(file, { bigint: true })
  return `${dev}${rdev}${ino}`.slice(0, 20)
}

/** Returns the last console output. Firecracker's rate limiter limits the size of the file, which the guest fills. */
export async function consoleTail(vmDir: string): Promise<string> {
  try {
    const text = await readFile(join(vmDir, cellName, consoleFile), 'latin1')
    return text
      .slice(-4096)
      .replace(/[^\x20-\x7e\n]/g, '')
      .trim()
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return ''
    throw error
  }
}

function hash(text: string): string {
  return createHash('sha256').update(text).digest('hex')
}
